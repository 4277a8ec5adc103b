"""Classify and regress: requests are `tf.train.Example`s, answers are classes with scores, or numbers."""

import base64

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import input_pb2

from keras_bert.serving.errors import RequestError, bad
from keras_bert.serving.server.saved_model import CLASSIFY

INPUT = "inputs"


def check_method(signature, method):
    """Refuses a signature that was not exported for classify, or for regress."""
    if signature.method != method:
        name = method.rsplit("/", 1)[-1]
        raise bad(
            f"signature `{signature.name}` is not for {name}: expected the method name {method}, "
            f"got {signature.method or 'none'}. Ask it by predict"
        )
    if set(signature.inputs) != {INPUT}:
        raise bad(f"a signature for {method} must have one input, `{INPUT}`. It has {signature.describe_inputs()}")


def serialize(given):
    """The strings that a signature parses.

    Args:
        given: a `tensorflow.serving.Input`: examples, perhaps with a context that all share.

    Returns:
        Serialized `Example`s, an array of bytes `(batch,)`.
    """
    if given.WhichOneof("kind") == "example_list_with_context":
        context = given.example_list_with_context.context
        examples = [_merge(context, example) for example in given.example_list_with_context.examples]
    else:
        examples = given.example_list.examples
    array = np.empty(len(examples), object)
    array[:] = [example.SerializeToString() for example in examples]
    return array


def _merge(context, example):
    merged = tf.train.Example()
    merged.CopyFrom(context)
    merged.MergeFrom(example)
    return merged


def from_json(request):
    """A `tensorflow.serving.Input` of the JSON of a request: `examples`, and perhaps `context`."""
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise bad('expected {"examples": [{"feature": value or list of values, ...}, ...]} with at least one example')
    given = input_pb2.Input()
    to = given.example_list
    if "context" in request:
        to = given.example_list_with_context
        _fill(to.context, request["context"], "the context")
    for number, example in enumerate(examples):
        _fill(to.examples.add(), example, f"example {number}")
    return given


def _fill(example, features, where):
    if not isinstance(features, dict):
        raise bad(f"{where} must be an object of features. Received: {type(features).__name__}")
    for name, values in features.items():
        values = values if isinstance(values, list) else [values]
        kinds = {_kind(value) for value in values}
        if len(kinds) > 1 or None in kinds:
            raise bad(f"feature `{name}` of {where} must hold only strings, only whole numbers or only decimal numbers")
        try:
            feature = example.features.feature[name]
            if kinds == {"bytes_list"}:
                feature.bytes_list.value.extend(map(_to_bytes, values))
            elif kinds:
                getattr(feature, kinds.pop()).value.extend(values)
        except ValueError as error:
            raise bad(f"feature `{name}` of {where}: {error}") from error


def _kind(value):
    if isinstance(value, str) or (isinstance(value, dict) and set(value) == {"b64"}):
        return "bytes_list"
    if isinstance(value, bool | int):
        return "int64_list"
    return "float_list" if isinstance(value, float) else None


def _to_bytes(value):
    return base64.b64decode(value["b64"], validate=True) if isinstance(value, dict) else value.encode()


def classes(outputs, rows):
    """The answer of classify: a list of (label, score) for each row, `""` and 0 for what the model does not give."""
    labels, scores = outputs.get("classes"), outputs.get("scores")
    if labels is None and scores is None:
        raise RequestError("FAILED_PRECONDITION", "a signature for classify must have an output `classes` or `scores`")
    for name, values in (("classes", labels), ("scores", scores)):
        if values is not None and (values.ndim != 2 or len(values) != rows):
            shape = f"output `{name}` has the shape {values.shape}"
            raise RequestError("INTERNAL", f"{shape}, expected ({rows}, classes)")
    shape = (labels if labels is not None else scores).shape
    labels = np.full(shape, b"", object) if labels is None else labels
    scores = np.zeros(shape, np.float32) if scores is None else scores
    return [
        [(label.decode("utf-8", "replace"), float(score)) for label, score in zip(*row, strict=True)]
        for row in zip(labels, scores, strict=True)
    ]


def numbers(outputs, rows):
    """The answer of regress: a number for each row."""
    values = outputs.get("outputs")
    if values is None:
        raise RequestError("FAILED_PRECONDITION", "a signature for regress must have an output `outputs`")
    if values.shape not in ((rows,), (rows, 1)):
        raise RequestError("INTERNAL", f"output `outputs` has the shape {values.shape}, expected ({rows},)")
    return [float(value) for value in values.reshape(rows)]


def answer(method, outputs, rows):
    """`classes` or `numbers`, by the method."""
    return classes(outputs, rows) if method == CLASSIFY else numbers(outputs, rows)
