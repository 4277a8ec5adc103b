"""Reads the graph of a functional model from its outputs to its inputs and compares it with the builders' graphs."""

import keras

from keras_bert.layers import (
    AttentionMask,
    BertEmbeddings,
    BiLSTM,
    Dense,
    Dropout,
    EncoderFeatures,
    FoldChoices,
    MaskedLMTransform,
    MultiLabelDense,
    OutputBias,
    Pooler,
    SentencePooling,
    SigmoidDense,
    TokenEmbedding,
    TransformerBlock,
    UnfoldChoices,
    UnitLength,
    WeightedSum,
)

PROJECTION_ACTIVATIONS = ("linear", "tanh")
_ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "hidden_states", "attention_scores")


def read(model):
    """Returns the head of a model and its layers, keyed by the builders' names, or raises `OtherWiringError`."""
    graph = _Graph(model)
    return graph.read_head(), graph.layers


class OtherWiringError(Exception):
    """Raised where a graph differs from the graphs of the builders."""


def expect(condition, message):
    """Raises `OtherWiringError` with a message unless the condition is true."""
    if not condition:
        raise OtherWiringError(message[0].upper() + message[1:])


class _Graph:
    """The graph of a functional model; `layers` contains the layers found so far, keyed by the builders' names."""

    def __init__(self, model):
        expect(type(model).call.__qualname__ == "Functional.call", "its class overrides `call`")
        strings = any(tensor.dtype == "string" for tensor in getattr(model, "inputs", None) or [])
        expect(not strings, "it takes strings: pass the model on token ids that build_text_model received")
        dicts = isinstance(getattr(model, "input", None), dict) and isinstance(model.output, dict)
        expect(dicts, "its inputs and outputs are not dicts")
        self.inputs, self.outputs = model.input, model.output
        self.layers = {}

    def read_head(self):
        """Returns the head's name and fills `layers`."""
        names = set(self.outputs)
        if {"sequence_output", "pooled_output"} <= names <= {*_ENCODER_OUTPUTS}:
            return self._encoder()
        if "mlm_logits" in names and names <= {"mlm_logits", "nsp_logits"}:
            return self._pretraining()
        if names == {"nsp_logits"}:
            return self._next_sentence()
        if names == {"embedding"}:
            return self._embedding()
        if names == {"start_logits", "end_logits"}:
            return self._question_answering()
        expect(names == {"logits"}, f"its outputs are {', '.join(map(repr, sorted(names)))}")
        logits = self.outputs["logits"]
        return self._multiple_choice(logits) if _made_by(logits, UnfoldChoices) else self._classification(logits)

    def _encoder(self):
        sequence = self.outputs["sequence_output"]
        states, scores = self._read_encoder(sequence)
        self._pooled(self.outputs["pooled_output"], sequence)
        for name, expected in (("hidden_states", states), ("attention_scores", scores)):
            if name in self.outputs:
                expect(_same(self.outputs[name], expected), f"{name!r} are not the layers' outputs in order")
        return "encoder"

    def _embedding(self):
        embedding, mask = self.outputs["embedding"], self.inputs.get("padding_mask")
        is_scaled = _made_by(embedding, UnitLength)
        if is_scaled:
            embedding = self._call("unit_length", UnitLength, embedding)
        if is_scaled or _made_by(embedding, Dense):
            embedding = self._dense("sentence_projection", embedding, activations=PROJECTION_ACTIVATIONS)
        self._read_encoder(self._call("sentence_pooling", SentencePooling, embedding, mask))
        projected = "sentence_projection" in self.layers
        expect(not (projected and self.layers["sentence_pooling"].normalize), "vectors are scaled before a projection")
        return "embedding"

    def _next_sentence(self):
        pooled = self._dense("next_sentence", self.outputs["nsp_logits"])
        self._read_encoder(self._pooler(pooled))
        return "next_sentence"

    def _pretraining(self):
        logits = self._call("mlm_bias", OutputBias, self.outputs["mlm_logits"])
        if _made_by(logits, Dense):
            masked = self._dense("mlm_decoder", logits, use_bias=False)
        else:
            masked = self._call("token_embedding", TokenEmbedding, logits, reverse=True)
        sequence = self._call("mlm_transform", MaskedLMTransform, masked, self.inputs.get("mask_positions"))
        table = self.layers.get("token_embedding")
        self._read_encoder(sequence, "mask_positions")
        tied = table in (None, self.layers["token_embedding"])
        expect(tied, "the masked-LM head is not tied to the encoder's table")
        if "nsp_logits" in self.outputs:
            self._pooled(self._dense("next_sentence", self.outputs["nsp_logits"]), sequence)
        return "pretraining"

    def _question_answering(self):
        logits = [_column(self.outputs[name], index) for index, name in enumerate(("start_logits", "end_logits"))]
        expect(logits[0] is logits[1], "'start_logits' and 'end_logits' come from different tensors")
        self._read_encoder(self._dense("span", logits[0]))
        return "question_answering"

    def _classification(self, logits):
        kind = next((kind for kind in (MultiLabelDense, SigmoidDense) if _made_by(logits, kind)), Dense)
        hidden = self._dense("classifier", logits, kind)
        hidden = self._call("head_dropout", Dropout, hidden)
        if _made_by(hidden, Pooler):
            self._read_encoder(self._pooler(hidden))
            return "classification"
        expect(kind is Dense, f"{_origin_name(logits)} replaces keras_bert.layers.Dense")
        self.layers["token_classifier"] = self.layers.pop("classifier")
        if _made_by(hidden, BiLSTM) and _made_by(_origin(hidden)[1][0], Dropout):
            return self._bilstm_tagging(hidden)
        self._read_encoder(hidden)
        return "token_classification"

    def _bilstm_tagging(self, hidden):
        mask, found = self.inputs.get("padding_mask"), []
        while _made_by(hidden, BiLSTM):
            dropped = self._call("bilstm", BiLSTM, hidden, mask)
            hidden = self._call("bilstm_dropout", Dropout, dropped)
            found.insert(0, {name: self.layers.pop(name) for name in ("bilstm_dropout", "bilstm")})
        for index, pair in enumerate(found):
            self.layers.update({f"{name}_{index}": layer for name, layer in pair.items()})
        if _made_by(hidden, WeightedSum):
            hidden = self._call("weighted_sum", WeightedSum, hidden)
        states = self._call("features", EncoderFeatures, hidden)
        is_sum = self.layers["features"].is_sum == ("weighted_sum" in self.layers)
        expect(is_sum, "the features do not match the layer above them")
        expect(_same(states, self._read_encoder(states[-1], inference=True)[0]), "'features' are not on all states")
        return "bilstm_tagging"

    def _multiple_choice(self, logits):
        scores = self._call("unfold_choices", UnfoldChoices, logits, self.inputs.get("padding_mask"))
        pooled = self._call("head_dropout", Dropout, self._dense("choice_scorer", scores))
        nested = isinstance(pooled, keras.KerasTensor) and isinstance(pooled._keras_history.operation, keras.Model)
        expect(nested, "the head is not on a model from build_encoder")
        encoder, arguments, _ = _origin(pooled)
        inner = _Graph(encoder)
        expect(inner.read_head() == "encoder", "the head is not on a model from build_encoder")
        position = pooled._keras_history.tensor_index
        expect(encoder.outputs[position] is encoder.output["pooled_output"], "the head is not on 'pooled_output'")
        rows = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else {}
        expect(set(rows) == set(inner.inputs) == set(self.inputs), "its inputs are not those of the encoder")
        for name, row in rows.items():
            expect(self._call("fold_choices", FoldChoices, row) is self.inputs[name], f"{name!r} bypasses FoldChoices")
        self.layers = {**inner.layers, **self.layers}
        return "multiple_choice"

    def _read_encoder(self, sequence, *more_inputs, **options):
        """Reads the blocks, embeddings and inputs below `sequence`; returns hidden states and attention scores.

        `options` are arguments with which the blocks and the embeddings must be called.
        """
        if _made_by(sequence, BiLSTM):
            sequence = self._call("encoder_bilstm", BiLSTM, sequence, self.inputs.get("padding_mask"))
        states, blocks, scores, masks = [sequence], [], [], []
        while _made_by(states[0], TransformerBlock):
            block, arguments, given = _origin(states[0], "attention_mask", "return_attention_scores", *options)
            alike = len(arguments) == 1 and block not in blocks and options.items() <= given.items()
            expect(alike, f"the layer {block.name!r} has unexpected arguments")
            tensors = block._inbound_nodes[states[0]._keras_history.node_index].outputs
            blocks.insert(0, block)
            masks.append(given.get("attention_mask"))
            scores[:0] = tensors[1:]
            states.insert(0, arguments[0])
        expect(blocks, f"{_origin_name(sequence)} replaces keras_bert.layers.TransformerBlock")
        for index, block in enumerate(blocks):
            self.layers[f"block_{index}"] = block
        expect(masks[0] is not None and _same(masks, [masks[0]] * len(masks)), "the blocks have different masks")
        tokens = self._call("embeddings", BertEmbeddings, states[0], self.inputs.get("segment_ids"), **options)
        inputs = {
            "token_ids": self._call("token_embedding", TokenEmbedding, tokens),
            "segment_ids": self.inputs.get("segment_ids"),
            "padding_mask": self._call("attention_mask", AttentionMask, masks[0]),
        }
        expected = {*inputs, *more_inputs}
        expect(set(self.inputs) == expected, f"its inputs are {', '.join(map(repr, sorted(self.inputs)))}")
        for name, tensor in inputs.items():
            expect(tensor is self.inputs[name], f"the input {name!r} is not connected to its layer")
        return states, scores

    def _pooled(self, pooled, sequence):
        expect(self._pooler(pooled) is sequence, "the pooler is not on the last block")

    def _pooler(self, pooled):
        last = _made_by(pooled, Pooler) and pooled._keras_history.operation.last
        return self._call("pooler", Pooler, pooled, *([self.inputs.get("padding_mask")] if last else []))

    def _dense(self, name, tensor, kind=Dense, use_bias=True, activations=("linear",)):
        below = self._call(name, kind, tensor)
        layer = self.layers[name]
        plain = keras.activations.serialize(layer.activation) in activations and layer.use_bias == use_bias
        expect(plain, f"the layer {layer.name!r} has another activation, or {'no bias' if use_bias else 'a bias'}")
        return below

    def _call(self, name, kind, tensor, *others, **options):
        """Returns the first argument of the layer that made `tensor`, which must be a `kind` called with `others`."""
        expect(_made_by(tensor, kind), f"{_origin_name(tensor)} replaces keras_bert.layers.{kind.__name__}")
        layer, arguments, found = _origin(tensor, *options)
        alike = len(arguments) == 1 + len(others) and _same(arguments[1:], others) and found == options
        expect(alike, f"the layer {layer.name!r} has unexpected arguments")
        self.layers[name] = layer
        return arguments[0]


def _origin(tensor, *options):
    """Returns the operation that made a tensor, its positional arguments and its keyword arguments among `options`."""
    operation, index, _ = tensor._keras_history
    arguments = operation._inbound_nodes[index].arguments
    # Keras passes a mask, a dict of `None`, to a nested model.
    given = {name: value for name, value in arguments.kwargs.items() if _is_given(value)}
    expect(set(given) <= set(options), f"the layer {operation.name!r} is called with {', '.join(sorted(given))}")
    return operation, arguments.args, given


def _is_given(value):
    return any(leaf is not None for leaf in keras.tree.flatten(value))


def _made_by(tensor, kind):
    return isinstance(tensor, keras.KerasTensor) and type(tensor._keras_history.operation) is kind


def _origin_name(tensor):
    if not isinstance(tensor, keras.KerasTensor):
        return "a constant"
    operation = tensor._keras_history.operation
    return f"{operation.name!r} ({type(operation).__name__})"


def _column(tensor, index):
    """Returns the tensor whose column `index` is `tensor`."""
    operation, arguments, _ = _origin(tensor)
    sliced = type(operation).__name__ == "GetItem" and list(arguments[1]) == [Ellipsis, index]
    expect(sliced, f"{_origin_name(tensor)} replaces a column of the logits")
    return arguments[0]


def _same(tensors, others):
    return len(tensors) == len(others) and all(one is other for one, other in zip(tensors, others, strict=True))
