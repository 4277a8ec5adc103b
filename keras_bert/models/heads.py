"""Fine-tuning heads (BERT, section 4). Each adds one new layer to the encoder's graph."""

import keras

from keras_bert.layers import Dense, Dropout, FoldChoices, MultiLabelDense, SentencePooling, UnfoldChoices
from keras_bert.models.description import describe_encoder


def build_classifier(encoder, num_classes, dropout=None, multi_label=False):
    """Classifies a text or a pair of texts from the pooled [CLS] vector.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of classes, 1 for regression.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.
        multi_label: bool, whether several classes may apply to one text; the outputs are sigmoid logits. Defaults to
            `False`.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, num_classes)`.

    Example:
        model = build_classifier(build_encoder(named_config("tiny")), num_classes=3)
    """
    # Layers
    kind = MultiLabelDense if multi_label else Dense
    drop, dense = _head(encoder, num_classes, dropout, "classifier", kind)

    # Wiring
    logits = dense(drop(encoder.output["pooled_output"]))

    # Model
    return keras.Model(encoder.input, {"logits": logits}, name="bert_classifier")


def build_token_classifier(encoder, num_classes, dropout=None):
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
    drop, dense = _head(encoder, num_classes, dropout, "token_classifier")

    # Wiring
    logits = dense(drop(encoder.output["sequence_output"]))

    # Model
    return keras.Model(encoder.input, {"logits": logits}, name="bert_token_classifier")


def build_span_labeler(encoder):
    """Scores each token as the start and as the end of an answer.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the outputs `start_logits` and `end_logits`, float32 `(batch, length)`.

    Example:
        model = build_span_labeler(build_encoder(named_config("tiny")))
    """
    # Layers
    _, dense = _head(encoder, 2, 0, "span")

    # Wiring
    logits = dense(encoder.output["sequence_output"])

    # Model
    outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    return keras.Model(encoder.input, outputs, name="bert_span_labeler")


def build_multiple_choice(encoder, dropout=None):
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
    drop, dense = _head(encoder, 1, dropout, "choice_scorer")
    fold = FoldChoices(name="fold_choices")
    unfold = UnfoldChoices(dtype="float32", name="unfold_choices")

    # Wiring
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in encoder.input}
    rows = encoder({name: fold(tensor) for name, tensor in inputs.items()})
    logits = unfold(dense(drop(rows["pooled_output"])), inputs["padding_mask"])

    # Model
    return keras.Model(inputs, {"logits": logits}, name="bert_multiple_choice")


def build_embedder(encoder, pooling="mean", normalize=False, sequence_length=None):
    """Embeds each text as one vector, as in sentence-transformers. Adds no weights.

    Args:
        encoder: a model from `build_encoder`.
        pooling: str, see `keras_bert.layers.SentencePooling`. Defaults to "mean".
        normalize: bool, whether to scale vectors to length 1. Defaults to `False`.
        sequence_length: int, maximum sequence length in training, stored by `save`. Defaults to `None`.

    Returns:
        A `keras.Model` with the output `embedding`, float32 `(batch, hidden_size)`.

    Example:
        model = build_embedder(build_encoder(named_config("tiny")), normalize=True)
    """
    # Layers
    describe_encoder(encoder)
    pool = SentencePooling(pooling, normalize, sequence_length, dtype="float32", name="sentence_pooling")

    # Wiring
    embedding = pool(encoder.output["sequence_output"], encoder.input["padding_mask"])

    # Model
    return keras.Model(encoder.input, {"embedding": embedding}, name="bert_embedder")


def _head(encoder, units, dropout, name, kind=Dense):
    """Returns the dropout layer and the float32 dense layer of a head."""
    if type(units) is not int or units < 1:
        raise ValueError(f"`num_classes` must be a positive integer. Received: num_classes={units!r}")
    encoding = describe_encoder(encoder)
    rate = encoding.config.hidden_dropout_prob if dropout is None else dropout
    initializer = keras.initializers.TruncatedNormal(stddev=encoding.config.initializer_range)
    return (
        Dropout(rate, dtype=encoding.dtype, name="head_dropout"),
        kind(units, kernel_initializer=initializer, dtype="float32", name=name),
    )
