"""Models of this package as ONNX models of token ids."""

import itertools

from onnx import TensorProto, checker, helper

from keras_bert.exporting.onnx_graph import (
    Graph,
    activate,
    attention_bias,
    block,
    dense,
    embeddings,
    layer_norm,
    positions,
    weight,
)
from keras_bert.exporting.onnx_pooling import embedding
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.version import __version__

_OPSET = 17  # The first with LayerNormalization.
_IR_VERSION = 8  # That of opset 17.


def build_onnx(model, description):
    """Returns the `onnx.ModelProto` of a model.

    Inputs and outputs have the names and the shapes of the Keras model's; inputs are int32, masks are 0 or 1. Lists of
    outputs, such as `hidden_states`, are left out. Only standard operators are used.

    Args:
        model: a model from one of the builders.
        description: its `Description`.
    """
    graph = Graph()
    outputs = _Outputs(graph, description).of({name: name for name in model.input})
    graph.rename({tensor: name for name, tensor in outputs.items()})
    tensors = [
        [helper.make_tensor_value_info(name, kind, _dimensions(description.head, name, sides[name])) for name in names]
        for sides, names, kind in (
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


def _dimensions(head, name, tensor):
    """Returns sizes of axes, or names of free ones."""
    free = ("batch", "choices", "length") if head == "multiple_choice" else ("batch", "length")
    if name in ("mask_positions", "mlm_logits"):
        free = ("batch", "predictions")
    return [size or axis for size, axis in itertools.zip_longest(tensor.shape, free[: len(tensor.shape)])]


class _Outputs:
    """Adds the layers of a model to a graph.

    Args:
        graph: the `Graph`.
        description: the `Description` of the model.
    """

    def __init__(self, graph, description):
        self.graph, self.layers, self.description = graph, description.layers, description
        self.table = weight(graph, self.layers["token_embedding"].float_table(), "token_embedding")

    def of(self, inputs):
        """Returns the names of the outputs for the names of the inputs."""
        if self.description.head == "multiple_choice":
            folded = {name: self._fold(ids) for name, ids in inputs.items()}
            return {"logits": self._unfold(self._encode(folded), folded["padding_mask"], inputs["padding_mask"])}
        hidden, mask = self._encode(inputs), inputs["padding_mask"]
        match self.description.head:
            case "encoder":
                return {"sequence_output": hidden, "pooled_output": self._pool(hidden, mask)}
            case "embedding":
                return {"embedding": embedding(self.graph, hidden, mask, self.description)}
            case "pretraining":
                return self._pretraining(hidden, mask, inputs["mask_positions"])
            case "next_sentence":
                return {"nsp_logits": self._dense(self._pool(hidden, mask), "next_sentence")}
            case "classification":
                return {"logits": self._dense(self._pool(hidden, mask), "classifier")}
            case "token_classification":
                return {"logits": self._dense(hidden, "token_classifier")}
            case _:
                logits = self._dense(hidden, "span")
                names = ("start_logits", "end_logits")
                return {name: self.graph.add("Gather", logits, index, axis=2) for index, name in enumerate(names)}

    def _encode(self, inputs):
        hidden = embeddings(self.graph, inputs, self.table, self.layers["embeddings"])
        bias = attention_bias(self.graph, inputs["padding_mask"], self.description.causal)
        for index in range(self.description.config.num_hidden_layers):
            hidden = block(self.graph, hidden, bias, self.layers[f"block_{index}"])
        return hidden

    def _dense(self, hidden, name):
        return dense(self.graph, hidden, self.layers[name], name)

    def _pool(self, hidden, mask):
        add, layer = self.graph.add, self.layers["pooler"]
        if layer.last:
            places = add("Mul", positions(self.graph, mask), add("Cast", mask, to=TensorProto.INT64))
            first = add("GatherND", hidden, add("ReduceMax", places, axes=[1]), batch_dims=1)
        else:
            first = add("Gather", hidden, 0, axis=1)
        return add("Tanh", dense(self.graph, first, layer.dense, "pooler"))

    def _pretraining(self, hidden, mask, places):
        add, transform = self.graph.add, self.layers["mlm_transform"]
        places = add("Unsqueeze", add("Cast", places, to=TensorProto.INT64), [2])
        picked = dense(self.graph, add("GatherND", hidden, places, batch_dims=1), transform.dense, "mlm_transform")
        picked = layer_norm(
            self.graph, activate(self.graph, picked, transform.activation), transform.norm, "mlm_transform/norm"
        )
        if self.description.tied:
            logits = add("MatMul", picked, add("Transpose", self.table, perm=[1, 0]))
        else:
            logits = dense(self.graph, picked, self.layers["mlm_decoder"], "mlm_decoder", use_bias=False)
        outputs = {"mlm_logits": add("Add", logits, weight(self.graph, self.layers["mlm_bias"].bias, "mlm_bias"))}
        if self.description.next_sentence:
            outputs["nsp_logits"] = self._dense(self._pool(hidden, mask), "next_sentence")
        return outputs

    def _fold(self, ids):
        length = self.graph.add("Shape", ids, start=2)
        return self.graph.add("Reshape", ids, self.graph.add("Concat", [-1], length, axis=0))

    def _unfold(self, hidden, folded_mask, mask):
        add = self.graph.add
        scores = self._dense(self._pool(hidden, folded_mask), "choice_scorer")
        logits = add("Reshape", scores, add("Shape", mask, end=2))
        present = add("Cast", add("ReduceMax", mask, axes=[2], keepdims=0), to=TensorProto.BOOL)
        return add("Where", present, logits, FORBIDDEN)
