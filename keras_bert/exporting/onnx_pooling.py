"""The layers of a sentence encoder as nodes of an ONNX graph."""

import numpy as np
from onnx import TensorProto

from keras_bert.layers.masks import FORBIDDEN

_SMALLEST = 1e-12  # Of the length that a vector is divided by.


def sentence_pooling(graph, layer, name, hidden, mask):
    """A `SentencePooling`; `mask` is the `padding_mask`."""
    add = graph.add
    real = add("Unsqueeze", add("Cast", mask, to=TensorProto.FLOAT), [2])
    parts = [_pooled(add, mode, hidden, real) for mode in layer.modes]
    vectors = parts[0] if len(parts) == 1 else add("Concat", *parts, axis=-1)
    return unit_length(graph, layer, name, vectors) if layer.normalize else vectors


def unit_length(graph, layer, name, vectors):
    """A `UnitLength`."""
    length = graph.add("ReduceL2", vectors, axes=[1])
    return graph.add("Div", vectors, graph.add("Max", length, np.float32(_SMALLEST)))


def _pooled(add, mode, hidden, real):
    """One pooling of `SentencePooling`; `real` is 1.0 for real tokens, `(batch, length, 1)`."""

    def total(tensor):
        return add("ReduceSum", tensor, [1], keepdims=0)

    if mode == "cls":
        return add("Gather", hidden, 0, axis=1)
    if mode == "max":
        absent = add("Mul", add("Sub", 1.0, real), FORBIDDEN)
        return add("ReduceMax", add("Add", hidden, absent), axes=[1], keepdims=0)
    weights = real
    if mode in ("weightedmean", "lasttoken"):
        weights = add("Mul", real, add("CumSum", real, 1))
    if mode == "lasttoken":
        is_last = add("Equal", weights, add("ReduceMax", weights, axes=[1]))
        return total(add("Mul", hidden, add("Mul", real, add("Cast", is_last, to=TensorProto.FLOAT))))
    count = add("Max", total(weights), 1.0)
    return add("Div", total(add("Mul", hidden, weights)), add("Sqrt", count) if "sqrt" in mode else count)
