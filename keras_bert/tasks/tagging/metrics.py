"""Precision, recall and F1 of entities, as CoNLL's `conlleval` computes them; scores of plain tags."""

import collections


def counts(golds, predictions):
    """Returns (right, predicted, gold) of each type, a dict sorted by type, for lists of lists of `Entity`.

    A prediction is right if type, start and end are equal.
    """
    right, said, true = collections.Counter(), collections.Counter(), collections.Counter()
    for gold, predicted in zip(golds, predictions, strict=True):
        true.update(entity.type for entity in gold)
        said.update(entity.type for entity in predicted)
        right.update(entity.type for entity in set(gold) & set(predicted))
    return {name: (right[name], said[name], true[name]) for name in sorted(true | said)}


def table(golds, predictions):
    """Returns (type, precision, recall, F1, gold entities, predicted entities) of each type, and of "all", last."""
    counted = counts(golds, predictions)
    total = tuple(map(sum, zip(*counted.values(), strict=True))) if counted else (0, 0, 0)
    return [(name, *scores(*numbers), numbers[2], numbers[1]) for name, numbers in [*counted.items(), ("all", total)]]


def scores(right, predicted, gold):
    """Returns precision, recall and F1; 0 if undefined."""
    precision, recall = right / max(predicted, 1), right / max(gold, 1)
    return precision, recall, 2 * right / max(predicted + gold, 1)


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
