"""Gold entities beside predicted ones: scores as CoNLL's `conlleval` computes them, and pairs of both for the report.

Plain tags have scores, too.
"""

import collections
import dataclasses
import itertools
import math
import operator
from typing import NamedTuple

from keras_bert.tasks.tagging.schemes import EntitySpan

CORRECT = "correct"
WRONG_TYPE = "wrong type"
WRONG_BORDER = "wrong border"
BOTH_WRONG = "wrong type and border"
MISSED = "missed"
SPURIOUS = "spurious"
KINDS = (CORRECT, WRONG_TYPE, WRONG_BORDER, BOTH_WRONG, MISSED, SPURIOUS)
_NO_TYPE = "entity"  # The name of a single type without a name.


class TypeScores(NamedTuple):
    """The scores of the entities of a type; a row of the report's table, whose columns have this order."""

    type: str
    precision: float
    recall: float
    f1: float
    golds: int
    predictions: int


def score_types(golds, predictions):
    """Returns the `TypeScores` of each type, and of "all", last.

    The arguments are lists of lists of `EntitySpan`. A prediction is right if type, start and end are equal; undefined
    scores are 0.
    """
    right = collections.Counter()
    for gold, predicted in zip(golds, predictions, strict=True):
        right.update(entity.type for entity in set(gold) & set(predicted))
    true = _count_types(golds)
    said = _count_types(predictions)
    rows = []
    for name in sorted(true | said):
        rows.append(_scores(name, right[name], true[name], said[name]))
    rows.append(_scores("all", right.total(), true.total(), said.total()))
    return rows


def _count_types(sentences):
    """Counts the entities of each type."""
    counts = collections.Counter()
    for entities in sentences:
        counts.update(entity.type for entity in entities)
    return counts


def _scores(name, right, true, said):
    """Returns the `TypeScores` of the numbers of right predictions, of gold entities and of predictions."""
    return TypeScores(
        type=name,
        precision=right / max(said, 1),
        recall=right / max(true, 1),
        f1=2 * right / max(said + true, 1),
        golds=true,
        predictions=said,
    )


def entity_scores(golds, predictions):
    """Returns F1, precision and recall over all types as a dict."""
    of_all = score_types(golds, predictions)[-1]
    return {"f1": of_all.f1, "precision": of_all.precision, "recall": of_all.recall}


def word_scores(golds, predictions):
    """Returns accuracy and macro F1 of plain tags, lists of lists, as a dict."""
    from sklearn.metrics import f1_score

    gold_tags = list(itertools.chain.from_iterable(golds))
    predicted_tags = list(itertools.chain.from_iterable(predictions))
    right = sum(map(operator.eq, gold_tags, predicted_tags))
    macro = f1_score(gold_tags, predicted_tags, average="macro", zero_division=0.0)
    return {"accuracy": right / len(gold_tags), "macro_f1": float(macro)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictedSentence:
    """A sentence of dev, what is right and what is predicted.

    Args:
        line: int, the number of its first line in the file.
        text: string.
        words: list of `(first, end)` in characters of the text.
        golds: list of `(type, first word, end word)`, type "" if the only type has no name; or of plain tags.
        predictions: list like `golds`.
        confidences: list of floats, the probabilities of the predictions.
        loss: float, the mean loss of the words.
        tokens: int, the number of tokens.
        tags: list of `(gold tag, predicted tag, loss)` of the words, for `label_checks` and `asked`.
        lines: list of ints, the lines of the words in the file, for `label_checks`.
        given_words: list of the words if the file has lists of words; `None` for texts.
    """

    line: int
    text: str
    words: list
    golds: list
    predictions: list
    confidences: list
    loss: float
    tokens: int
    tags: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)
    given_words: list | None = None


class Match(NamedTuple):
    """A gold entity and the predicted one that belongs to it; one of them may be missing."""

    sentence: PredictedSentence
    gold: EntitySpan | None
    prediction: EntitySpan | None
    confidence: float = math.nan  # Probability of the prediction; NaN without one.

    @property
    def kind(self):
        """One of `KINDS`."""
        if self.gold is None:
            return SPURIOUS
        if self.prediction is None:
            return MISSED
        has_same_type = self.gold.type == self.prediction.type
        if self.gold[1:] == self.prediction[1:]:
            return CORRECT if has_same_type else WRONG_TYPE
        return WRONG_BORDER if has_same_type else BOTH_WRONG

    @property
    def entities(self):
        """The gold entity and the predicted one, as far as there are any."""
        return [entity for entity in (self.gold, self.prediction) if entity]

    def span(self, entity):
        """Returns the characters of an entity, `(first, end)`."""
        first, _ = self.sentence.words[entity.start]
        _, end = self.sentence.words[entity.end - 1]
        return first, end

    def text(self, entity):
        """Returns the text of an entity."""
        first, end = self.span(entity)
        return self.sentence.text[first:end]


def type_name(name):
    """Returns the name of a type to show."""
    return name or _NO_TYPE


def matches(sentence):
    """Returns the `Match`es of a `PredictedSentence` with entities, in its order.

    Entities with the same borders belong together, then those that share words: first of the same type, then those
    that share more words. The rest is missed or spurious.
    """
    golds = _named(sentence.golds)
    predictions = _named(sentence.predictions)
    gold_of = _partners(golds, predictions)
    matched = set(gold_of.values())
    pairs = []
    for number, gold in enumerate(golds):
        if number not in matched:
            pairs.append(Match(sentence, gold, None))
    judged = zip(predictions, sentence.confidences, strict=True)
    for number, (prediction, confidence) in enumerate(judged):
        gold = golds[gold_of[number]] if number in gold_of else None
        pairs.append(Match(sentence, gold, prediction, float(confidence)))
    return sorted(pairs, key=lambda match: min(entity[1:] for entity in match.entities))


def _named(entities):
    """Returns entities with the names of their types to show."""
    return [EntitySpan(type_name(type_), first, end) for type_, first, end in entities]


def _partners(golds, predictions):
    """Returns the index of the gold entity that belongs to a prediction, by its index."""
    shared = _shared_words(golds, predictions)

    def order(pair):
        gold = golds[pair[0]]
        prediction = predictions[pair[1]]
        return gold[1:] != prediction[1:], gold.type != prediction.type, -shared[pair], pair

    gold_of = {}
    taken = set()
    for gold, prediction in sorted(shared, key=order):
        if gold not in taken and prediction not in gold_of:
            gold_of[prediction] = gold
            taken.add(gold)
    return gold_of


def _shared_words(golds, predictions):
    """Counts the words that a gold entity and a prediction share, by the indices of both."""
    gold_at = {}
    for number, gold in enumerate(golds):
        gold_at.update(dict.fromkeys(range(gold.start, gold.end), number))
    shared = collections.Counter()
    for number, prediction in enumerate(predictions):
        for word in range(prediction.start, prediction.end):
            if word in gold_at:
                shared[gold_at[word], number] += 1
    return shared
