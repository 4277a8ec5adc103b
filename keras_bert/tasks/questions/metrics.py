"""Official SQuAD 1.1 and 2.0 scores: exact match and F1 of answers, and the best threshold for no answer."""

import collections
import math
import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text):
    """Lower-cases a text, and removes punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(gold, prediction):
    """Returns 1 if the normalized texts are equal, else 0."""
    return float(normalize(gold) == normalize(prediction))


def f1(gold, prediction):
    """Returns the harmonic mean of precision and recall over words."""
    gold, prediction = normalize(gold).split(), normalize(prediction).split()
    if not gold or not prediction:
        return float(gold == prediction)
    shared = sum((collections.Counter(gold) & collections.Counter(prediction)).values())
    return 2 * shared / (len(gold) + len(prediction))


def score_answers(questions, predictions):
    """Scores each question by its best gold answer: two dicts by id, exact match and F1.

    As in the official script, in version 1.1 a prediction without words has F1 0, even for a gold without words. A
    question without a prediction scores 0. Predictions are by id; "" for no answer.
    """
    exact, overlap = {}, {}
    for name, texts in zip(questions.ids, questions.golds, strict=True):
        # Version 2.0 ignores answers without words.
        golds = [text for text in texts if normalize(text) or not questions.version_2] or [""]
        prediction = predictions.get(name)
        scored = prediction is not None
        shares = scored and (questions.version_2 or normalize(prediction))
        exact[name] = max(exact_match(gold, prediction) for gold in golds) if scored else 0.0
        overlap[name] = max(f1(gold, prediction) for gold in golds) if shares else 0.0
    return exact, overlap


def score(questions, predictions, no_answer=None, threshold=1.0):
    """Computes the official scores, in percent, of answers by id.

    `no_answer` has by id the probability of no answer, or the odds in `null_odds.json`; values above the threshold mean
    no answer. Returns for version 1.1 `exact_match` and `f1`; for 2.0 the scores of the official script, with the best
    thresholds if `no_answer` is given.
    """
    if no_answer is not None:
        _check_no_answer(questions, no_answer)
    exact, overlap = score_answers(questions, predictions)
    if not questions.version_2:
        if unknown := [name for name, texts in zip(questions.ids, questions.golds, strict=True) if not texts]:
            raise ValueError(f"{len(unknown)} question(s) of SQuAD 1.1 have no gold answer, the first is {unknown[0]}")
        return {"exact_match": _percent(exact.values()), "f1": _percent(overlap.values())}
    answerable = {name: bool(texts) for name, texts in zip(questions.ids, questions.golds, strict=True)}
    raw = {"exact": exact, "f1": overlap}
    kept = raw
    if no_answer is not None:
        refused = {name: name in predictions and no_answer[name] > threshold for name in questions.ids}
        kept = {
            kind: {name: float(not answerable[name]) if refused[name] else value for name, value in values.items()}
            for kind, values in raw.items()
        }
    result = {kind: _percent(values.values()) for kind, values in kept.items()} | {"total": len(exact)}
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        if names := [name for name in questions.ids if answerable[name] == wanted]:
            result |= {f"{prefix}_{kind}": _percent([values[name] for name in names]) for kind, values in kept.items()}
            result[f"{prefix}_total"] = len(names)
    if no_answer is not None:
        for kind, values in raw.items():
            best, place = best_threshold(values, predictions, no_answer, answerable)
            result |= {f"best_{kind}": best, f"best_{kind}_thresh": place}
    return result


def _check_no_answer(questions, no_answer):
    if not questions.version_2:
        raise ValueError("`no_answer` is for SQuAD 2.0, where questions may have none. Received: SQuAD 1.1")
    if lacking := [name for name in questions.ids if name not in no_answer]:
        raise ValueError(f"`no_answer` lacks {len(lacking)} question(s), the first is {lacking[0]}")
    if undefined := [name for name in questions.ids if math.isnan(no_answer[name])]:
        raise ValueError(f"`no_answer` is not a number for {len(undefined)} question(s), the first is {undefined[0]}")


def best_threshold(scores, predictions, no_answer, answerable):
    """Returns the highest score in percent over all thresholds for no answer, and the lowest threshold that reaches it.

    The threshold is a value of `no_answer`, or 0. As in the official script, equal values are processed one by one, so
    that possibly no threshold reaches this score.
    """
    current = best = sum(not wanted for name, wanted in answerable.items() if name in predictions)
    place = 0.0
    for name in sorted(no_answer, key=no_answer.get):
        if name not in scores:
            continue
        if answerable[name]:
            current += scores[name]
        elif predictions.get(name):
            current -= 1
        if current > best:
            best, place = current, no_answer[name]
    return 100.0 * best / len(scores), place


def _percent(values):
    values = list(values)
    return 100.0 * sum(values) / len(values)
