"""Models of this package as ONNX models of token ids."""

import functools
import itertools

from onnx import TensorProto, checker, helper

from keras_bert import layers
from keras_bert.exporting.onnx_graph import Graph, attention_mask, block, embeddings
from keras_bert.heads.registry import answering, head_named
from keras_bert.models.encoder import run_encoder
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
    head = head_named(description.head)
    writers = _writers(graph, description.layers, head.onnx)
    rows = head.encoder_inputs(writers, inputs)
    encoded = {"sequence_output": run_encoder(writers, rows)[0][-1]}
    if "pooler" in writers:
        encoded["pooled_output"] = writers["pooler"](encoded["sequence_output"], rows["padding_mask"])
    return head.run(writers, encoded, inputs)


def _writers(graph, sources, own):
    """Returns functions with the names of the layers, which add them to a graph and take and return names of tensors.

    The forward pass runs on them as it does on the layers themselves. `own` are those of a head, `Head.onnx`.
    """
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


def _dense(graph, layer, name, hidden):
    return graph.dense(hidden, layer, name)


def _positions(graph, layer, name, ids):
    add = graph.add
    is_padding = add("Equal", graph.cast(ids, "int64"), layer.padding_id)
    is_token = graph.cast(add("Not", is_padding), "int64")
    return add("Add", add("Mul", add("CumSum", is_token, 1), is_token), layer.padding_id)


def _dropout(graph, layer, name, hidden):
    return hidden


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
    (layers.Dense, _dense),
    (layers.Dropout, _dropout),
)
