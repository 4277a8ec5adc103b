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
    if "inputs" in request:
        rows = None
        columns = _named("inputs", request["inputs"], signature)
    else:
        instances = request["instances"]
        if not isinstance(instances, list) or not instances:
            raise bad('"instances" must be a list of at least one row')
        rows = len(instances)
        values = _columns(instances, signature) if _is_object(instances[0]) else instances
        columns = _named("instances", values, signature)
    signature.check_names(columns)
    arrays = {}
    for name, value in columns.items():
        arrays[name] = _to_array(name, value, signature.inputs[name])
    return arrays, rows


def _named(key, values, signature):
    """Returns values by the name of their input; those of a single input may have no name."""
    if _is_object(values):
        return values
    if len(signature.inputs) != 1:
        expected = f'"{key}" must name the inputs of the signature: {signature.describe_inputs()}'
        raise bad(f"{expected}. Received: plain values")
    return {next(iter(signature.inputs)): values}


def _columns(instances, signature):
    """Returns the values of each input, given objects that name their inputs, one for each row."""
    for number, row in enumerate(instances):
        if not _is_object(row):
            raise bad(f"row {number}: expected the input(s) {signature.describe_inputs()}. Received: not an object")
        signature.check_names(row, f"row {number}: ")
    columns = {}
    for name in signature.inputs:
        columns[name] = [row[name] for row in instances]
    return columns


def _is_object(value):
    return isinstance(value, dict) and set(value) != {"b64"}


def _to_array(name, value, spec):
    """Converts nested lists, or a single value, to an array."""
    rank = spec.shape.rank
    try:
        array = np.array(value, object)
    except ValueError as error:
        raise _ragged(name, spec) from error
    leaves = array.reshape(-1)  # A view; `array.flat` has at most 32 dimensions.
    if rank is not None and array.ndim > rank:
        raise bad(f"input `{name}` must be {describe(spec)}. Received: shape={array.shape}")
    if any(isinstance(leaf, list) for leaf in leaves):
        raise _ragged(name, spec)
    if spec.dtype != tf.string:
        return _to_numbers(name, leaves, spec.dtype).reshape(array.shape)
    for index, leaf in enumerate(leaves):
        try:
            leaves[index] = to_bytes(leaf)
        except (ValueError, TypeError) as error:
            raise bad(f'input `{name}`: value {index} must be a string or {{"b64": "..."}}: {error}') from error
    return array


def _ragged(name, spec):
    message = f"input `{name}` is ragged: all lists at the same depth must have the same length"
    if spec.dtype == tf.string and spec.shape.rank != 1:
        message += '. Pad shorter ones with ""'
    return bad(message)


def to_bytes(value):
    """Returns the bytes of a string or of `{"b64": "..."}`; other values raise a `ValueError` or a `TypeError`."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict) or set(value) != {"b64"}:
        raise ValueError(f"received {_brief(value)}")
    return base64.b64decode(value["b64"], validate=True)


def _to_numbers(name, leaves, dtype):
    if dtype.is_bool:
        types = (bool,)
        wanted = "true or false"
    elif dtype.is_integer:
        types = (int,)
        wanted = "an integer"
    else:
        types = (int, float)
        wanted = "a number"
    for index, leaf in enumerate(leaves):
        if type(leaf) not in types:  # A `bool` is an `int`, but none of JSON's.
            raise bad(f"input `{name}` ({dtype.name}): value {index} must be {wanted}. Received: {_brief(leaf)}")
    try:
        with np.errstate(over="raise"):
            if dtype.is_floating:
                return leaves.astype(np.float64).astype(dtype.as_numpy_dtype)
            return leaves.astype(dtype.as_numpy_dtype)
    except (OverflowError, FloatingPointError) as error:
        raise bad(f"input `{name}`: a value is out of range for {dtype.name}") from error


def _brief(value):
    text = repr(value)
    if len(text) > 40:
        return text[:37] + "..."
    return text


def to_json(outputs, rows):
    """Returns the JSON response of a predict request; `rows` is `None` for the column format."""
    columns = {name: _to_list(name, value) for name, value in outputs.items()}
    is_single = len(columns) == 1
    if rows is None:
        return {"outputs": next(iter(columns.values())) if is_single else columns}
    check_rows(outputs, rows)
    if is_single:
        return {"predictions": next(iter(columns.values()))}
    predictions = []
    for values in zip(*columns.values(), strict=True):
        predictions.append(dict(zip(columns, values, strict=True)))
    return {"predictions": predictions}


def check_rows(outputs, rows):
    """Raises an error if an output does not start with the batch dimension."""
    for name, value in outputs.items():
        if value.shape[:1] != (rows,):
            shape = f"output `{name}` has the shape {tuple(value.shape)}"
            raise RequestError("INTERNAL", f"{shape}: its first dimension must be the batch size {rows}")


def _to_list(name, value):
    """Returns an output as nested lists of what JSON has."""
    if value.dtype == object:
        convert = _to_base64 if name.endswith("_bytes") else _to_text
        return np.vectorize(convert, [object])(value).tolist()
    if tf.dtypes.as_dtype(value.dtype).is_floating and value.dtype != np.float64:
        return _shortest_decimals(value.astype(np.float32)).tolist()
    return value.tolist()


def _shortest_decimals(values):
    """Returns the numbers of the shortest decimals that are these float32: 0.1, not 0.10000000149011612."""
    flat = values.reshape(-1)
    decimals = []
    for chunk in np.array_split(flat, flat.size // _TOGETHER + 1):
        decimals.append(chunk.astype(str).astype(np.float64))
    return np.concatenate(decimals).reshape(values.shape)


def _to_text(text):
    return text.decode("utf-8", "replace")


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
    context = request.get("context", {})
    if not isinstance(context, dict):
        raise bad(f"`context` must be an object of features. Received: {type(context).__name__}")
    parsed = []
    for number, features in enumerate(examples):
        if not isinstance(features, dict):
            raise bad(f"example {number} must be an object of features. Received: {type(features).__name__}")
        example = tf.train.Example()
        for name, value in (context | features).items():
            values = value if isinstance(value, list) else [value]
            _fill(example, name, values, f"of example {number}")
        parsed.append(example)
    return parsed


def _fill(example, name, values, where):
    """Adds the values of a feature to a `tf.train.Example`."""
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
    if method == CLASSIFY:
        return _labels(outputs, rows)
    if "outputs" not in outputs:
        raise _lacks_output(method, "`outputs`")
    check_rows(outputs, rows)
    return outputs["outputs"].reshape(rows).tolist()


def _labels(outputs, rows):
    """Returns lists of `(label, score)`. A classify signature may have only one of the two outputs."""
    if "classes" not in outputs and "scores" not in outputs:
        raise _lacks_output(CLASSIFY, "`classes` or `scores`")
    check_rows(outputs, rows)
    classes = outputs.get("classes")
    scores = outputs.get("scores")
    if classes is None:
        classes = np.full(scores.shape, b"", object)
    if scores is None:
        scores = np.zeros(classes.shape)
    answers = []
    for row_classes, row_scores in zip(classes, scores, strict=True):
        labels = [label.decode("utf-8", "replace") for label in row_classes]
        answers.append(list(zip(labels, map(float, row_scores), strict=True)))
    return answers


def _lacks_output(method, expected):
    return RequestError("FAILED_PRECONDITION", f"a signature for {method} must have the output {expected}")
