"""Models as LiteRT files of token ids, and their outputs from LiteRT's interpreter."""

import tempfile

import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_bert.text.signatures import on_ids


def build_litert(model, precision: str = "float32", lengths=None):
    """Returns the content of a LiteRT file, which contains only built-in operations.

    `precision` is "float32", or that of the weights: "float16", or "int8", for which activations are quantized when the
    file runs. `lengths` are those of the sequences, see `signature_names`; `None` for any length.
    """
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    signatures = {name: on_ids(model, length) for name, length in signature_names(lengths).items()}
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures))
        if precision != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if precision == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


def signature_names(lengths):
    """Returns the names of the signatures, and the length of the sequences that each takes: `tokens` takes any."""
    return {"tokens": None} if lengths is None else {f"tokens_{length}": length for length in lengths}


def litert_runner(path, name):
    """Returns a function from a dict of int32 arrays to the dict of outputs, computed by a signature of a file."""
    # This interpreter has no operations of TensorFlow: a file that needs them fails.
    signature = Interpreter(str(path)).get_signature_runner(name)
    return lambda batch: signature(**batch)
