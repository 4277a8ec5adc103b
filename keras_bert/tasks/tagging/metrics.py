"""Gold entities beside predicted ones: scores as CoNLL's `conlleval` computes them, and pairs of both for the report.

Plain tags have scores, too.
"""

import collections
import math
from typing import NamedTuple

from keras_bert.tasks.tagging.schemes import Entity

CORRECT, WRONG_TYPE, WRONG_BORDER, BOTH_WRONG = "correct", "wrong type", "wrong border", "wrong type and border"
MISSED, SPURIOUS = "missed", "spurious"
KINDS = CORRECT, WRONG_TYPE, WRONG_BORDER, BOTH_WRONG, MISSED, SPURIOUS
_NO_TYPE = "entity"  # The name of a single type without a name.


def table(golds, predictions):
    """Returns (type, precision, recall, F1, gold entities, predicted entities) of each type, and of "all", last.

    The arguments are lists of lists of `Entity`. A prediction is right if type, start and end are equal; undefined
    scores are 0.
    """
    pairs = zip(golds, predictions, strict=True)
    right = collections.Counter(entity.type for gold, predicted in pairs for entity in set(gold) & set(predicted))
    true, said = (collections.Counter(entity.type for row in rows for entity in row) for rows in (golds, predictions))
    found = [(name, right[name], said[name], true[name]) for name in sorted(true | said)]
    found.append(("all", right.total(), said.total(), true.total()))
    return [
        (name, hits / max(said, 1), hits / max(true, 1), 2 * hits / max(said + true, 1), true, said)
        for name, hits, said, true in found
    ]


def entity_scores(golds, predictions):
    """Returns F1, precision and recall over all types as a dict."""
    _, precision, recall, f1, _, _ = table(golds, predictions)[-1]
    return {"f1": f1, "precision": precision, "recall": recall}


def word_scores(golds, predictions):
    """Returns accuracy and macro F1 of plain tags, lists of lists, as a dict."""
    from sklearn.metrics import f1_score

    golds, predictions = ([tag for tags in lists for tag in tags] for lists in (golds, predictions))
    right = sum(gold == predicted for gold, predicted in zip(golds, predictions, strict=True))
    macro = float(f1_score(golds, predictions, average="macro", zero_division=0.0))
    return {"accuracy": right / len(golds), "macro_f1": macro}


class Match(NamedTuple):
    """A gold entity and the predicted one that belongs to it; one of them may be missing."""

    row: dict  # The sentence, see `judge_entities`.
    gold: Entity | None
    prediction: Entity | None
    confidence: float = math.nan  # Probability of the prediction; NaN without one.

    @property
    def kind(self):
        """One of `KINDS`."""
        if self.gold is None or self.prediction is None:
            return SPURIOUS if self.gold is None else MISSED
        if self.gold[1:] == self.prediction[1:]:
            return CORRECT if self.gold == self.prediction else WRONG_TYPE
        return WRONG_BORDER if self.gold.type == self.prediction.type else BOTH_WRONG

    @property
    def entities(self):
        """The gold entity and the predicted one, as far as there are any."""
        return [entity for entity in (self.gold, self.prediction) if entity]

    def span(self, entity):
        """Returns the characters of an entity, `(first, end)`."""
        return self.row["words"][entity.start][0], self.row["words"][entity.end - 1][1]

    def text(self, entity):
        """Returns the text of an entity."""
        first, end = self.span(entity)
        return self.row["text"][first:end]


def type_name(name):
    """Returns the name of a type to show."""
    return name or _NO_TYPE


def matches(row):
    """Returns the `Match`es of a sentence, in its order.

    Entities with the same borders belong together, then those that share words: first of the same type, then those
    that share more words. The rest is missed or spurious.
    """
    golds, predictions = (
        [Entity(type_name(name), first, end) for name, first, end in row[part]] for part in ("golds", "predictions")
    )
    partner = _partners(golds, predictions)
    pairs = [Match(row, gold, None) for number, gold in enumerate(golds) if number not in partner.values()]
    for number, (prediction, confidence) in enumerate(zip(predictions, row["confidences"], strict=True)):
        gold = golds[partner[number]] if number in partner else None
        pairs.append(Match(row, gold, prediction, float(confidence)))
    return sorted(pairs, key=lambda match: min(entity[1:] for entity in match.entities))


def _partners(golds, predictions):
    """Returns the index of the gold entity that belongs to a prediction, by its index."""
    gold_of = {word: number for number, gold in enumerate(golds) for word in range(gold.start, gold.end)}
    shared = collections.Counter(
        (gold_of[word], number)
        for number, prediction in enumerate(predictions)
        for word in range(prediction.start, prediction.end)
        if word in gold_of
    )

    def order(pair):
        gold, prediction = golds[pair[0]], predictions[pair[1]]
        return gold[1:] != prediction[1:], gold.type != prediction.type, -shared[pair], pair

    partner, taken = {}, set()
    for gold, prediction in sorted(shared, key=order):
        if gold not in taken and prediction not in partner:
            partner[prediction] = gold
            taken.add(gold)
    return partner
