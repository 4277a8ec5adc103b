"""Recovers config and head from a model's graph, so that a model can be saved without further information."""

from keras_bert.baselines.description import describe_baseline, is_baseline
from keras_bert.models.encoder import small_encoder
from keras_bert.models.head_table import HEADS
from keras_bert.models.reading import check_model, layers_of, nested_encoder, read, refusal
from keras_bert.models.wiring import OtherWiringError, check_built, check_functional
from keras_bert.translation.description import describe_transformer, is_transformer


def describe(model):
    """Describes a model made by a builder of this package, also after it was saved and loaded by Keras.

    Reads config and head from the layers, builds the same model small and compares the graphs, so that a custom head
    is never mistaken for one of ours.

    Returns:
        A `Description`; for a model from `build_transformer`, a `TransformerDescription`; for one from `build_bilm`,
        `build_bilstm_classifier` or `build_bidaf`, a `BaselineDescription`.

    Raises:
        ValueError: if no builder makes this graph.
    """
    check_model(model)
    if is_transformer(model):
        return describe_transformer(model)
    if is_baseline(model):
        return describe_baseline(model)
    try:
        check_functional(model)
        layers = layers_of(model)
        head = next((head for head in reversed(HEADS) if head.layer in layers), HEADS[0])
        description = read(layers, head.name)
        encoder = nested_encoder(model)
        check_built(model, layers, lambda: head.build(small_encoder(description, encoder), description.facts()))
    except OtherWiringError as error:
        raise refusal(model, error) from None
    return description
