"""The list of heads, in the order in which messages name them. `register_head` adds one of a user."""

import inspect

from keras_bert.heads import answers
from keras_bert.heads.classification import Classification
from keras_bert.heads.embedding import Embedding
from keras_bert.heads.head import Head
from keras_bert.heads.multiple_choice import MultipleChoice
from keras_bert.heads.pretraining import NextSentence, Pretraining
from keras_bert.heads.question_answering import QuestionAnswering
from keras_bert.heads.replaced_token_detection import ReplacedTokenDetection
from keras_bert.heads.token_classification import TokenClassification
from keras_bert.heads.vectors import Vectors

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
            name, layer, reads = "ordinal", "cutpoints", ("pooled",)
    """
    new = head() if inspect.isclass(head) and issubclass(head, Head) else head
    if not isinstance(new, Head):
        raise ValueError(f"`head` must be a subclass of keras_bert.Head, or an instance. Received: head={head!r:.200}")
    for name in ("name", "layer", "reads", "build"):
        if not getattr(new, name, None):
            raise ValueError(f"`head` must have a `{name}`, see keras_bert.Head. Received: head={head!r:.200}")
    others = [other for other in HEADS if (other.name, _place(other)) != (new.name, _place(new))]
    for name in ("name", "layer"):
        taken = next((other for other in others if getattr(other, name) == getattr(new, name)), None)
        if taken is not None:
            raise ValueError(
                f"`{name}` of a head must be new. Received: {name}={getattr(new, name)!r}, which {_place(taken)} has"
            )
    HEADS[:] = [*others, new]
    if new.outputs:
        answers.add_outputs(new.outputs, new.answer)
    return head


def _place(head):
    return f"{type(head).__module__}.{type(head).__qualname__}"


def head_named(name):
    """Returns a head."""
    found = next((head for head in HEADS if head.name == name), None)
    if found is None:
        known = ", ".join(head.name for head in HEADS)
        raise ValueError(f"`head` must be one of {known}. Received: head={name!r}")
    return found


def answering(name):
    """Returns a head whose models answer texts."""
    if all(head.name != name for head in HEADS):  # A language model of `build_bilm`.
        raise ValueError(f"a model with head={name!r} answers no texts: export the model that reads its hidden states")
    return head_named(name)


def opened_by(kind):
    """Returns the name of the head whose models a class of sentence-transformers opens."""
    return next(head.name for head in HEADS if head.sentence_transformers == kind)


def is_regression(description):
    """Returns whether a model's only output is a number rather than a class."""
    return any(head.name == description.head and head.is_regression(description) for head in HEADS)
