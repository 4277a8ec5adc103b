"""The forms of answers that commands show in their own way, and the names that no field of an answer may have.

An answer has a form if its fields are exactly those of the form and have values of its types. All other answers, such
as those of heads of a user's own, are shown as their fields, whatever their names are.
"""

import dataclasses
from collections.abc import Callable

from keras_bert.text.token_counts import without_counts

_ENTITY = {"text", "label", "start", "end", "score"}
_FILL = {"token", "score"}
_SPAN = {"answer", "score", "start", "end"}
_TRANSLATION = {"translation", "score"}


@dataclasses.dataclass(frozen=True)
class AnswerForm:
    """What an answer of a form consists of.

    Args:
        name: string.
        fields: frozenset of the names of the fields that all answers of the form have.
        fits: function of an answer with these fields, whether their values are those of the form.
        optional: frozenset of the names of further fields.
    """

    name: str
    fields: frozenset
    fits: Callable
    optional: frozenset = frozenset()

    def describes(self, answer):
        """Returns whether an answer, a dict without the numbers of tokens, has this form."""
        names = answer.keys()
        return self.fields <= names <= self.fields | self.optional and self.fits(answer)


def form_of(answer):
    """Returns the name of the form of an answer, or `None`."""
    answer = without_counts(answer)
    for form in FORMS:
        if form.describes(answer):
            return form.name
    return None


def are_scores(values):
    """Returns whether a value is a dict of numbers."""
    if not isinstance(values, dict) or not values:
        return False
    return all(_is_number(value) for value in values.values())


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_class(answer):
    """The label must be the one with the highest score, or none: a table of scores shows that one."""
    scores = answer["scores"]
    label = answer["label"]
    if label is None:
        return are_scores(scores)
    if not are_scores(scores) or not isinstance(label, str) or label not in scores:
        return False
    return not any(score > scores[label] for score in scores.values())


def _are_classes(answer):
    scores = answer["scores"]
    labels = answer["labels"]
    if not are_scores(scores) or not isinstance(labels, list):
        return False
    return all(label in scores for label in labels)


def _are_dicts(values, fields):
    """Returns whether values are a list of dicts that have exactly these fields."""
    if not isinstance(values, list):
        return False
    return all(isinstance(value, dict) and value.keys() == fields for value in values)


def _are_entities(answer):
    return _are_dicts(answer["entities"], _ENTITY)


def _is_span(answer):
    are_places = _is_number(answer["start"]) and _is_number(answer["end"])
    are_answers = _are_dicts(answer.get("answers", []), _SPAN)
    return isinstance(answer["answer"], str) and are_places and are_answers


def _are_fills(answer):
    return isinstance(answer["fills"], list) and all(_are_dicts(mask, _FILL) for mask in answer["fills"])


def _is_choice(answer):
    return isinstance(answer["scores"], list) and all(_is_number(score) for score in answer["scores"])


def _is_translation(answer):
    are_translations = _are_dicts(answer.get("translations", []), _TRANSLATION)
    return isinstance(answer["translation"], str) and are_translations


FORMS = [
    AnswerForm("class", frozenset({"label", "score", "scores"}), _is_class, optional=frozenset({"logits"})),
    AnswerForm("classes", frozenset({"labels", "scores"}), _are_classes, optional=frozenset({"logits"})),
    AnswerForm("entities", frozenset({"entities"}), _are_entities),
    AnswerForm(
        "span",
        frozenset({"answer", "start", "end"}),
        _is_span,
        optional=frozenset({"score", "null_score", "answers"}),
    ),
    AnswerForm("fills", frozenset({"fills"}), _are_fills),
    AnswerForm("choice", frozenset({"choice", "scores"}), _is_choice),
    AnswerForm(
        "translation",
        frozenset({"translation"}),
        _is_translation,
        optional=frozenset({"score", "truncated", "translations"}),
    ),
]
