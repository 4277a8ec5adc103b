"""Models as ONNX models of token ids, in the patterns that the transformer optimizer of ONNX Runtime fuses."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from keras_bert import layers
from keras_bert.heads.registry import answering, head_named
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.layers.registry import positions_named
from keras_bert.models.encoder import run_encoder
from keras_bert.version import __version__

_OPSET = 17  # The first with LayerNormalization.
_IR_VERSION = 8  # That of opset 17.


class Graph:
    """The nodes and the constants of an ONNX graph, which grows from its inputs to its outputs.

    The functions in `Head.onnx` get one. Tensors are known by their names, strings.

    Args:
        names: names that no constant and no node may have, such as those of the inputs and the outputs of the model.
            Defaults to none.

    Example:
        def write_scale(graph, layer, hidden):
            return graph.add("Mul", hidden, graph.weight(layer.scale, layer.name))
    """

    def __init__(self, names: Iterable = ()):
        self.nodes, self.constants = [], []
        self._names = set(names)

    def add(self, op: str, *inputs: Any, **attributes) -> str:
        """Adds a node for an operator of ONNX, of opset 17, and returns the name of its output.

        Inputs are names of tensors, numbers or arrays; integers become int64, other numbers float32.
        """
        tensors = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = self._unique(f"{op}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, tensors, [output], name=output, **attributes))
        return output

    def constant(self, value: Any, name: str | None = None) -> str:
        """Adds a constant and returns its name: the given one, with a number if another tensor has it.

        Integers become int64, booleans stay, and other numbers become float32.
        """
        value = np.asarray(value)
        dtype = {"i": "int64", "u": "int64", "b": "bool"}.get(value.dtype.kind, "float32")
        value = np.ascontiguousarray(value, dtype).reshape(value.shape)
        name = self._unique(name or f"constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def _unique(self, name):
        """Returns a name that no tensor has: the given one, or one with a number."""
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        unused = next(candidate for candidate in candidates if candidate not in self._names)
        self._names.add(unused)
        return unused

    def rename_outputs(self, tensors):
        """Gives tensors the names of the outputs of the model; `tensors` are their names by those of outputs."""
        made = {output for node in self.nodes for output in node.output}
        names = {}
        for name, tensor in tensors.items():
            if tensor in names or tensor not in made:  # Two outputs are the same, or one is an input or a constant.
                tensor = self.add("Identity", tensor)
            names[tensor] = name
        for node in self.nodes:
            for places in (node.input, node.output):
                places[:] = [names.get(tensor, tensor) for tensor in places]

    def cast(self, tensor: str, dtype: Any) -> str:
        """Converts a tensor to a dtype with a name of NumPy's."""
        return self.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def weight(self, variable: Any, name: str) -> str:
        """Adds a variable, or a tensor of Keras, as a constant; see `constant`."""
        return self.constant(_array(variable), name)

    def dense(self, inputs: str, layer: Any, name: str) -> str:
        """Adds a `keras_bert.layers.Dense`, whose kernel may be quantized or adapted by LoRA, with its activation."""
        rows = self.add("MatMul", inputs, self.weight(layer.float_table(), f"{name}/kernel"))
        rows = self.add("Add", rows, self.weight(layer.bias, f"{name}/bias")) if layer.use_bias else rows
        return self.activate(rows, keras.activations.serialize(layer.activation))

    def layer_norm(self, inputs: str, layer: Any, name: str) -> str:
        """Adds a `keras_bert.layers.LayerNorm`."""
        gamma, beta = (self.weight(getattr(layer, part), f"{name}/{part}") for part in ("gamma", "beta"))
        return self.add("LayerNormalization", inputs, gamma, beta, axis=-1, epsilon=layer.epsilon)

    def activate(self, inputs: str, activation: str) -> str:
        """Adds an activation function with a name from `BertConfig.hidden_act`."""
        add = self.add
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

    def positions(self, ids: str) -> str:
        """Adds the positions of token ids `(batch, length)`, int64 `(length,)`."""
        length = self.add("Gather", self.add("Shape", ids), 1, axis=0)
        return self.add("Range", 0, length, 1)


def _array(variable):
    """Returns the values of a variable: integers and booleans as they are, others as float32."""
    dtype = keras.backend.standardize_dtype(variable.dtype)
    if "int" not in dtype and dtype != "bool":
        variable = keras.ops.cast(variable, "float32")
    return keras.ops.convert_to_numpy(variable)


def embeddings(graph, ids, segment_ids, table, layer, position_ids=None):
    """A `BertEmbeddings` on the rows of a token table."""
    add = graph.add
    hidden = add("Gather", table, ids)
    if layer.num_segments:
        segments = graph.weight(layer.segment_table, "embeddings/segments")
        hidden = add("Add", hidden, add("Gather", segments, segment_ids if layer.num_segments > 1 else 0))
    places = positions_named(layer.positions).table(layer)
    if places is not None:
        # The optimizer expects a position for each id, although the rows of a batch have the same.
        each = position_ids or add("Expand", add("Unsqueeze", graph.positions(ids), [0]), add("Shape", ids))
        hidden = add("Add", hidden, add("Gather", graph.weight(places, "embeddings/positions"), each))
    hidden = graph.layer_norm(hidden, layer.norm, "embeddings/norm")
    return graph.dense(hidden, layer.projection, "embeddings/projection") if layer.projection else hidden


def attention_mask(graph, layer, name, padding_mask):
    """An `AttentionMask`: what is added to the attention scores."""
    add = graph.add
    real = graph.cast(add("Unsqueeze", add("Unsqueeze", padding_mask, [1]), [2]), "float32")
    if layer.causal:
        places = graph.positions(padding_mask)
        earlier = add("GreaterOrEqual", add("Unsqueeze", places, [1]), places)
        real = add("Mul", real, graph.cast(earlier, "float32"))
    return add("Mul", add("Sub", 1.0, real), FORBIDDEN)


def block(graph, layer, name, hidden, attention_mask, score_bias=None):
    """A `TransformerBlock`."""
    bias = attention_mask
    if score_bias is not None:
        bias = graph.add("Add", score_bias, attention_mask)
    attended = attention(graph, hidden, bias, layer.attention, f"{layer.name}/attention")
    hidden = graph.layer_norm(graph.add("Add", attended, hidden), layer.attention_norm, f"{layer.name}/attention_norm")
    feed_forward = layer.feed_forward
    inner = graph.dense(hidden, feed_forward.intermediate_dense, f"{layer.name}/intermediate")
    inner = graph.activate(inner, feed_forward.activation)
    output = graph.dense(inner, feed_forward.output_dense, f"{layer.name}/output")
    return graph.layer_norm(graph.add("Add", output, hidden), layer.output_norm, f"{layer.name}/output_norm")


def attention(graph, hidden, bias, layer, name):
    """A `MultiHeadAttention` of a sequence to itself."""
    add, size = graph.add, layer.hidden_size // layer.num_heads
    whole = {"kernel": layer.query_key_value.float_table(), "bias": layer.query_key_value.bias}
    thirds = {kind: np.split(_array(weight), 3, axis=-1) for kind, weight in whole.items()}

    def heads(part, role, order):
        kernel, bias = (graph.constant(thirds[kind][part], f"{name}/{role}/{kind}") for kind in thirds)
        rows = add("Add", add("MatMul", hidden, kernel), bias)
        return add("Transpose", add("Reshape", rows, [0, 0, layer.num_heads, size]), perm=order)

    query, value = heads(0, "query", [0, 2, 1, 3]), heads(2, "value", [0, 2, 1, 3])
    key = heads(1, "key", [0, 2, 3, 1])
    scores = add("Div", add("MatMul", query, key), np.sqrt(size))
    context = add("MatMul", add("Softmax", add("Add", scores, bias), axis=-1), value)
    rows = add("Reshape", add("Transpose", context, perm=[0, 2, 1, 3]), [0, 0, layer.hidden_size])
    return graph.dense(rows, layer.output_dense, f"{name}/output")


def build_onnx(model, description):
    """Returns the `onnx.ModelProto` of a model.

    Inputs and outputs have the names and the shapes of the Keras model's; inputs are int32, masks are 0 or 1. Lists of
    outputs, such as `hidden_states`, are left out. Only standard operators are used.
    """
    graph, inputs = Graph([*model.input, *model.output]), {name: name for name in model.input}
    head, axes = head_named(description.head), answering(description.head).axes
    own = {**positions_named(description.positions).onnx, **head.onnx}
    writers = _writers(graph, description.layers, own)
    rows = head.encoder_inputs(writers, inputs)
    encoded = {"sequence_output": run_encoder(writers, rows)[0][-1]}
    if "pooler" in writers:
        encoded["pooled_output"] = writers["pooler"](encoded["sequence_output"], rows["padding_mask"])
    outputs = head.run(writers, encoded, inputs)
    for name, tensor in outputs.items():
        if _onnx_type(model.output[name]) != TensorProto.FLOAT:
            outputs[name] = graph.cast(tensor, model.output[name].dtype)
    graph.rename_outputs(outputs)
    infos = []
    for names, symbolic in ((model.input, model.input), (outputs, model.output)):
        infos.append([_value_info(name, symbolic[name], axes(name)) for name in names])
    whole = helper.make_graph(graph.nodes, model.name, *infos, graph.constants)
    opset = [helper.make_opsetid("", _OPSET)]
    proto = helper.make_model(whole, opset_imports=opset, ir_version=_IR_VERSION, producer_name="keras_bert")
    proto.producer_version = __version__
    checker.check_model(proto)
    return proto


def _value_info(name, tensor, free):
    """Returns what ONNX knows of an input or an output: sizes of axes, or names of free ones."""
    sizes = [size or axis for size, axis in itertools.zip_longest(tensor.shape, free[: len(tensor.shape)])]
    return helper.make_tensor_value_info(name, _onnx_type(tensor), sizes)


def _onnx_type(tensor):
    """Returns the type of a tensor of Keras: floats are float32."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" in dtype:
        return TensorProto.FLOAT
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _writers(graph, sources, own):
    """Returns functions in place of layers, which add them to a graph, on names of tensors; `own` are those by name."""
    writers = {}
    for name in sources.keys() - {"token_embedding", "embeddings"}:
        layer = sources[name]
        writer = next((write for layer_class, write in _WRITERS if isinstance(layer, layer_class)), None)
        if name in own:
            writers[name] = functools.partial(own[name], graph, layer)
        elif writer is None:
            raise ValueError(f"no ONNX operators are known for the layer {name!r}. Received: {layer!r:.100}")
        else:
            writers[name] = functools.partial(writer, graph, layer, name)
    table = graph.weight(sources["token_embedding"].float_table(), "token_embedding")

    def token_embedding(tensor, reverse=False):
        return graph.add("MatMul", tensor, graph.add("Transpose", table, perm=[1, 0])) if reverse else tensor

    def embed(ids, segment_ids, position_ids=None):
        return embeddings(graph, ids, segment_ids, table, sources["embeddings"], position_ids)

    writers |= {"token_embedding": token_embedding, "embeddings": embed}  # The second one looks the ids up.
    return writers


def _positions(graph, layer, name, ids):
    add = graph.add
    is_padding = add("Equal", graph.cast(ids, "int64"), layer.padding_id)
    is_token = graph.cast(add("Not", is_padding), "int64")
    return add("Add", add("Mul", add("CumSum", is_token, 1), is_token), layer.padding_id)


def _pooler(graph, layer, name, hidden, mask):
    add = graph.add
    if layer.last:
        places = add("Mul", graph.positions(mask), graph.cast(mask, "int64"))
        first = add("GatherND", hidden, add("ReduceMax", places, axes=[1]), batch_dims=1)
    else:
        first = add("Gather", hidden, 0, axis=1)
    return graph.dense(first, layer.dense, name)


_WRITERS = (
    (layers.AttentionMask, attention_mask),
    (layers.PositionIds, _positions),
    (layers.TransformerBlock, block),
    (layers.Pooler, _pooler),
    (layers.Dense, lambda graph, layer, name, hidden: graph.dense(hidden, layer, name)),
    (layers.Dropout, lambda graph, layer, name, hidden: hidden),
)
