"""Requests and answers: from JSON to arrays and back as TensorFlow Serving's REST has it, and what is refused."""

import base64
import dataclasses
import math

import numpy as np
import tensorflow as tf

from keras_bert.serving.errors import RequestError, bad

_BYTES_SUFFIX = "_bytes"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a request may hold at most."""

    rows: int = 1024
    text_bytes: int = 1 << 16
    body_bytes: int = 8 << 20


def check(signature, inputs, limits):
    """Refuses inputs that a signature cannot take, before they are joined with those of others.

    Args:
        signature: a `Signature`.
        inputs: NumPy arrays by name.
        limits: a `Limits`.

    Returns:
        The number of rows; 1 where the signature has no batch.
    """
    if set(inputs) != set(signature.inputs):
        given = ", ".join(f"`{name}`" for name in sorted(inputs)) or "none"
        raise bad(f"expected the input(s) {signature.describe_inputs()}. Received: {given}")
    for name, spec in signature.inputs.items():
        value = inputs[name]
        if tf.dtypes.as_dtype(value.dtype) != spec.dtype and not (spec.dtype == tf.string and value.dtype == object):
            raise bad(f"input `{name}` must be {spec}. Received: dtype={value.dtype}")
        if not _fits(value.shape, spec.shape):
            raise bad(f"input `{name}` must be {spec}. Received: shape={value.shape}")
        if spec.dtype == tf.string:
            _check_texts(name, value, limits.text_bytes)
    return _rows(signature, inputs, limits)


def _fits(shape, expected):
    return expected is None or (
        len(shape) == len(expected) and all(free in (None, size) for size, free in zip(shape, expected, strict=True))
    )


def _check_texts(name, value, longest):
    for index, text in enumerate(value.reshape(-1)):
        if len(text) > longest:
            raise bad(f"input `{name}`: string {index} has {len(text)} bytes. Expected at most {longest}")


def _rows(signature, inputs, limits):
    sizes = {
        name: inputs[name].shape[0] for name, spec in signature.inputs.items() if spec.batched and inputs[name].ndim
    }
    if signature.joinable and len(set(sizes.values())) > 1:
        received = ", ".join(f"`{name}` {size}" for name, size in sizes.items())
        raise bad(f"all inputs must have as many rows. Received: {received}")
    rows = max(sizes.values(), default=1)
    if 0 in sizes.values():
        raise bad("there is no row. Expected at least one")
    if rows > limits.rows:
        raise bad(f"there are {rows} rows. Expected at most {limits.rows} in a request")
    return rows


def from_json(request, signature):
    """The inputs of a predict request.

    Args:
        request: the object of its JSON.
        signature: the `Signature` that it asks.

    Returns:
        (arrays by name, the number of rows in the row format and None in the column format).
    """
    if ("instances" in request) == ("inputs" in request):
        raise bad('expected either "instances" (rows) or "inputs" (columns) in the request')
    rows = None
    if "instances" in request:
        columns = _columns_of_rows(request["instances"], signature)
        rows = len(request["instances"])
    else:
        columns = _columns(request["inputs"], signature)
    if set(columns) != set(signature.inputs):
        given = ", ".join(f"`{name}`" for name in sorted(columns)) or "none"
        raise bad(f"expected the input(s) {signature.describe_inputs()}. Received: {given}")
    return {name: to_array(name, value, signature.inputs[name]) for name, value in columns.items()}, rows


def _columns_of_rows(instances, signature):
    if not isinstance(instances, list) or not instances:
        raise bad('"instances" must be a list of at least one row')
    if not _is_object(instances[0]):
        return {_single(signature, "instances"): instances}
    for number, row in enumerate(instances):
        if not _is_object(row) or set(row) != set(signature.inputs):
            given = ", ".join(f"`{name}`" for name in sorted(row)) if _is_object(row) else "no object"
            raise bad(f"row {number}: expected the input(s) {signature.describe_inputs()}. Received: {given or 'none'}")
    return {name: [row[name] for row in instances] for name in signature.inputs}


def _columns(inputs, signature):
    return inputs if _is_object(inputs) else {_single(signature, "inputs"): inputs}


def _single(signature, key):
    if len(signature.inputs) != 1:
        raise bad(
            f'"{key}" must name the inputs of the signature: {signature.describe_inputs()}. Received: plain values'
        )
    return next(iter(signature.inputs))


def _is_object(value):
    return isinstance(value, dict) and set(value) != {"b64"}


def to_array(name, value, spec):
    """An array of nested lists, each value of the kind that an input's dtype asks for.

    Args:
        name: of the input, for the errors.
        value: nested lists, or a single value.
        spec: the input's `Spec`.
    """
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    leaves = []
    _flatten(name, value, shape, leaves)
    if spec.dtype == tf.string:
        array = np.empty(len(leaves), object)
        array[:] = [_to_bytes(name, index, leaf) for index, leaf in enumerate(leaves)]
    else:
        array = _to_numbers(name, leaves, spec)
    return array.reshape(shape)


def _flatten(name, value, shape, leaves):
    if not shape:
        if isinstance(value, list):
            raise bad(f"input `{name}` is ragged: all its lists at one depth must be of one length")
        leaves.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise bad(f"input `{name}` is ragged: all its lists at one depth must be of one length")
    for item in value:
        _flatten(name, item, shape[1:], leaves)


def _to_bytes(name, index, leaf):
    try:
        if isinstance(leaf, str):
            return leaf.encode()
        if isinstance(leaf, dict) and set(leaf) == {"b64"}:
            return base64.b64decode(leaf["b64"], validate=True)
    except UnicodeEncodeError as error:
        raise bad(f"input `{name}`: value {index} is no Unicode text: {error.reason}") from error
    except (ValueError, TypeError) as error:
        raise bad(f'input `{name}`: value {index} is no base64: {error}. Expected {{"b64": "..."}}') from error
    raise bad(f'input `{name}`: value {index} must be a string or {{"b64": "..."}}. Received: {_brief(leaf)}')


def _to_numbers(name, leaves, spec):
    if spec.dtype.is_bool:
        kinds, wanted = (bool,), "true or false"
    elif spec.dtype.is_integer:
        kinds, wanted = (int,), "a whole number"
    elif spec.dtype.is_floating:
        kinds, wanted = (int, float), "a number"
    else:
        raise bad(f"input `{name}` is {spec.dtype.name}, which JSON has no place for")
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, kinds) or (isinstance(leaf, bool) and bool not in kinds):
            raise bad(f"input `{name}` ({spec.dtype.name}): value {index} must be {wanted}. Received: {_brief(leaf)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(leaves, np.float64 if spec.dtype.is_floating else None).astype(spec.dtype.as_numpy_dtype)
    except (OverflowError, ValueError) as error:
        raise bad(f"input `{name}`: a value does not fit {spec.dtype.name}") from error
    for leaf, number in zip(leaves, array.tolist(), strict=True):
        lost = math.isfinite(leaf) and not math.isfinite(number) if spec.dtype.is_floating else leaf != number
        if lost:
            raise bad(f"input `{name}`: a value does not fit {spec.dtype.name}. Received: {_brief(leaf)}")
    return array


def _brief(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def to_json(outputs, rows):
    """The answer of a predict request.

    Args:
        outputs: arrays by name.
        rows: the number of rows for the row format, None for columns.

    Returns:
        An object for JSON, with NaN and infinities as Python's `json` writes them, which is TensorFlow Serving's way.
    """
    if rows is not None:
        for name, value in outputs.items():
            check_rows(name, value, rows)
    columns = {name: _to_list(name, value) for name, value in outputs.items()}
    if len(columns) == 1:
        (values,) = columns.values()
    elif rows is None:
        values = columns
    else:
        values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"outputs" if rows is None else "predictions": values}


def check_rows(name, value, rows):
    """Refuses an output whose first dimension is not the batch: nobody could say whose it is."""
    if value.shape[:1] != (rows,):
        shape = f"output `{name}` has the shape {tuple(value.shape)}"
        raise RequestError("INTERNAL", f"{shape}: its first dimension is not the batch of {rows}")


def _to_list(name, value):
    if value.dtype == object:
        to_text = _to_base64 if name.endswith(_BYTES_SUFFIX) else (lambda text: text.decode("utf-8", "replace"))
        texts = np.empty(value.size, object)
        texts[:] = [to_text(text) for text in value.reshape(-1)]
        return texts.reshape(value.shape).tolist()
    if tf.dtypes.as_dtype(value.dtype).is_floating and value.dtype != np.float64:
        # The shortest decimals that are this float, not those of its double: 0.1, not 0.10000000149011612.
        return value.astype(np.float32).astype(str).astype(np.float64).tolist()
    if tf.dtypes.as_dtype(value.dtype).is_complex:
        raise RequestError("UNIMPLEMENTED", f"output `{name}` is complex, which JSON has no place for")
    return value.tolist()


def _to_base64(text):
    return {"b64": base64.b64encode(text).decode()}
