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
    jobs = json.loads(pathlib.Path(requests).read_text())
    found = [answer(**job) for job in jobs]
    pathlib.Path(answers).write_text(json.dumps(found, allow_nan=False))


def answer(directory, calls):
    """Returns the signatures of a SavedModel and its answers to the calls."""
    try:
        loaded = tf.saved_model.load(directory)
    except Exception as error:  # Damaged files raise many types.
        return {"error": _line(error)}
    return {
        "signatures": {name: sorted(function.structured_outputs) for name, function in loaded.signatures.items()},
        "answers": [_call(loaded.signatures, *call) for call in calls],
    }


def _call(signatures, name, inputs):
    if name not in signatures:
        return {"error": "there is no such signature"}
    function = signatures[name]
    specs = function.structured_input_signature[1]
    if set(specs) != set(inputs):
        return {"error": f"takes {', '.join(sorted(specs))}"}
    try:
        outputs = function(**{key: _tensor(value, specs[key].dtype) for key, value in inputs.items()})
    except Exception as error:  # Graphs raise many types.
        return {"error": _line(error)}
    return {key: _plain(value) for key, value in outputs.items()}


def _tensor(value, dtype):
    values = [text.encode("latin-1") for text in value["values"]] if dtype == tf.string else value["values"]
    return tf.constant(values, dtype, shape=value["shape"])


def _plain(tensor):
    values = tensor.numpy().ravel()
    if tensor.dtype == tf.string:
        values = [value.decode("latin-1") for value in values]
    elif tensor.dtype.is_floating:
        values = [value if math.isfinite(value) else None for value in values.astype(np.float64).tolist()]
    else:
        values = values.tolist()
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "values": values}


def _line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main(*sys.argv[1:])
