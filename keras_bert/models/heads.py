"""Fine-tuning heads (BERT, section 4). They extend the encoder's graph."""

from collections.abc import Sequence
from typing import Literal

import keras

from keras_bert.checks import check_count, is_count
from keras_bert.layers import (
    Dense,
    Discriminator,
    Dropout,
    FoldChoices,
    MultiLabelDense,
    SentencePooling,
    SigmoidDense,
    UnfoldChoices,
    UnitLength,
)
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder

_PROJECTION_ACTIVATIONS = ("linear", "tanh")


def build_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    dropout: float | None = None,
    multi_label: bool = False,
    score_activation: Literal["linear", "sigmoid"] = "linear",
) -> keras.Model:
    """Classifies a text or a pair of texts from the pooled [CLS] vector.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of classes, 1 for regression.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.
        multi_label: bool, whether several classes may apply to one text; the outputs are sigmoid logits. Defaults to
            `False`.
        score_activation: str, what makes the logit of a regression model its score in answers: "linear", or "sigmoid",
            as in most cross-encoders of sentence-transformers. Defaults to "linear".

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, num_classes)`.

    Example:
        model = build_classifier(build_encoder(named_config("tiny")), num_classes=3)
    """
    # Layers
    kind = _kind_of_logits(num_classes, multi_label, score_activation)
    layers = _head(encoder, num_classes, dropout, "classifier", kind)

    # Wiring
    outputs = classify(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_classifier"))


def classify(layers, encoded, inputs):
    """Runs the layers of a classifier, see `Head.run`."""
    return {"logits": layers["classifier"](layers["head_dropout"](encoded["pooled_output"]))}


def build_token_classifier(encoder: keras.Model, num_classes: int, *, dropout: float | None = None) -> keras.Model:
    """Classifies each token.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of tags.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, length, num_classes)`.

    Example:
        model = build_token_classifier(build_encoder(named_config("tiny")), num_classes=9)
    """
    # Layers
    layers = _head(encoder, num_classes, dropout, "token_classifier")

    # Wiring
    outputs = classify_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_token_classifier"))


def classify_tokens(layers, encoded, inputs):
    """Runs the layers of a token classifier, see `Head.run`."""
    return {"logits": layers["token_classifier"](layers["head_dropout"](encoded["sequence_output"]))}


def build_span_labeler(encoder: keras.Model) -> keras.Model:
    """Scores each token as the start and as the end of an answer.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the outputs `start_logits` and `end_logits`, float32 `(batch, length)`.

    Example:
        model = build_span_labeler(build_encoder(named_config("tiny")))
    """
    # Layers
    layers = _head(encoder, 2, 0, "span")

    # Wiring
    outputs = label_spans(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_span_labeler"))


def label_spans(layers, encoded, inputs):
    """Runs the layers of a span labeler, see `Head.run`."""
    logits = layers["span"](encoded["sequence_output"])
    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def build_replaced_token_detector(encoder: keras.Model) -> keras.Model:
    """Tells of each token whether it was replaced, as ELECTRA's discriminator.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, length)`, positive for replaced tokens.

    Example:
        model = build_replaced_token_detector(build_encoder(named_config("tiny")))
    """
    # Layers
    encoding = describe_encoder(encoder)
    settings = encoding.config.hidden_size, encoding.config.hidden_act, encoding.config.initializer_range
    layers = {"discriminator": Discriminator(*settings, dtype=encoding.dtype, name="discriminator")}

    # Wiring
    outputs = detect_replaced_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_replaced_token_detector"))


def detect_replaced_tokens(layers, encoded, inputs):
    """Runs the layers of a discriminator, see `Head.run`."""
    return {"logits": layers["discriminator"](encoded["sequence_output"])}


def build_multiple_choice(encoder: keras.Model, dropout: float | None = None) -> keras.Model:
    """Scores each choice from its pooled [CLS] vector.

    Only this head calls the encoder as a layer, since its inputs have a different rank.

    Args:
        encoder: a model from `build_encoder`.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.

    Returns:
        A `keras.Model`. Inputs: the encoder's, `(batch, choices, length)`. Output: `logits`, float32
        `(batch, choices)`. A choice whose `padding_mask` is 0 everywhere is absent and has the probability 0: pad rows
        with fewer choices with it.

    Example:
        model = build_multiple_choice(build_encoder(named_config("tiny")))
    """
    # Layers
    layers = _head(encoder, 1, dropout, "choice_scorer")
    layers["fold_choices"] = FoldChoices(name="fold_choices")
    layers["unfold_choices"] = UnfoldChoices(dtype="float32", name="unfold_choices")

    # Wiring
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in encoder.input}
    outputs = score_choices(layers, encoder(fold_choices(layers, inputs)), inputs)

    # Model
    return built(keras.Model(inputs, outputs, name="bert_multiple_choice"))


def fold_choices(layers, inputs):
    """Returns the inputs of the encoder of a multiple choice model."""
    return {name: layers["fold_choices"](tensor) for name, tensor in inputs.items()}


def score_choices(layers, encoded, inputs):
    """Runs the layers of a multiple choice model, see `Head.run`."""
    scores = layers["choice_scorer"](layers["head_dropout"](encoded["pooled_output"]))
    return {"logits": layers["unfold_choices"](scores, inputs["padding_mask"])}


def build_embedder(
    encoder: keras.Model,
    pooling: str | Sequence[str] = "mean",
    *,
    normalize: bool = False,
    sequence_length: int | None = None,
    projection: int | None = None,
    projection_activation: Literal["linear", "tanh"] = "linear",
) -> keras.Model:
    """Embeds each text as one vector, as in sentence-transformers. Without a projection, it adds no weights.

    Args:
        encoder: a model from `build_encoder`.
        pooling: str or tuple of str, see `keras_bert.layers.SentencePooling`. Defaults to "mean".
        normalize: bool, whether to scale vectors to length 1. Defaults to `False`.
        sequence_length: int, maximum sequence length in training, stored by `save`. Defaults to `None`.
        projection: int, number of units of a dense layer after pooling. Defaults to `None`, no such layer.
        projection_activation: str, its activation, "linear" or "tanh". Defaults to "linear".

    Returns:
        A `keras.Model` with the output `embedding`, float32 `(batch, width)`. The width is the projection, or else the
        hidden size, times the number of poolings.

    Example:
        model = build_embedder(build_encoder(named_config("tiny")), normalize=True)
    """
    # Layers
    encoding, layers = describe_encoder(encoder), {}
    if projection is not None:
        stddev = encoding.config.initializer_range
        layers["sentence_projection"] = _projection(projection, projection_activation, stddev)
        if normalize:
            layers["unit_length"] = UnitLength(dtype="float32", name="unit_length")
    scaled = bool(normalize) and projection is None
    pool = SentencePooling(pooling, scaled, sequence_length, dtype="float32", name="sentence_pooling")
    layers["sentence_pooling"] = pool

    # Wiring
    outputs = embed(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_embedder"))


def embed(layers, encoded, inputs):
    """Runs the layers of an embedder, see `Head.run`."""
    embedding = layers["sentence_pooling"](encoded["sequence_output"], inputs["padding_mask"])
    for name in ("sentence_projection", "unit_length"):
        embedding = layers[name](embedding) if name in layers else embedding
    return {"embedding": embedding}


def _projection(units, activation, stddev):
    """Returns the dense layer after pooling."""
    if not is_count(units):
        raise ValueError(f"`projection` must be a positive integer or `None`. Received: projection={units!r}")
    if activation not in _PROJECTION_ACTIVATIONS:
        raise ValueError(
            f"`projection_activation` must be one of {', '.join(_PROJECTION_ACTIVATIONS)}. "
            f"Received: projection_activation={activation!r}"
        )
    initializer = keras.initializers.TruncatedNormal(stddev=stddev)
    return Dense(
        int(units), activation=activation, kernel_initializer=initializer, dtype="float32", name="sentence_projection"
    )


def _kind_of_logits(num_classes, multi_label, score_activation):
    """Returns the layer of a classifier's logits."""
    allowed = ("linear", "sigmoid") if num_classes == 1 and not multi_label else ("linear",)
    if score_activation not in allowed:
        raise ValueError(
            f"`score_activation` must be 'linear', or 'sigmoid' for a model with one output. Received: "
            f"score_activation={score_activation!r}, num_classes={num_classes}, multi_label={multi_label}"
        )
    return MultiLabelDense if multi_label else SigmoidDense if score_activation == "sigmoid" else Dense


def _head(encoder, units, dropout, name, kind=Dense):
    """Returns the dropout layer and the float32 dense layer of a head by name."""
    check_count("num_classes", units)
    encoding = describe_encoder(encoder)
    rate = encoding.config.hidden_dropout_prob if dropout is None else dropout
    initializer = keras.initializers.TruncatedNormal(stddev=encoding.config.initializer_range)
    return {
        "head_dropout": Dropout(rate, dtype=encoding.dtype, name="head_dropout"),
        name: kind(int(units), kernel_initializer=initializer, dtype="float32", name=name),
    }
