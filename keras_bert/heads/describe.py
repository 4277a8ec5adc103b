"""Recovers config and head from a model's graph, so that a model can be saved without further information."""

import keras

from keras_bert.heads.registry import HEADS, NO_HEAD, head_named
from keras_bert.models.description import BUILDERS, Description, check_model, hint, layers_of, nested_encoder, read
from keras_bert.models.encoder import small_encoder
from keras_bert.models.graph_comparison import Family, family_of


def describe(model: keras.Model) -> Description:
    """Describes a model made by a builder of this package, also after it was saved and loaded by Keras.

    Reads config and head from the layers, builds the same model small and compares the graphs, so that a custom head
    is never mistaken for one of ours.

    Returns:
        A `Description`; for a model from `build_transformer`, a `TransformerDescription`. One that Keras loaded is
        described by `keras_bert.translation.describe`.

    Raises:
        ValueError: if no builder makes this graph.
    """
    check_model(model)
    return family_of(model, _BERT).describe(model)


def _read(layers):
    head = next((head for head in reversed(HEADS) if head.layer in layers), head_named(NO_HEAD))
    return read(layers, head.name, head.described(layers))


def _rebuild(description, model):
    encoder = small_encoder(description, nested_encoder(model))
    head = head_named(description.head)
    return head.build(encoder, **head.options({"dropout": description.config.head_dropout, **description.options}))


_BERT = Family(BUILDERS, layers_of, _read, _rebuild, hint)
