"""The list of heads, in the order in which messages name them, and which of them a model has."""

import inspect

import keras

from keras_bert.checks import check_choice
from keras_bert.heads import answers
from keras_bert.heads.classification import Classification
from keras_bert.heads.embedding import Embedding, Vectors
from keras_bert.heads.head import HEAD_DROPOUT, Head
from keras_bert.heads.multiple_choice import MultipleChoice
from keras_bert.heads.pretraining import NextSentence, Pretraining
from keras_bert.heads.question_answering import QuestionAnswering
from keras_bert.heads.sentence_classification import SentenceClassification
from keras_bert.heads.tokens import ReplacedTokenDetection, TokenClassification
from keras_bert.models.description import (
    BUILDERS,
    Description,
    check_model,
    hint,
    is_encoder_layer,
    layers_of,
    nested_encoder,
    read,
)
from keras_bert.models.encoder import small_encoder
from keras_bert.models.graph_comparison import Family, family_of

HEADS: list[Head] = [
    Vectors(),
    Embedding(),
    NextSentence(),
    Pretraining(),
    Classification(),
    TokenClassification(),
    QuestionAnswering(),
    ReplacedTokenDetection(),
    MultipleChoice(),
    SentenceClassification(),
]
NO_HEAD = HEADS[0].name


def register_head(head: type[Head] | Head) -> type[Head] | Head:
    """Adds a head of your own, so that `load`, `save`, `export` and all other functions know models with it.

    Registering the same class again, as a notebook does, replaces it.

    Args:
        head: a subclass of `keras_bert.Head`, or an instance. Its `name` and its `layer` must be new.

    Returns:
        `head`, so that the function is also a decorator.

    Example:
        @keras_bert.register_head
        class Ordinal(keras_bert.Head):
            name = "ordinal"
            layer = "cutpoints"
            reads = ("pooled",)
    """
    new = head
    if inspect.isclass(head) and issubclass(head, Head):
        new = head()
    if not isinstance(new, Head):
        raise ValueError(f"`head` must be a subclass of keras_bert.Head, or an instance. Received: head={head!r:.200}")
    for name in ("name", "layer", "reads", "build"):
        if not getattr(new, name, None):
            raise ValueError(f"`head` must have a `{name}`, see keras_bert.Head. Received: head={head!r:.200}")
    # The same class under the same name is replaced.
    others = [other for other in HEADS if other.name != new.name or _place(other) != _place(new)]
    for name in ("name", "layer"):
        _check_is_new(name, getattr(new, name), others)
    _check_layer(new.layer, others)
    if new.outputs:
        answers.check_outputs(new.outputs)
    HEADS[:] = [*others, new]
    if new.outputs:
        answers.add_outputs(new.outputs, new.answer)
    return head


def _check_is_new(attribute, value, others):
    """Raises if another head has the same value of an attribute."""
    for other in others:
        if getattr(other, attribute) == value:
            raise ValueError(
                f"`{attribute}` of a head must be new. Received: {attribute}={value!r}, which {_place(other)} has"
            )


def _check_layer(name, others):
    """Raises for the name of a layer that models without the head have, too."""
    owners = []
    if is_encoder_layer(name):
        owners.append("the encoder has")
    if name == HEAD_DROPOUT:
        owners.append("classifiers have")
    for other in others:
        if name in other.layer_names():
            owners.append(f"{_place(other)} has")
    if owners:
        raise ValueError(
            f"`layer` of a head must be a layer that only its models have. Received: layer={name!r}, which {owners[0]}"
        )


def _place(head):
    return f"{type(head).__module__}.{type(head).__qualname__}"


def head_named(name):
    """Returns a head."""
    by_name = {head.name: head for head in HEADS}
    check_choice("head", name, list(by_name))
    return by_name[name]


def answering(name):
    """Returns a head whose models answer texts."""
    if all(head.name != name for head in HEADS):  # A language model of `build_bilm`.
        raise ValueError(f"a model with head={name!r} answers no texts: export the model that reads its hidden states")
    return head_named(name)


def opened_by(class_name):
    """Returns the name of the head whose models a class of sentence-transformers opens."""
    return next(head.name for head in HEADS if head.sentence_transformers == class_name)


def is_regression(description):
    """Returns whether a model's only output is a number rather than a class."""
    for head in HEADS:
        if head.name == description.head:
            return head.is_regression(description)
    return False  # A model without a head, such as a translation model.


def deciding_output(description):
    """Returns the output of a model in which one window of a long document may decide, see `Head.deciding_output`."""
    return head_named(description.head).deciding_output(description)


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


def _described(layers):
    """Returns the `Description` that the layers of a model tell."""
    head = head_named(NO_HEAD)
    for other in HEADS:  # Of several, the last one counts.
        if other.layer in layers:
            head = other
    return read(layers, head.name, head.described(layers))


def _rebuild(description, model):
    """Returns a small model with the graph that a described model must have."""
    encoder = small_encoder(description, nested_encoder(model))
    head = head_named(description.head)
    values = {"dropout": description.config.head_dropout} | description.options
    return head.build(encoder, **head.options(values))


_OURS = frozenset(head.name for head in HEADS)


def _is_noted(description):
    # Only our builders note their models: one with the layer of a user's head is always compared with that head's.
    return description.head in _OURS


_BERT = Family(BUILDERS, layers_of, _described, _rebuild, hint, noted=_is_noted)
