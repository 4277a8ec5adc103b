"""`keras_bert.export_onnx`: a model for ONNX Runtime and other programs that read ONNX."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import keras
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.quantization import quantize_dynamic

from keras_bert.checkpoints.save import described, is_quantized, runtime_folder
from keras_bert.exporting.onnx_model import build_onnx
from keras_bert.exporting.runtimes import Runner, RuntimeReport, check_runtime

_FILE = "model.onnx"


def export_onnx(
    model: keras.Model,
    preprocessor: Any,
    directory: str | os.PathLike,
    *,
    labels: Sequence | None = None,
    precision: Literal["float32", "int8"] = "float32",
    **settings,
) -> RuntimeReport:
    """Exports a model on token ids as `model.onnx`, with its tokenizer.

    Inputs and outputs are those of the Keras model, see `build_encoder` and the builders of heads: int32 ids, any batch
    size and length; masks are 0 or 1; lists, such as `hidden_states`, are left out. The file has standard operators of
    opset 17, in the patterns that ONNX Runtime's transformer optimizer fuses. `config.json` has the labels, in
    `id2label`, what makes the logit of a regression model its score, in `sentence_transformers.activation_fn`, and
    `sequence_length`, `long_texts` and the other facts in `keras_bert`; `tokenizer.json` and `vocab.txt` open in
    Hugging Face's libraries.

    ONNX Runtime computes probes with the file before the folder is replaced; other answers than the Keras model's
    raise an error: `TOLERANCES` in `keras_bert.exporting.verification`. Needs onnx and onnxruntime.

    Args:
        model: a float32 model from `build_encoder` or from a builder of heads.
        preprocessor: a `TextPreprocessor`.
        directory: output directory, which is replaced: a new one, or that of an older export.
        labels: list of the class names, in the order of the logits. Defaults to `None`.
        precision: str, "float32", or "int8": a quarter of the size; activations are quantized when the file runs.
            Defaults to "float32".
        **settings: `task`, `pair`, `null_threshold`, `thresholds`, `prompts`, `default_prompt_name` and
            `similarity_function`, as in `save`.

    Returns:
        A `RuntimeReport`: `path`, `size`, `difference` from the Keras model and `latencies`; printed, it is one line.

    Example:
        print(keras_bert.export_onnx(bert.model(), bert.preprocessor(128), "exported/onnx", labels=bert.labels))
    """
    description = described(model, precision, ("float32", "int8"))
    with runtime_folder(description, preprocessor, directory, _FILE, labels, settings) as temporary:
        path = temporary / _FILE
        proto = build_onnx(model, description)
        if precision == "int8":
            write_int8(proto, path)
        else:
            onnx.save(proto, path)
        is_rounded = precision == "int8" or is_quantized(description)
        tolerance = "dynamic_int8" if is_rounded else precision
        runners = [Runner(onnx_runner(path))]
        report = check_runtime(model, description, path, runners, tolerance)
    return dataclasses.replace(report, path=pathlib.Path(directory) / _FILE)


def write_int8(proto, path):
    """Writes a float32 ONNX model with dynamic quantization, in standard operators.

    Tables have one scale, kernels one for each output channel, activations one for each batch.
    """
    # The tool asks for pre-processing, which means shape inference and constant folding: there is nothing to fold.
    helper.set_model_props(proto, {"onnx.quant.pre_process": "onnxruntime.quant"})
    # With 8 bits, processors without VNNI (Intel before 2019, AMD before 2022) would silently overflow.
    quantize_dynamic(proto, str(path), per_channel=True, reduce_range=True)


def onnx_runner(path):
    """Returns a function from a dict of int32 arrays to the dict of outputs, computed by ONNX Runtime on the CPU."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(batch):
        return dict(zip(names, session.run(names, batch), strict=True))

    return run
