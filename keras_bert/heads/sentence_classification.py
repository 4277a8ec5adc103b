"""Classification and regression from the vector of a sentence encoder instead of [CLS] (Tunstall et al., 2022)."""

from collections.abc import Sequence
from typing import Literal

import keras

from keras_bert.heads.classification import Classification
from keras_bert.heads.embedding import Embedding
from keras_bert.heads.head import HEAD_DROPOUT, Head, dense_head
from keras_bert.heads.text_vectors import TextVectors
from keras_bert.layers import Dense, MultiLabelDense
from keras_bert.models.description import built, layers_of

_CLASSIFIER = "sentence_classifier"
_VECTORS = TextVectors(
    pooling="vector_pooling",
    projection="vector_projection",
    unit_length="vector_unit_length",
)


def build_sentence_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    pooling: str | Sequence[str] = "mean",
    normalize: bool = False,
    projection: int | None = None,
    projection_activation: Literal["linear", "tanh"] = "linear",
    dropout: float | None = None,
    multi_label: bool = False,
) -> keras.Model:
    """Classifies a text or a pair of texts from its vector, which is that of `build_embedder`.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of classes, 1 for regression.
        pooling, normalize, projection, projection_activation: see `build_embedder`.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.
        multi_label: bool, whether several classes may apply to one text; the outputs are sigmoid logits. Defaults to
            `False`.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, num_classes)`.

    Example:
        model = build_sentence_classifier(build_encoder(named_config("tiny")), num_classes=3, normalize=True)
    """
    # Layers
    dense_layer = MultiLabelDense if multi_label else Dense
    layers = dense_head(encoder, num_classes, dropout, _CLASSIFIER, dense_layer)
    layers.update(_VECTORS.build(encoder, pooling, normalize, projection, projection_activation))

    # Wiring
    outputs = classify_sentences(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_sentence_classifier"))


def classify_sentences(layers, encoded, inputs):
    """Runs the layers of a sentence classifier, see `Head.run`."""
    vectors = _VECTORS.run(layers, encoded, inputs)
    return {"logits": layers[_CLASSIFIER](layers[HEAD_DROPOUT](vectors))}


class SentenceClassification(Head):
    """Classes, several labels or a number of each text, from the vector that `encode` returns for a sentence encoder.

    Other programs open the encoder alone: none has this head.
    """

    name = "sentence_classification"
    layer = _CLASSIFIER
    reads = ("sequence",)
    tensors = {_CLASSIFIER: _CLASSIFIER, _VECTORS.projection: _VECTORS.projection}
    units = {"num_classes": _CLASSIFIER}
    saved = ("pooling", "normalize", "projection", "projection_activation")
    has_classes = True
    takes_pair = True
    text_options = ("rows_together", "logits", "thresholds", "confidence")
    onnx = {
        _VECTORS.pooling: Embedding.onnx["sentence_pooling"],
        _VECTORS.unit_length: Embedding.onnx["unit_length"],
    }
    build = staticmethod(build_sentence_classifier)
    run = staticmethod(classify_sentences)
    # What is said about its logits is that of the other classifier.
    is_regression = Classification.is_regression
    signature_builder = Classification.signature_builder
    answer = Classification.answer
    defaults = Classification.defaults

    def described(self, layers):
        classifier = layers[_CLASSIFIER]
        options = {"num_classes": classifier.units, "multi_label": isinstance(classifier, MultiLabelDense)}
        options.update(_VECTORS.described(layers))
        return options


def vector_options(bert) -> dict:
    """Returns those options of `build_sentence_classifier` that tell the vector of a loaded model, see `encode`."""
    metadata = bert.metadata
    options = {
        "pooling": metadata.pooling or "mean",
        "normalize": metadata.normalize,
        "projection": metadata.projection,
        "projection_activation": metadata.projection_activation,
    }
    if bert.head == SentenceClassification.name:
        options.update(bert.head_options or {})
    return options


def take_projection(model, bert):
    """Gives a new sentence classifier the projection of the loaded model, a sentence encoder, that it is built on."""
    projection = layers_of(model).get(_VECTORS.projection)
    if projection is None:
        return
    loaded = layers_of(bert.model())
    loaded_projection = loaded.get("sentence_projection", loaded.get(_VECTORS.projection))
    projection.set_weights(loaded_projection.get_weights())
