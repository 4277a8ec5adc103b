"""`keras_bert.export_litert`: a model for LiteRT, formerly TensorFlow Lite, on phones and small devices."""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_bert.checkpoints.save import described, is_quantized, runtime_folder
from keras_bert.exporting.fused_layers import ReadByGraphs
from keras_bert.exporting.runtimes import Runner, RuntimeReport, check_runtime
from keras_bert.layers.registry import positions_named
from keras_bert.text.signatures import on_ids

_FILE = "model.tflite"


def export_litert(
    model: keras.Model,
    preprocessor: Any,
    directory: str | os.PathLike,
    *,
    labels: Sequence | None = None,
    precision: Literal["float32", "int8"] = "float32",
    lengths: Sequence[int] | None = None,
    **settings,
) -> RuntimeReport:
    """Exports a model on token ids as `model.tflite`, with its tokenizer.

    Inputs, outputs and the other files of the folder are those of `export_onnx`. The file has built-in operations
    alone. Its signature is `tokens`, for sequences of any length; with `lengths`, it has one signature for each, such
    as `tokens_64`, which share the weights.

    LiteRT's interpreter computes probes with each signature before the folder is replaced; other answers than the
    Keras model's raise an error: `TOLERANCES` in `keras_bert.exporting.verification`. Needs ai-edge-litert.

    Args:
        model: a float32 model from `build_encoder` or from a builder of heads.
        preprocessor: a `TextPreprocessor`.
        directory: output directory, which is replaced: a new one, or that of an older export.
        labels: list of the class names, in the order of the logits. Defaults to `None`.
        precision: str, "float32"; or that of the weights: "float16", half the size, computed in float32; or "int8", a
            quarter of the size: activations are quantized when the file runs. Defaults to "float32".
        lengths: list of ints, the lengths of the sequences, for devices that prefer fixed shapes. Defaults to `None`,
            any length.
        **settings: `task`, `pair`, `null_threshold`, `thresholds`, `prompts`, `default_prompt_name` and
            `similarity_function`, as in `save`.

    Returns:
        A `RuntimeReport`, see `export_onnx`.

    Example:
        keras_bert.export_litert(bert.model(), bert.preprocessor(128), "exported/litert", precision="float16")
    """
    description = described(model, precision, ("float32", "float16", "int8"))
    _check_lengths(lengths, description)
    if is_quantized(description):
        raise ValueError("`model` must not be quantized, LiteRT quantizes it: export_litert(..., precision='int8')")
    with runtime_folder(description, preprocessor, directory, _FILE, labels, settings) as temporary:
        path = temporary / _FILE
        path.write_bytes(build_litert(model, precision, lengths))
        runners = []
        for name, length in signature_names(lengths).items():
            runners.append(Runner(litert_runner(path, name), length))
        tolerance = "dynamic_int8" if precision == "int8" else precision
        report = check_runtime(model, description, path, runners, tolerance)
    return dataclasses.replace(report, path=pathlib.Path(directory) / _FILE)


def _check_lengths(lengths, description):
    """Raises an error for what is not a list of different lengths that the model takes; `None` is any length."""
    if lengths is None:
        return
    limit = positions_named(description.positions).limit(description.config)
    if not _are_lengths(lengths, limit):
        most = f" of at most {limit} tokens" if limit else ""
        raise ValueError(f"`lengths` must be a list of different lengths{most}. Received: lengths={lengths}")


def _are_lengths(lengths, limit):
    """Returns whether a value is a list of different positive integers, none above the limit, if there is one."""
    if not isinstance(lengths, list | tuple) or not lengths:
        return False
    for length in lengths:
        if type(length) is not int or length < 1:
            return False
        if limit and length > limit:
            return False
    return len(set(lengths)) == len(lengths)


def build_litert(model, precision: str = "float32", lengths=None):
    """Returns the content of a LiteRT file, which contains only built-in operations.

    `precision` is "float32", or that of the weights: "float16", or "int8", for which activations are quantized when the
    file runs. `lengths` are those of the sequences, see `signature_names`; `None` for any length.
    """
    signatures = {name: on_ids(model, length) for name, length in signature_names(lengths).items()}
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(ReadByGraphs([weight.value for weight in model.weights]), folder, signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures))
        if precision != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if precision == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


def signature_names(lengths):
    """Returns the names of the signatures, and the length of the sequences that each takes: `tokens` takes any."""
    if lengths is None:
        return {"tokens": None}
    return {f"tokens_{length}": length for length in lengths}


def litert_runner(path, name):
    """Returns a function from a dict of int32 arrays to the dict of outputs, computed by a signature of a file."""
    # This interpreter has no operations of TensorFlow: a file that needs them fails.
    signature = Interpreter(str(path)).get_signature_runner(name)
    return lambda batch: signature(**batch)
