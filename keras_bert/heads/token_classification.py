"""Classification of tokens (BERT, section 5.3)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import Head, classes_of, dense_head
from keras_bert.models.description import built


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
    tensors = {"token_classifier": "classifier"}
    packs = has_classes = True
    peft = "TOKEN_CLS"
    text_options, takes_words = ("stride",), True
    build, run = staticmethod(build_token_classifier), staticmethod(classify_tokens)
    sizes, answer = staticmethod(classes_of), staticmethod(answers.entities)

    def described(self, layers):
        return {"num_classes": layers["token_classifier"].units}

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import tagger

        return tagger
