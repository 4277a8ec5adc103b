"""Layers as nodes of an ONNX graph, in the patterns that the transformer optimizer of ONNX Runtime fuses."""

import keras
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from keras_bert.layers.masks import FORBIDDEN

_SMALLEST = 1e-12  # Of the length that a vector is divided by.


class Graph:
    """The nodes and the constants of an ONNX graph, which grows from its inputs to its outputs.

    Example:
        graph = Graph()
        doubled = graph.add("Mul", "x", 2.0)
    """

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, op, *inputs, **attributes):
        """Adds a node for an operator of ONNX, with its attributes, and returns the name of its output.

        Inputs are names of tensors, numbers or arrays; integers become int64, other numbers float32.
        """
        inputs = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, value, name=None):
        """Adds a constant and returns its name."""
        value = np.asarray(value)
        value = np.ascontiguousarray(value, "int64" if value.dtype.kind == "i" else "float32").reshape(value.shape)
        name = name or f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def rename(self, names):
        """Renames tensors; `names` maps old names to new ones."""
        for node in self.nodes:
            for tensors in (node.input, node.output):
                tensors[:] = [names.get(tensor, tensor) for tensor in tensors]


def weight(graph, variable, name):
    """Adds a variable as a constant."""
    return graph.constant(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")), name)


def dense(graph, inputs, layer, name, use_bias=True):
    """A `Dense` layer: `inputs` times its kernel, which may be quantized or adapted by LoRA, plus its bias."""
    rows = graph.add("MatMul", inputs, weight(graph, layer.float_table(), f"{name}/kernel"))
    return graph.add("Add", rows, weight(graph, layer.bias, f"{name}/bias")) if use_bias else rows


def layer_norm(graph, inputs, layer, name):
    """A `LayerNorm`."""
    gamma, beta = (weight(graph, getattr(layer, part), f"{name}/{part}") for part in ("gamma", "beta"))
    return graph.add("LayerNormalization", inputs, gamma, beta, axis=-1, epsilon=layer.epsilon)


def activate(graph, inputs, activation):
    """An activation function with a name from `BertConfig.hidden_act`."""
    add = graph.add
    match activation:
        case "gelu":
            one_plus = add("Add", add("Erf", add("Div", inputs, np.sqrt(2.0))), 1.0)
            return add("Mul", add("Mul", inputs, one_plus), 0.5)
        case "gelu_new":
            cubic = add("Mul", add("Pow", inputs, 3.0), 0.044715)
            one_plus = add("Add", add("Tanh", add("Mul", add("Add", inputs, cubic), np.sqrt(2 / np.pi))), 1.0)
            return add("Mul", add("Mul", inputs, 0.5), one_plus)
        case "silu":
            return add("Mul", inputs, add("Sigmoid", inputs))
        case "linear":
            return inputs
        case _:
            return add({"relu": "Relu", "tanh": "Tanh"}[activation], inputs)


def positions(graph, ids):
    """The positions of token ids `(batch, length)`, int64 `(length,)`."""
    length = graph.add("Gather", graph.add("Shape", ids), 1, axis=0)
    return graph.add("Range", 0, length, 1)


def embeddings(graph, ids, segment_ids, table, layer, position_ids=None):
    """A `BertEmbeddings` on the rows of a token table."""
    add = graph.add
    hidden = add("Gather", table, ids)
    if layer.num_segments:
        segments = weight(graph, layer.segment_table, "embeddings/segments")
        hidden = add("Add", hidden, add("Gather", segments, segment_ids if layer.num_segments > 1 else 0))
    if layer.positions != "none":
        places = layer.position_table if layer.positions == "learned" else layer.fixed_positions()
        # The optimizer expects a position for each id, although the rows of a batch have the same.
        each = position_ids or add("Expand", add("Unsqueeze", positions(graph, ids), [0]), add("Shape", ids))
        hidden = add("Add", hidden, add("Gather", weight(graph, places, "embeddings/positions"), each))
    hidden = layer_norm(graph, hidden, layer.norm, "embeddings/norm")
    return dense(graph, hidden, layer.projection, "embeddings/projection") if layer.projection else hidden


def attention_mask(graph, layer, name, padding_mask):
    """An `AttentionMask`: what is added to the attention scores."""
    add = graph.add
    real = add("Cast", add("Unsqueeze", add("Unsqueeze", padding_mask, [1]), [2]), to=TensorProto.FLOAT)
    if layer.causal:
        places = positions(graph, padding_mask)
        earlier = add("GreaterOrEqual", add("Unsqueeze", places, [1]), places)
        real = add("Mul", real, add("Cast", earlier, to=TensorProto.FLOAT))
    return add("Mul", add("Sub", 1.0, real), FORBIDDEN)


def block(graph, layer, name, hidden, attention_mask):
    """A `TransformerBlock`."""
    attended = attention(graph, hidden, attention_mask, layer.attention, f"{layer.name}/attention")
    hidden = layer_norm(graph, graph.add("Add", attended, hidden), layer.attention_norm, f"{layer.name}/attention_norm")
    feed_forward = layer.feed_forward
    inner = dense(graph, hidden, feed_forward.intermediate_dense, f"{layer.name}/intermediate")
    inner = activate(graph, inner, feed_forward.activation)
    output = dense(graph, inner, feed_forward.output_dense, f"{layer.name}/output")
    return layer_norm(graph, graph.add("Add", output, hidden), layer.output_norm, f"{layer.name}/output_norm")


def attention(graph, hidden, bias, layer, name):
    """A `MultiHeadAttention` of a sequence to itself."""
    add, size = graph.add, layer.hidden_size // layer.num_heads
    kernels, biases = (
        np.split(keras.ops.convert_to_numpy(keras.ops.cast(part, "float32")), 3, axis=-1)
        for part in (layer.query_key_value.float_table(), layer.query_key_value.bias)
    )

    def heads(part, role, order):
        kernel, shift = (
            graph.constant(values[part], f"{name}/{role}/{part_name}")
            for values, part_name in ((kernels, "kernel"), (biases, "bias"))
        )
        rows = add("Add", add("MatMul", hidden, kernel), shift)
        return add("Transpose", add("Reshape", rows, [0, 0, layer.num_heads, size]), perm=order)

    query, value = heads(0, "query", [0, 2, 1, 3]), heads(2, "value", [0, 2, 1, 3])
    key = heads(1, "key", [0, 2, 3, 1])
    scores = add("Div", add("MatMul", query, key), np.sqrt(size))
    context = add("MatMul", add("Softmax", add("Add", scores, bias), axis=-1), value)
    rows = add("Reshape", add("Transpose", context, perm=[0, 2, 1, 3]), [0, 0, layer.hidden_size])
    return dense(graph, rows, layer.output_dense, f"{name}/output")


def sentence_pooling(graph, layer, name, hidden, mask):
    """A `SentencePooling`; `mask` is the `padding_mask`."""
    add = graph.add
    real = add("Unsqueeze", add("Cast", mask, to=TensorProto.FLOAT), [2])
    pooled = [_pooled(add, mode, hidden, real) for mode in layer.modes]
    vectors = pooled[0] if len(pooled) == 1 else add("Concat", *pooled, axis=-1)
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
