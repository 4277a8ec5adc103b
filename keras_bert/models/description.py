"""Reads config and head back from a model's graph, so that saving needs no record beside the model."""

import dataclasses

import keras

from keras_bert.config import BertConfig
from keras_bert.layers import (
    AttentionMask,
    BertEmbeddings,
    Dense,
    Dropout,
    FoldChoices,
    MaskedLMTransform,
    MultiLabelDense,
    OutputBias,
    Pooler,
    SentencePooling,
    TokenEmbedding,
    TransformerBlock,
    UnfoldChoices,
)

HEADS = (
    "encoder",
    "embedding",
    "pretraining",
    "next_sentence",
    "classification",
    "token_classification",
    "question_answering",
    "multiple_choice",
)
_ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "hidden_states", "attention_scores")


@dataclasses.dataclass(frozen=True)
class Description:
    """What `describe` found.

    Attributes:
        config: the `BertConfig` of the encoder.
        head: one of `HEADS`.
        num_classes: width of a classification head; 1 is regression. None for the others.
        multi_label: whether several classes may be right.
        next_sentence: whether there is an NSP head.
        tied: whether the masked-LM head has the token table.
        causal, positions: as given to `build_encoder`.
        dtype: name of the encoder's dtype policy.
        layers: the layers by the builders' names, those of a nested encoder included.
    """

    config: BertConfig
    head: str
    num_classes: int | None
    multi_label: bool
    next_sentence: bool
    tied: bool
    causal: bool
    positions: str
    dtype: str
    layers: dict


def describe(model):
    """Describes a model of this package's builders, also after it was saved and loaded by Keras.

    The wiring is followed from the outputs to the inputs, so that a model with a head of its own is never taken for
    one of ours.

    Raises:
        ValueError: where the graph is not that of a builder.
    """
    try:
        graph = _Graph(model)
        head = graph.read_head()
        return _description(head, graph.layers)
    except _OtherWiringError as error:
        raise ValueError(
            "`model` must come from a builder of keras_bert, such as build_encoder or build_classifier, with nothing "
            f"added, left out or wired otherwise. {error}. Received: model={model.name!r}. Only models of the builders "
            "can be saved and exported by keras_bert; any model can be saved by Keras: model.save('model.keras')"
        ) from None


def describe_encoder(encoder):
    """Describes a model of `build_encoder`, which a head is to be put on."""
    description = describe(encoder)
    if description.head != "encoder":
        raise ValueError(
            f"`encoder` must be a model of build_encoder. Received: a model with a {description.head} head"
        )
    return description


def _description(head, layers):
    embeddings, blocks = layers["embeddings"], [layer for name, layer in layers.items() if name.startswith("block_")]
    block = blocks[0]
    config = BertConfig(
        vocab_size=layers["token_embedding"].input_dim,
        hidden_size=embeddings.hidden_size,
        num_hidden_layers=len(blocks),
        num_attention_heads=block.num_heads,
        intermediate_size=block.intermediate_size,
        hidden_act=block.activation,
        hidden_dropout_prob=embeddings.dropout,
        attention_probs_dropout_prob=block.attention_dropout,
        max_position_embeddings=embeddings.max_length,
        type_vocab_size=embeddings.num_segments,
        initializer_range=embeddings.initializer_range,
        layer_norm_eps=embeddings.layer_norm_eps,
    )
    _check_settings(config, layers, blocks)
    dropout = layers.get("head_dropout")
    if dropout is not None and dropout.rate != config.hidden_dropout_prob:
        config = dataclasses.replace(config, classifier_dropout=dropout.rate)
    classifier = layers.get("classifier", layers.get("token_classifier"))
    return Description(
        config=config,
        head=head,
        num_classes=None if classifier is None else classifier.units,
        multi_label=type(classifier) is MultiLabelDense,
        next_sentence="next_sentence" in layers,
        tied="mlm_decoder" not in layers,
        causal=layers["attention_mask"].causal,
        positions=embeddings.positions,
        dtype=block.dtype_policy.name,
        layers=layers,
    )


def _check_settings(config, layers, blocks):
    """Raises where layers differ in what a config can say only once."""
    for block in blocks:
        found = {
            "num_heads": block.num_heads,
            "intermediate_size": block.intermediate_size,
            "activation": block.activation,
            "dropout": block.dropout,
            "attention_dropout": block.attention_dropout,
            "layer_norm_eps": block.layer_norm_eps,
        }
        expected = (
            config.num_attention_heads,
            config.intermediate_size,
            config.hidden_act,
            config.hidden_dropout_prob,
            config.attention_probs_dropout_prob,
            config.layer_norm_eps,
        )
        for (name, value), wanted in zip(found.items(), expected, strict=True):
            _expect(value == wanted, f"the layer {block.name!r} has {name}={value}, where others have {wanted}")
    transform = layers.get("mlm_transform")
    if transform is not None:
        same = (transform.activation, transform.layer_norm_eps) == (config.hidden_act, config.layer_norm_eps)
        _expect(same, f"the layer {transform.name!r} has another activation or epsilon than the blocks")


class _OtherWiringError(Exception):
    """Tells where a graph is not that of a builder."""


def _expect(condition, otherwise):
    if not condition:
        raise _OtherWiringError(otherwise[0].upper() + otherwise[1:])


class _Graph:
    """Reads a functional model from its outputs to its inputs; `layers` has what was found, by the builders' names."""

    def __init__(self, model):
        strings = any(tensor.dtype == "string" for tensor in getattr(model, "inputs", None) or [])
        _expect(not strings, "it takes texts: pass the model on token ids that build_text_model was given")
        dicts = isinstance(getattr(model, "input", None), dict) and isinstance(model.output, dict)
        _expect(dicts, "its inputs and outputs are no dicts")
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
        _expect(names == {"logits"}, f"its outputs are {', '.join(map(repr, sorted(names)))}")
        logits = self.outputs["logits"]
        return self._multiple_choice(logits) if _made_by(logits, UnfoldChoices) else self._classification(logits)

    def _encoder(self):
        states, scores = self._read_encoder(self.outputs["sequence_output"])
        self._pooled(self.outputs["pooled_output"], states[-1])
        for name, expected in (("hidden_states", states), ("attention_scores", scores)):
            if name in self.outputs:
                _expect(_same(self.outputs[name], expected), f"{name!r} are not those of the layers in their order")
        return "encoder"

    def _embedding(self):
        mask = self.inputs.get("padding_mask")
        self._read_encoder(self._call("sentence_pooling", SentencePooling, self.outputs["embedding"], mask))
        return "embedding"

    def _next_sentence(self):
        pooled = self._dense("next_sentence", self.outputs["nsp_logits"])
        self._read_encoder(self._call("pooler", Pooler, pooled))
        return "next_sentence"

    def _pretraining(self):
        logits = self._call("mlm_bias", OutputBias, self.outputs["mlm_logits"])
        if _made_by(logits, Dense):
            masked = self._dense("mlm_decoder", logits, use_bias=False)
        else:
            masked = self._call("token_embedding", TokenEmbedding, logits, reverse=True)
        sequence = self._call("mlm_transform", MaskedLMTransform, masked, self.inputs.get("mask_positions"))
        table = self.layers.get("token_embedding")
        states, _ = self._read_encoder(sequence, "mask_positions")
        tied = table in (None, self.layers["token_embedding"])
        _expect(tied, "the masked-LM head is tied to another table than the encoder's")
        if "nsp_logits" in self.outputs:
            self._pooled(self._dense("next_sentence", self.outputs["nsp_logits"]), states[-1])
        return "pretraining"

    def _question_answering(self):
        logits = [_column(self.outputs[name], index) for index, name in enumerate(("start_logits", "end_logits"))]
        _expect(logits[0] is logits[1], "'start_logits' and 'end_logits' come from different tensors")
        self._read_encoder(self._dense("span", logits[0]))
        return "question_answering"

    def _classification(self, logits):
        kind = MultiLabelDense if _made_by(logits, MultiLabelDense) else Dense
        hidden = self._dense("classifier", logits, kind)
        hidden = self._call("head_dropout", Dropout, hidden)
        if _made_by(hidden, Pooler):
            sequence = self._call("pooler", Pooler, hidden)
            self._read_encoder(sequence)
            return "classification"
        _expect(kind is Dense, f"{_origin_name(logits)} stands where keras_bert.layers.Dense does")
        self.layers["token_classifier"] = self.layers.pop("classifier")
        self._read_encoder(hidden)
        return "token_classification"

    def _multiple_choice(self, logits):
        scores = self._call("unfold_choices", UnfoldChoices, logits, self.inputs.get("token_ids"))
        pooled = self._call("head_dropout", Dropout, self._dense("choice_scorer", scores))
        encoder, arguments, _ = _origin(pooled)
        _expect(isinstance(encoder, keras.Model), "no model of build_encoder lies below the head")
        inner = _Graph(encoder)
        _expect(inner.read_head() == "encoder", "no model of build_encoder lies below the head")
        position = pooled._keras_history.tensor_index
        _expect(encoder.outputs[position] is encoder.output["pooled_output"], "the head is not on 'pooled_output'")
        rows = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else {}
        _expect(set(rows) == set(inner.inputs) == set(self.inputs), "its inputs are not those of the encoder")
        for name, row in rows.items():
            _expect(self._call("fold_choices", FoldChoices, row) is self.inputs[name], f"{name!r} is not folded")
        self.layers = {**inner.layers, **self.layers}
        return "multiple_choice"

    def _read_encoder(self, sequence, *more_inputs):
        """Reads the blocks, embeddings and inputs below `sequence`; returns hidden states and attention scores."""
        states, blocks, scores, masks = [sequence], [], [], []
        while _made_by(states[0], TransformerBlock):
            block, arguments, options = _origin(states[0], "attention_mask", "return_attention_scores")
            _expect(len(arguments) == 1 and block not in blocks, f"the layer {block.name!r} is called otherwise")
            tensors = block._inbound_nodes[states[0]._keras_history.node_index].outputs
            blocks.insert(0, block)
            masks.append(options.get("attention_mask"))
            scores[:0] = tensors[1:]
            states.insert(0, arguments[0])
        _expect(blocks, f"{_origin_name(sequence)} stands where keras_bert.layers.TransformerBlock does")
        for index, block in enumerate(blocks):
            self.layers[f"block_{index}"] = block
        _expect(masks[0] is not None and _same(masks, [masks[0]] * len(masks)), "the blocks have different masks")
        tokens = self._call("embeddings", BertEmbeddings, states[0], self.inputs.get("segment_ids"))
        inputs = {
            "token_ids": self._call("token_embedding", TokenEmbedding, tokens),
            "segment_ids": self.inputs.get("segment_ids"),
            "padding_mask": self._call("attention_mask", AttentionMask, masks[0]),
        }
        expected = {*inputs, *more_inputs}
        _expect(set(self.inputs) == expected, f"its inputs are {', '.join(map(repr, sorted(self.inputs)))}")
        for name, tensor in inputs.items():
            _expect(tensor is self.inputs[name], f"the input {name!r} is not what its layer reads")
        return states, scores

    def _pooled(self, pooled, sequence):
        _expect(self._call("pooler", Pooler, pooled) is sequence, "the pooler is not on the last block")

    def _dense(self, name, tensor, kind=Dense, use_bias=True):
        below = self._call(name, kind, tensor)
        layer = self.layers[name]
        plain = layer.activation is keras.activations.linear and layer.use_bias == use_bias
        _expect(plain, f"the layer {layer.name!r} has an activation, or {'no bias' if use_bias else 'a bias'}")
        return below

    def _call(self, name, kind, tensor, *others, **options):
        """The first argument of the layer that made `tensor`, which must be a `kind`, called with `others` after it."""
        _expect(_made_by(tensor, kind), f"{_origin_name(tensor)} stands where keras_bert.layers.{kind.__name__} does")
        layer, arguments, found = _origin(tensor, *options)
        _expect(
            _same(arguments[1:], others) and found == options and tensor._keras_history.tensor_index == 0,
            f"the layer {layer.name!r} is called otherwise",
        )
        self.layers[name] = layer
        return arguments[0]


def _origin(tensor, *options):
    """The operation that made a tensor, its positional arguments, and those of `options` that it was given."""
    operation, index, _ = tensor._keras_history
    arguments = operation._inbound_nodes[index].arguments
    # Keras itself adds a mask to the call of a nested model, a dict of None.
    given = {name: value for name, value in arguments.kwargs.items() if _is_given(value)}
    _expect(set(given) <= set(options), f"the layer {operation.name!r} is called with {', '.join(sorted(given))}")
    return operation, arguments.args, given


def _is_given(value):
    return any(leaf is not None for leaf in keras.tree.flatten(value))


def _made_by(tensor, kind):
    return isinstance(tensor, keras.KerasTensor) and type(tensor._keras_history.operation) is kind


def _origin_name(tensor):
    operation = tensor._keras_history.operation
    return f"{operation.name!r} ({type(operation).__name__})"


def _column(tensor, index):
    """What `tensor` is the column `index` of."""
    _, arguments, _ = _origin(tensor)
    _expect(
        len(arguments) == 2 and tuple(arguments[1]) == (Ellipsis, index),
        f"{_origin_name(tensor)} stands where a column of the logits does",
    )
    return arguments[0]


def _same(tensors, others):
    return len(tensors) == len(others) and all(one is other for one, other in zip(tensors, others, strict=True))
