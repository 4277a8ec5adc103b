"""Vectors: those of an encoder alone, and sentence encoders (Sentence-BERT, Reimers and Gurevych, 2019)."""

from collections.abc import Sequence
from typing import Literal

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import Head
from keras_bert.heads.text_vectors import TextVectors
from keras_bert.layers.masks import FORBIDDEN
from keras_bert.models.description import built

_VECTORS = TextVectors(pooling="sentence_pooling", projection="sentence_projection", unit_length="unit_length")


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
    layers = _VECTORS.build(encoder, pooling, normalize, projection, projection_activation, sequence_length)

    # Wiring
    outputs = embed(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_embedder"))


def embed(layers, encoded, inputs):
    """Runs the layers of an embedder, see `Head.run`."""
    return {"embedding": _VECTORS.run(layers, encoded, inputs)}


def _write_pooling(graph, layer, hidden, mask):
    real = graph.add("Unsqueeze", graph.cast(mask, "float32"), [2])
    pooled = [_pooled(graph, mode, hidden, real) for mode in layer.modes]
    vectors = pooled[0]
    if len(pooled) > 1:
        vectors = graph.add("Concat", *pooled, axis=-1)
    if layer.normalize:
        vectors = _write_unit_length(graph, layer, vectors)
    return vectors


def _write_unit_length(graph, layer, vectors):
    length = graph.add("ReduceL2", vectors, axes=[1])
    return graph.add("Div", vectors, graph.add("Max", length, 1e-12))


def _pooled(graph, mode, hidden, real):
    """Writes one pooling of `SentencePooling`; `real` is 1.0 for real tokens, `(batch, length, 1)`."""
    add = graph.add

    def total(tensor):
        return add("ReduceSum", tensor, [1], keepdims=0)

    if mode == "cls":
        return add("Gather", hidden, 0, axis=1)
    if mode == "max":
        absent = add("Mul", add("Sub", 1.0, real), FORBIDDEN)
        return add("ReduceMax", add("Add", hidden, absent), axes=[1], keepdims=0)
    weights = real
    if mode in ("weightedmean", "lasttoken"):
        weights = add("Mul", real, add("CumSum", real, 1))
    if mode == "lasttoken":
        is_last = add("Equal", weights, add("ReduceMax", weights, axes=[1]))
        return total(add("Mul", hidden, add("Mul", real, graph.cast(is_last, "float32"))))
    count = add("Max", total(weights), 1.0)
    weighted = total(add("Mul", hidden, weights))
    if "sqrt" in mode:
        count = add("Sqrt", count)
    return add("Div", weighted, count)


class Embedding(Head):
    """A vector of each text."""

    name = "embedding"
    layer = "sentence_pooling"
    reads = ("sequence",)
    tensors = {"sentence_projection": "sentence_projection"}
    settings = ("prompts", "default_prompt_name", "similarity_function")
    sentence_transformers = "SentenceTransformer"
    text_options = ("rows_together", "zero_shot", "prompts", "default_prompt_name")
    embeds = True
    is_encoder = True
    onnx = {"sentence_pooling": _write_pooling, "unit_length": _write_unit_length}
    build = staticmethod(build_embedder)
    run = staticmethod(embed)

    def described(self, layers):
        options = _VECTORS.described(layers)
        options["sequence_length"] = layers[self.layer].sequence_length
        return options

    def answer(self, output, row, n_best):
        if "labels" in output:  # Of the signature `zero_shot`.
            return answers.classes(output, row, n_best)
        return answers.embedding(output, row, n_best)

    def signature_builder(self, description):
        from keras_bert.heads.embedding_signatures import sentence_embedder

        return sentence_embedder


class Vectors(Head):
    """No head on top of the encoder."""

    name = "encoder"
    layer = "embeddings"
    reads = ("pooled", "sequence")
    architectures = ("BertModel",)
    packs = True
    has_prefix = False
    is_encoder = True
    google = ""
    peft = "FEATURE_EXTRACTION"
    text_options = ("pooling", "layers", "normalize", "rows_together")
    answer = staticmethod(answers.embedding)

    def run(self, layers, encoded, inputs):
        return encoded

    def build(self, encoder):
        return encoder

    def signature_builder(self, description):
        from keras_bert.heads.embedding_signatures import embedder

        return embedder
