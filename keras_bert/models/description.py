"""Reads config and head back from a model's layers, so that saving needs no record beside the model."""

import dataclasses

import keras

from keras_bert.config import BertConfig

HEADS = (
    "encoder",
    "pretraining",
    "classification",
    "token_classification",
    "question_answering",
    "multiple_choice",
)


@dataclasses.dataclass(frozen=True)
class Description:
    """What `describe` found.

    Attributes:
        config: the `BertConfig` of the encoder.
        head: one of `HEADS`.
        num_classes: width of a classification head; 1 is regression. None for the others.
        next_sentence: whether there is an NSP head.
        causal, positions: as given to `build_encoder`.
        dtype: name of the encoder's dtype policy.
        layers: the layers by name, those of a nested encoder included.
    """

    config: BertConfig
    head: str
    num_classes: int | None
    next_sentence: bool
    causal: bool
    positions: str
    dtype: str
    layers: dict


def describe(model):
    """Describes a model of this package's builders, also after it was saved and loaded by Keras."""
    layers = {}
    for layer in model.layers:
        layers.update(
            {part.name: part for part in layer.layers} if isinstance(layer, keras.Model) else {layer.name: layer}
        )
    missing = {"token_embedding", "embeddings", "attention_mask", "block_0"} - set(layers)
    if missing:
        raise ValueError(
            "`model` must come from a builder of keras_bert, such as build_encoder. "
            f"Received: {model.name!r} without the layer(s) {', '.join(sorted(missing))}"
        )
    embeddings, block = layers["embeddings"], layers["block_0"]
    head, num_classes = _head(layers)
    config = BertConfig(
        vocab_size=layers["token_embedding"].input_dim,
        hidden_size=embeddings.hidden_size,
        num_hidden_layers=sum(name.startswith("block_") for name in layers),
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
    dropout = layers.get("head_dropout")
    if dropout is not None and dropout.rate != config.hidden_dropout_prob:
        config = dataclasses.replace(config, classifier_dropout=dropout.rate)
    return Description(
        config=config,
        head=head,
        num_classes=num_classes,
        next_sentence="next_sentence" in layers,
        causal=layers["attention_mask"].causal,
        positions=embeddings.positions,
        dtype=block.dtype_policy.name,
        layers=layers,
    )


def _head(layers):
    for name in ("classifier", "token_classifier"):
        if name in layers:
            head = "classification" if name == "classifier" else "token_classification"
            return head, layers[name].units
    if "mlm_transform" in layers:
        return "pretraining", None
    if "span" in layers:
        return "question_answering", None
    if "choice_scorer" in layers:
        return "multiple_choice", None
    return "encoder", None
