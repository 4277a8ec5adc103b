"""Conversion between TensorFlow Serving's JSON and arrays or `tf.train.Example`s, and validation of request inputs."""

import base64
import math

import numpy as np
import tensorflow as tf

from keras_bert.serving.errors import RequestError, bad
from keras_bert.serving.server.saved_model import CLASSIFY, describe, is_batched

_TOGETHER = 4096  # Numbers that are formatted in one call, in which no other thread runs.
# Of `tf.train.Example`s: the input of a signature, and the fields of a feature.
_INPUT = "inputs"
_LARGEST = float(np.finfo(np.float32).max)
_FIELDS = {str: "bytes_list", dict: "bytes_list", bool: "int64_list", int: "int64_list", float: "float_list"}


def check(signature, inputs):
    """Validates the names, dtypes and shapes of arrays or of `tf.TensorSpec`s. Returns the number of rows."""
    signature.check_names(inputs)
    rows = {}
    for name, spec in signature.inputs.items():
        value = inputs[name]
        dtype = tf.dtypes.as_dtype(value.dtype)
        if dtype != spec.dtype:
            raise bad(f"input `{name}` must be {describe(spec)}. Received: dtype={dtype.name}")
        if not spec.shape.is_compatible_with(value.shape):
            raise bad(f"input `{name}` must be {describe(spec)}. Received: shape={tuple(value.shape)}")
        if is_batched(spec) and len(value.shape):
            rows[name] = value.shape[0]
    if signature.joinable and len(set(rows.values())) > 1:
        received = ", ".join(f"`{name}` {size}" for name, size in rows.items())
        raise bad(f"all inputs must have the same number of rows. Received: {received}")
    if 0 in rows.values():
        raise bad("the request has no rows. Expected at least one")
    return max(rows.values(), default=1)


def from_json(request, signature):
    """Parses a predict request: returns a dict of arrays, and the number of rows (`None` in the column format)."""
    if ("instances" in request) == ("inputs" in request):
        raise bad('expected either "instances" (rows) or "inputs" (columns) in the request')
    key = "inputs" if "inputs" in request else "instances"
    columns, rows = request[key], None
    if key == "instances":
        if not isinstance(columns, list) or not columns:
            raise bad('"instances" must be a list of at least one row')
        rows = len(columns)
        if _is_object(columns[0]):
            columns = _columns(columns, signature)
    if not _is_object(columns):
        if len(signature.inputs) != 1:
            expected = f'"{key}" must name the inputs of the signature: {signature.describe_inputs()}'
            raise bad(f"{expected}. Received: plain values")
        columns = {next(iter(signature.inputs)): columns}
    signature.check_names(columns)
    return {name: _to_array(name, value, signature.inputs[name]) for name, value in columns.items()}, rows


def _columns(instances, signature):
    for number, row in enumerate(instances):
        if not _is_object(row):
            raise bad(f"row {number}: expected the input(s) {signature.describe_inputs()}. Received: not an object")
        signature.check_names(row, f"row {number}: ")
    return {name: [row[name] for row in instances] for name in signature.inputs}


def _is_object(value):
    return isinstance(value, dict) and set(value) != {"b64"}


def _to_array(name, value, spec):
    """Converts nested lists, or a single value, to an array."""
    dtype, rank = spec.dtype, spec.shape.rank
    try:
        array = np.array(value, object)
        leaves = array.reshape(-1)  # A view; `array.flat` has at most 32 dimensions.
    except ValueError:
        array = leaves = None
    if array is not None and rank is not None and array.ndim > rank:
        raise bad(f"input `{name}` must be {describe(spec)}. Received: shape={array.shape}")
    if array is None or any(isinstance(leaf, list) for leaf in leaves):
        padded = '. Pad shorter ones with ""' if dtype == tf.string and rank != 1 else ""
        raise bad(f"input `{name}` is ragged: all lists at the same depth must have the same length{padded}")
    if dtype != tf.string:
        return _to_numbers(name, leaves, dtype).reshape(array.shape)
    for index, leaf in enumerate(leaves):
        try:
            leaves[index] = to_bytes(leaf)
        except (ValueError, TypeError) as error:
            raise bad(f'input `{name}`: value {index} must be a string or {{"b64": "..."}}: {error}') from error
    return array


def to_bytes(value):
    """Returns the bytes of a string or of `{"b64": "..."}`; other values raise a `ValueError` or a `TypeError`."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict) or set(value) != {"b64"}:
        raise ValueError(f"received {_brief(value)}")
    return base64.b64decode(value["b64"], validate=True)


def _to_numbers(name, leaves, dtype):
    kinds, wanted = ((int,), "an integer") if dtype.is_integer else ((int, float), "a number")
    if dtype.is_bool:
        kinds, wanted = (bool,), "true or false"
    for index, leaf in enumerate(leaves):
        if type(leaf) not in kinds:
            raise bad(f"input `{name}` ({dtype.name}): value {index} must be {wanted}. Received: {_brief(leaf)}")
    try:
        with np.errstate(over="raise"):
            return (leaves.astype(np.float64) if dtype.is_floating else leaves).astype(dtype.as_numpy_dtype)
    except (OverflowError, FloatingPointError) as error:
        raise bad(f"input `{name}`: a value is out of range for {dtype.name}") from error


def _brief(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def to_json(outputs, rows):
    """Returns the JSON response of a predict request; `rows` is `None` for the column format."""
    if rows is not None:
        check_rows(outputs, rows)
    columns = {name: _to_list(name, value) for name, value in outputs.items()}
    if len(columns) == 1:
        (values,) = columns.values()
    elif rows is None:
        values = columns
    else:
        values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"outputs" if rows is None else "predictions": values}


def check_rows(outputs, rows):
    """Raises an error if an output does not start with the batch dimension."""
    for name, value in outputs.items():
        if value.shape[:1] != (rows,):
            shape = f"output `{name}` has the shape {tuple(value.shape)}"
            raise RequestError("INTERNAL", f"{shape}: its first dimension must be the batch size {rows}")


def _to_list(name, value):
    if value.dtype == object:
        to_text = _to_base64 if name.endswith("_bytes") else (lambda text: text.decode("utf-8", "replace"))
        return np.vectorize(to_text, [object])(value).tolist()
    if tf.dtypes.as_dtype(value.dtype).is_floating and value.dtype != np.float64:
        # The shortest decimal representation of the float32: 0.1, not 0.10000000149011612.
        parts = np.array_split(value.astype(np.float32).reshape(-1), value.size // _TOGETHER + 1)
        return np.concatenate([part.astype(str).astype(np.float64) for part in parts]).reshape(value.shape).tolist()
    return value.tolist()


def _to_base64(text):
    return {"b64": base64.b64encode(text).decode()}


def example_inputs(signature, method, request):
    """Parses a classify or regress request: returns the inputs of its signature, serialized `tf.train.Example`s."""
    examples = _examples(request)
    if signature.method != method or set(signature.inputs) != {_INPUT}:
        raise bad(
            f"signature `{signature.name}` is not for {method.rsplit('/', 1)[-1]}: expected the method name {method} "
            f"and one input, `{_INPUT}`. Received: {signature.method or 'none'} and {signature.describe_inputs()}. "
            "Use predict instead"
        )
    return {_INPUT: np.array([example.SerializeToString() for example in examples], object)}


def _examples(request):
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


def labels_or_numbers(method, outputs, rows):
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
