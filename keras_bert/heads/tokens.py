"""Heads of each token: its class (BERT, section 5.3), and whether it was replaced (ELECTRA, Clark et al., 2020)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.confidence import OF_SEVERAL
from keras_bert.heads.head import Head, dense_head
from keras_bert.layers import Discriminator
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder


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

    name, layer, reads = "token_classification", "token_classifier", ("sequence",)
    architectures = ("BertForTokenClassification",)
    tensors, units = {"token_classifier": "classifier"}, {"num_classes": "token_classifier"}
    packs = has_classes = True
    peft = "TOKEN_CLS"
    text_options, takes_words, long_texts = ("stride", "confidence"), True, ()
    build, run = staticmethod(build_token_classifier), staticmethod(classify_tokens)
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
    settings = encoding.config.hidden_size, encoding.config.hidden_act, encoding.config.initializer_range
    layers = {"discriminator": Discriminator(*settings, dtype=encoding.dtype, name="discriminator")}

    # Wiring
    outputs = detect_replaced_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_replaced_token_detector"))


def detect_replaced_tokens(layers, encoded, inputs):
    """Runs the layers of a discriminator, see `Head.run`."""
    return {"logits": layers["discriminator"](encoded["sequence_output"])}


def _write_discriminator(graph, layer, hidden):
    hidden = graph.activate(graph.dense(hidden, layer.dense, f"{layer.name}/dense"), layer.activation)
    return graph.add("Squeeze", graph.dense(hidden, layer.output_dense, f"{layer.name}/output"), [2])


class ReplacedTokenDetection(Head):
    """Whether each token was replaced."""

    name, layer, reads = "replaced_token_detection", "discriminator", ("sequence",)
    architectures = ("ElectraForPreTraining",)
    tensors = {
        "discriminator.dense": "discriminator_predictions.dense",
        "discriminator.output_dense": "discriminator_predictions.dense_prediction",
    }
    packs = True
    text_options, long_texts = ("stride",), ()
    onnx = {"discriminator": _write_discriminator}
    build, run = staticmethod(build_replaced_token_detector), staticmethod(detect_replaced_tokens)
    answer = staticmethod(answers.replaced)

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import replaced_token_detector

        return replaced_token_detector
