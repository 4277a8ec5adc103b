"""Runs signatures of SavedModels in a separate process, with TensorFlow and TF-Text but without this package.

    python -I probe_runner.py REQUESTS ANSWERS

Both are JSON files. The requests are a list of `{"directory": ..., "calls": [[signature, inputs], ...]}`, where inputs
are `{"shape": ..., "values": ...}` by name, with flattened values. The answers, in the same order, contain
`signatures`, the names of the outputs of each, and `answers`, with `dtype`, `shape` and `values` by name of the output;
or `error`, for a SavedModel or for a call. A character of a string represents a byte (Latin-1), `null` a number that is
not finite.
"""

import gc
import json
import math
import pathlib
import sys

if __name__ == "__main__":
    gc.disable()  # Until the end of the imports, a quarter of whose time it takes.
    sys.modules["keras_bert"] = None  # type: ignore[assignment]  # Importing this package fails.

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers its ops)


def main(requests, answers):
    gc.freeze()
    gc.enable()
    saved_models = json.loads(pathlib.Path(requests).read_text())
    all_answers = [answer(**saved_model) for saved_model in saved_models]
    pathlib.Path(answers).write_text(json.dumps(all_answers, allow_nan=False))


def answer(directory, calls):
    """Returns the signatures of a SavedModel and its answers to the calls."""
    try:
        loaded = tf.saved_model.load(directory)
    except Exception as error:  # Damaged files raise many types.
        return {"error": _one_line(error)}
    outputs = {}
    for name, function in loaded.signatures.items():
        outputs[name] = sorted(function.structured_outputs)
    answers = [_call(loaded.signatures, name, inputs) for name, inputs in calls]
    return {"signatures": outputs, "answers": answers}


def _call(signatures, name, inputs):
    """Returns the outputs of a signature, or an error."""
    if name not in signatures:
        return {"error": "there is no such signature"}
    function = signatures[name]
    _, specs = function.structured_input_signature
    if set(specs) != set(inputs):
        return {"error": f"takes {', '.join(sorted(specs))}"}
    try:
        tensors = {key: _tensor(value, specs[key].dtype) for key, value in inputs.items()}
        outputs = function(**tensors)
    except Exception as error:  # Graphs raise many types.
        return {"error": _one_line(error)}
    return {key: _as_json(value) for key, value in outputs.items()}


def _tensor(value, dtype):
    """Returns an input of a request as a tensor."""
    values = value["values"]
    if dtype == tf.string:
        values = [text.encode("latin-1") for text in values]
    return tf.constant(values, dtype, shape=value["shape"])


def _as_json(tensor):
    """Returns a tensor as an answer has it."""
    array = tensor.numpy().ravel()
    if tensor.dtype == tf.string:
        values = [value.decode("latin-1") for value in array]
    elif tensor.dtype.is_floating:
        numbers = array.astype(np.float64).tolist()
        values = [number if math.isfinite(number) else None for number in numbers]
    else:
        values = array.tolist()
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "values": values}


def _one_line(error):
    """Returns the type and the message of an error in a short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main(*sys.argv[1:])
