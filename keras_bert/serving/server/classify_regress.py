"""The Classify and Regress APIs: `tf.train.Example`s in, labels with scores or numbers out."""

import math

import numpy as np
import tensorflow as tf

from keras_bert.serving.errors import RequestError, bad
from keras_bert.serving.server.saved_model import CLASSIFY
from keras_bert.serving.server.tensors import check_rows, to_bytes

_INPUT = "inputs"
_LARGEST = float(np.finfo(np.float32).max)
_FIELDS = {str: "bytes_list", dict: "bytes_list", bool: "int64_list", int: "int64_list", float: "float_list"}


def to_inputs(signature, method, examples):
    """Returns the inputs of a classify or regress signature: serialized examples."""
    if signature.method != method or set(signature.inputs) != {_INPUT}:
        raise bad(
            f"signature `{signature.name}` is not for {method.rsplit('/', 1)[-1]}: expected the method name {method} "
            f"and one input, `{_INPUT}`. Received: {signature.method or 'none'} and {signature.describe_inputs()}. "
            "Use predict instead"
        )
    return {_INPUT: np.array([example.SerializeToString() for example in examples], object)}


def from_json(request):
    """Parses `{"examples": [{feature: value or list of values, ...}, ...]}` into `tf.train.Example`s."""
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise bad('expected {"examples": [{"feature": value or list of values, ...}, ...]} with at least one example')
    context, parsed = request.get("context", {}), []
    if not isinstance(context, dict):
        raise bad(f"`context` must be an object of features. Received: {type(context).__name__}")
    for number, features in enumerate(examples):
        if not isinstance(features, dict):
            raise bad(f"example {number} must be an object of features. Received: {type(features).__name__}")
        example = tf.train.Example()
        for name, values in {**context, **features}.items():
            _fill(example, name, values if isinstance(values, list) else [values], f"of example {number}")
        parsed.append(example)
    return parsed


def _fill(example, name, values, where):
    fields = {_FIELDS.get(type(value)) for value in values}
    if len(fields) > 1 or None in fields:
        raise bad(f"feature `{name}` {where} must contain only strings, only integers or only floats")
    try:
        feature = example.features.feature[name]
        for field in fields:
            getattr(feature, field).value.extend(map(_CONVERSIONS[field], values))
    except (ValueError, TypeError) as error:
        raise bad(f"feature `{name}` {where}: {error}") from error


def _to_float(value):
    if math.isfinite(value) and abs(value) > _LARGEST:
        raise ValueError("a value is out of range for float32")
    return value


_CONVERSIONS = {"bytes_list": to_bytes, "int64_list": int, "float_list": _to_float}


def answer(method, outputs, rows):
    """Returns, for each row, a list of `(label, score)` (classify) or a number (regress)."""
    names = ("classes", "scores") if method == CLASSIFY else ("outputs",)
    if not set(names) & set(outputs):
        expected = " or ".join(f"`{name}`" for name in names)
        raise RequestError("FAILED_PRECONDITION", f"a signature for {method} must have the output {expected}")
    check_rows(outputs, rows)
    if method != CLASSIFY:
        return outputs["outputs"].reshape(rows).tolist()
    # A classify signature may have only one of the two outputs.
    some = next(outputs[name] for name in names if name in outputs)
    outputs = {"classes": np.full(some.shape, b"", object), "scores": np.zeros(some.shape), **outputs}
    return [
        [(label.decode("utf-8", "replace"), float(score)) for label, score in zip(*row, strict=True)]
        for row in zip(outputs["classes"], outputs["scores"], strict=True)
    ]
