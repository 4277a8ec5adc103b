"""Models as ONNX models of token ids, in the patterns that the transformer optimizer of ONNX Runtime fuses."""

import functools

import keras
import numpy as np
from onnx import TensorProto, checker, helper

from keras_bert import layers
from keras_bert.exporting.onnx_graph import Graph, array_of
from keras_bert.heads.registry import answering, head_named
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.layers.registry import positions_named
from keras_bert.models.encoder import run_encoder
from keras_bert.version import __version__

_OPSET = 17  # The first with LayerNormalization.
_IR_VERSION = 8  # That of opset 17.


def embeddings(graph, ids, segment_ids, table, layer, position_ids=None):
    """A `BertEmbeddings` on the rows of a token table."""
    add = graph.add
    hidden = add("Gather", table, ids)
    if layer.num_segments:
        segments = graph.weight(layer.segment_table, "embeddings/segments")
        segments_of_tokens = segment_ids if layer.num_segments > 1 else 0
        hidden = add("Add", hidden, add("Gather", segments, segments_of_tokens))
    position_table = positions_named(layer.positions).table(layer)
    if position_table is not None:
        if not position_ids:
            # The optimizer expects a position for each id, although the rows of a batch have the same.
            positions = add("Unsqueeze", graph.positions(ids), [0])
            position_ids = add("Expand", positions, add("Shape", ids))
        position_weight = graph.weight(position_table, "embeddings/positions")
        hidden = add("Add", hidden, add("Gather", position_weight, position_ids))
    hidden = graph.layer_norm(hidden, layer.norm, "embeddings/norm")
    if layer.projection:
        hidden = graph.dense(hidden, layer.projection, "embeddings/projection")
    return hidden


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
    attended = graph.add("Add", attended, hidden)
    hidden = graph.layer_norm(attended, layer.attention_norm, f"{layer.name}/attention_norm")
    feed_forward = layer.feed_forward
    inner = graph.dense(hidden, feed_forward.intermediate_dense, f"{layer.name}/intermediate")
    inner = graph.activate(inner, feed_forward.activation)
    output = graph.dense(inner, feed_forward.output_dense, f"{layer.name}/output")
    output = graph.add("Add", output, hidden)
    return graph.layer_norm(output, layer.output_norm, f"{layer.name}/output_norm")


def attention(graph, hidden, bias, layer, name):
    """A `MultiHeadAttention` of a sequence to itself."""
    add = graph.add
    head_size = layer.hidden_size // layer.num_heads
    # Query, key and value have one kernel and one bias together.
    kernels = np.split(array_of(layer.query_key_value.float_table()), 3, axis=-1)
    biases = np.split(array_of(layer.query_key_value.bias), 3, axis=-1)

    def heads(third, role, order):
        kernel_of_role = graph.constant(kernels[third], f"{name}/{role}/kernel")
        bias_of_role = graph.constant(biases[third], f"{name}/{role}/bias")
        rows = add("Add", add("MatMul", hidden, kernel_of_role), bias_of_role)
        return add("Transpose", add("Reshape", rows, [0, 0, layer.num_heads, head_size]), perm=order)

    query = heads(0, "query", [0, 2, 1, 3])
    value = heads(2, "value", [0, 2, 1, 3])
    key = heads(1, "key", [0, 2, 3, 1])
    scores = add("Div", add("MatMul", query, key), np.sqrt(head_size))
    context = add("MatMul", add("Softmax", add("Add", scores, bias), axis=-1), value)
    rows = add("Reshape", add("Transpose", context, perm=[0, 2, 1, 3]), [0, 0, layer.hidden_size])
    return graph.dense(rows, layer.output_dense, f"{name}/output")


def build_onnx(model, description):
    """Returns the `onnx.ModelProto` of a model.

    Inputs and outputs have the names and the shapes of the Keras model's; inputs are int32, masks are 0 or 1. Lists of
    outputs, such as `hidden_states`, are left out. Only standard operators are used.
    """
    graph = Graph([*model.input, *model.output])
    outputs = _write_model(graph, model, description)
    graph.rename_outputs(outputs)
    axes = answering(description.head).axes
    input_infos = [_value_info(name, model.input[name], axes(name)) for name in model.input]
    output_infos = [_value_info(name, model.output[name], axes(name)) for name in outputs]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, model.name, input_infos, output_infos, graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="keras_bert",
        producer_version=__version__,
    )
    checker.check_model(proto)
    return proto


def _write_model(graph, model, description):
    """Adds a model to a graph, and returns the names of its outputs there by those of the Keras model's."""
    head = head_named(description.head)
    inputs = {name: name for name in model.input}
    own_writers = positions_named(description.positions).onnx | head.onnx
    writers = _writers(graph, description.layers, own_writers)
    encoder_inputs = head.encoder_inputs(writers, inputs)
    hidden_states, *_ = run_encoder(writers, encoder_inputs)
    encoded = {"sequence_output": hidden_states[-1]}
    if "pooler" in writers:
        padding_mask = encoder_inputs["padding_mask"]
        encoded["pooled_output"] = writers["pooler"](encoded["sequence_output"], padding_mask)
    outputs = head.run(writers, encoded, inputs)
    for name, tensor in outputs.items():
        if _onnx_type(model.output[name]) != TensorProto.FLOAT:
            outputs[name] = graph.cast(tensor, model.output[name].dtype)
    return outputs


def _value_info(name, tensor, axes):
    """Returns what ONNX knows of an input or an output: sizes of axes, or names of free ones."""
    sizes = []
    for number, size in enumerate(tensor.shape):
        axis = axes[number] if number < len(axes) else None
        sizes.append(size or axis)
    return helper.make_tensor_value_info(name, _onnx_type(tensor), sizes)


def _onnx_type(tensor):
    """Returns the type of a tensor of Keras: floats are float32."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" in dtype:
        return TensorProto.FLOAT
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _writers(graph, sources, own_writers):
    """Returns functions in place of layers, which add them to a graph, on names of tensors.

    `own_writers` are those of single layers by name, of positions and heads.
    """
    writers = {}
    for name in sources.keys() - {"token_embedding", "embeddings"}:
        layer = sources[name]
        if name in own_writers:
            writers[name] = functools.partial(own_writers[name], graph, layer)
        else:
            writers[name] = functools.partial(_writer_of(layer, name), graph, layer, name)
    table = graph.weight(sources["token_embedding"].float_table(), "token_embedding")

    def token_embedding(tensor, reverse=False):
        if not reverse:
            return tensor  # `embed` looks the ids up.
        return graph.add("MatMul", tensor, graph.add("Transpose", table, perm=[1, 0]))

    def embed(ids, segment_ids, position_ids=None):
        return embeddings(graph, ids, segment_ids, table, sources["embeddings"], position_ids)

    writers["token_embedding"] = token_embedding
    writers["embeddings"] = embed
    return writers


def _writer_of(layer, name):
    """Returns the function that adds a layer of this class to a graph."""
    for layer_class, writer in _WRITERS:
        if isinstance(layer, layer_class):
            return writer
    raise ValueError(f"no ONNX operators are known for the layer {name!r}. Received: {layer!r:.100}")


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
