"""Models of this package as ONNX models of token ids."""

import functools
import itertools

import keras
from onnx import TensorProto, checker, helper

from keras_bert import layers
from keras_bert.exporting.onnx_graph import (
    Graph,
    activate,
    attention_mask,
    block,
    dense,
    embeddings,
    layer_norm,
    positions,
    sentence_pooling,
    unit_length,
    weight,
)
from keras_bert.heads.registry import answering, head_named
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.models.forward import run_encoder
from keras_bert.version import __version__

_OPSET = 17  # The first with LayerNormalization.
_IR_VERSION = 8  # That of opset 17.


def build_onnx(model, description):
    """Returns the `onnx.ModelProto` of a model.

    Inputs and outputs have the names and the shapes of the Keras model's; inputs are int32, masks are 0 or 1. Lists of
    outputs, such as `hidden_states`, are left out. Only standard operators are used.
    """
    graph = Graph()
    outputs = _outputs(graph, description, {name: name for name in model.input})
    axes = answering(description.head).axes
    graph.rename({tensor: name for name, tensor in outputs.items()})
    tensors = [
        [helper.make_tensor_value_info(name, dtype, _dimensions(axes(name), sides[name])) for name in names]
        for sides, names, dtype in (
            (model.input, list(model.input), TensorProto.INT32),
            (model.output, list(outputs), TensorProto.FLOAT),
        )
    ]
    whole = helper.make_graph(graph.nodes, model.name, *tensors, graph.constants)
    opset = [helper.make_opsetid("", _OPSET)]
    proto = helper.make_model(whole, opset_imports=opset, ir_version=_IR_VERSION, producer_name="keras_bert")
    proto.producer_version = __version__
    checker.check_model(proto)
    return proto


def _dimensions(free, tensor):
    """Returns sizes of axes, or names of free ones."""
    return [size or axis for size, axis in itertools.zip_longest(tensor.shape, free[: len(tensor.shape)])]


def _outputs(graph, description, inputs):
    """Adds the layers of a model; returns the names of the outputs for the names of the inputs."""
    writers, head = _writers(graph, description.layers), head_named(description.head)
    rows = head.encoder_inputs(writers, inputs)
    encoded = {"sequence_output": run_encoder(writers, rows)[0][-1]}
    if "pooler" in writers:
        encoded["pooled_output"] = writers["pooler"](encoded["sequence_output"], rows["padding_mask"])
    return head.run(writers, encoded, inputs)


def _writers(graph, sources):
    """Returns functions with the names of the layers, which add them to a graph and take and return names of tensors.

    The forward pass runs on them as it does on the layers themselves.
    """
    writers = {}
    for name in sources.keys() - {"token_embedding", "embeddings"}:
        writer = next((write for layer_class, write in _WRITERS if isinstance(sources[name], layer_class)), None)
        if writer is None:
            raise ValueError(f"no ONNX operators are known for the layer {name!r}. Received: {sources[name]!r:.100}")
        writers[name] = functools.partial(writer, graph, sources[name], name)
    table = weight(graph, sources["token_embedding"].float_table(), "token_embedding")

    def token_embedding(tensor, reverse=False):
        return graph.add("MatMul", tensor, graph.add("Transpose", table, perm=[1, 0])) if reverse else tensor

    def embed(ids, segment_ids, position_ids=None):
        return embeddings(graph, ids, segment_ids, table, sources["embeddings"], position_ids)

    writers |= {"token_embedding": token_embedding, "embeddings": embed}  # The second one looks the ids up.
    if "span" in writers:
        writers["span"] = functools.partial(_columns, graph, writers["span"])
    return writers


def _columns(graph, write, hidden):
    """The columns of a dense layer by their index: names of tensors cannot be sliced."""
    logits = write(hidden)
    return {(..., index): graph.add("Gather", logits, index, axis=2) for index in range(2)}


def _dense(graph, layer, name, hidden):
    rows = dense(graph, hidden, layer, name, layer.use_bias)
    return activate(graph, rows, keras.activations.serialize(layer.activation))


def _positions(graph, layer, name, ids):
    add = graph.add
    is_padding = add("Equal", add("Cast", ids, to=TensorProto.INT64), layer.padding_id)
    is_token = add("Cast", add("Not", is_padding), to=TensorProto.INT64)
    return add("Add", add("Mul", add("CumSum", is_token, 1), is_token), layer.padding_id)


def _dropout(graph, layer, name, hidden):
    return hidden


def _pooler(graph, layer, name, hidden, mask):
    add = graph.add
    if layer.last:
        places = add("Mul", positions(graph, mask), add("Cast", mask, to=TensorProto.INT64))
        first = add("GatherND", hidden, add("ReduceMax", places, axes=[1]), batch_dims=1)
    else:
        first = add("Gather", hidden, 0, axis=1)
    return _dense(graph, layer.dense, name, first)


def _transform(graph, layer, name, hidden, places):
    places = graph.add("Unsqueeze", graph.add("Cast", places, to=TensorProto.INT64), [2])
    picked = dense(graph, graph.add("GatherND", hidden, places, batch_dims=1), layer.dense, name)
    return layer_norm(graph, activate(graph, picked, layer.activation), layer.norm, f"{name}/norm")


def _discriminator(graph, layer, name, hidden):
    hidden = activate(graph, dense(graph, hidden, layer.dense, f"{name}/dense"), layer.activation)
    return graph.add("Squeeze", dense(graph, hidden, layer.output_dense, f"{name}/output"), [2])


def _output_bias(graph, layer, name, logits):
    return graph.add("Add", logits, weight(graph, layer.bias, name))


def _fold(graph, layer, name, ids):
    length = graph.add("Shape", ids, start=2)
    return graph.add("Reshape", ids, graph.add("Concat", [-1], length, axis=0))


def _unfold(graph, layer, name, scores, mask):
    add = graph.add
    logits = add("Reshape", scores, add("Shape", mask, end=2))
    present = add("Cast", add("ReduceMax", mask, axes=[2], keepdims=0), to=TensorProto.BOOL)
    return add("Where", present, logits, FORBIDDEN)


_WRITERS = (
    (layers.AttentionMask, attention_mask),
    (layers.PositionIds, _positions),
    (layers.TransformerBlock, block),
    (layers.Pooler, _pooler),
    (layers.Dense, _dense),
    (layers.Dropout, _dropout),
    (layers.MaskedLMTransform, _transform),
    (layers.OutputBias, _output_bias),
    (layers.Discriminator, _discriminator),
    (layers.FoldChoices, _fold),
    (layers.UnfoldChoices, _unfold),
    (layers.SentencePooling, sentence_pooling),
    (layers.UnitLength, unit_length),
)
