"""Heads of each token: its class (BERT, section 5.3), and whether it was replaced (ELECTRA, Clark et al., 2020)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.confidence import OF_SEVERAL
from keras_bert.heads.head import Head, dense_head
from keras_bert.layers import Discriminator
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder


def build_token_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    dropout: float | None = None,
) -> keras.Model:
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
    layers = dense_head(encoder, num_classes, dropout, "token_classifier")

    # Wiring
    outputs = classify_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_token_classifier"))


def classify_tokens(layers, encoded, inputs):
    """Runs the layers of a token classifier, see `Head.run`."""
    return {"logits": layers["token_classifier"](layers["head_dropout"](encoded["sequence_output"]))}


class TokenClassification(Head):
    """A tag of each token."""

    name = "token_classification"
    layer = "token_classifier"
    reads = ("sequence",)
    architectures = ("BertForTokenClassification",)
    tensors = {"token_classifier": "classifier"}
    units = {"num_classes": "token_classifier"}
    packs = True
    has_classes = True
    peft = "TOKEN_CLS"
    text_options = ("doc_stride", "confidence")
    takes_words = True
    long_texts = ()
    build = staticmethod(build_token_classifier)
    run = staticmethod(classify_tokens)
    answer = staticmethod(answers.entities)

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import tagger

        return tagger

    def confidence_fields(self, description):
        return OF_SEVERAL


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
    config = encoding.config
    discriminator = Discriminator(
        config.hidden_size,
        config.hidden_act,
        config.initializer_range,
        dtype=encoding.dtype,
        name="discriminator",
    )
    layers = {"discriminator": discriminator}

    # Wiring
    outputs = detect_replaced_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_replaced_token_detector"))


def detect_replaced_tokens(layers, encoded, inputs):
    """Runs the layers of a discriminator, see `Head.run`."""
    return {"logits": layers["discriminator"](encoded["sequence_output"])}


def _write_discriminator(graph, layer, hidden):
    dense = graph.dense(hidden, layer.dense, f"{layer.name}/dense")
    transformed = graph.activate(dense, layer.activation)
    logits = graph.dense(transformed, layer.output_dense, f"{layer.name}/output")
    return graph.add("Squeeze", logits, [2])


class ReplacedTokenDetection(Head):
    """Whether each token was replaced."""

    name = "replaced_token_detection"
    layer = "discriminator"
    reads = ("sequence",)
    architectures = ("ElectraForPreTraining",)
    tensors = {
        "discriminator.dense": "discriminator_predictions.dense",
        "discriminator.output_dense": "discriminator_predictions.dense_prediction",
    }
    packs = True
    text_options = ("doc_stride",)
    long_texts = ()
    onnx = {"discriminator": _write_discriminator}
    build = staticmethod(build_replaced_token_detector)
    run = staticmethod(detect_replaced_tokens)
    answer = staticmethod(answers.replaced)

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import replaced_token_detector

        return replaced_token_detector
