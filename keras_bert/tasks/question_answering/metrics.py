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
    gold_words = normalize(gold).split()
    predicted_words = normalize(prediction).split()
    if not gold_words or not predicted_words:
        return float(gold_words == predicted_words)
    shared = collections.Counter(gold_words) & collections.Counter(predicted_words)
    return 2 * shared.total() / (len(gold_words) + len(predicted_words))


def score_answers(questions, predictions):
    """Scores each question by its best gold answer: two dicts by id, exact match and F1.

    As in the official script, in version 1.1 a prediction without words has F1 0, even for a gold without words. A
    question without a prediction scores 0. Predictions are by id; "" for no answer.
    """
    exact = {}
    overlap = {}
    for name, texts in zip(questions.ids, questions.golds, strict=True):
        exact[name] = 0.0
        overlap[name] = 0.0
        prediction = predictions.get(name)
        if prediction is None:
            continue
        golds = texts
        if questions.version_2:  # Ignores answers without words.
            golds = [text for text in texts if normalize(text)]
        golds = golds or [""]
        exact[name] = max(exact_match(gold, prediction) for gold in golds)
        if questions.version_2 or normalize(prediction):
            overlap[name] = max(f1(gold, prediction) for gold in golds)
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
        _check_golds(questions)
        return {"exact_match": _percent(exact.values()), "f1": _percent(overlap.values())}
    golds = zip(questions.ids, questions.golds, strict=True)
    answerable = {name: bool(texts) for name, texts in golds}
    raw = {"exact": exact, "f1": overlap}
    if no_answer is None:
        return _scores_by_group(raw, answerable)
    refused = []
    for name in questions.ids:
        if name in predictions and no_answer[name] > threshold:
            refused.append(name)
    result = _scores_by_group(_with_refused(raw, refused, answerable), answerable)
    for kind, values in raw.items():
        best, place = best_threshold(values, predictions, no_answer, answerable)
        result[f"best_{kind}"] = best
        result[f"best_{kind}_thresh"] = place
    return result


def _check_no_answer(questions, no_answer):
    """Raises unless there is a number for each question of SQuAD 2.0."""
    if not questions.version_2:
        raise ValueError("`no_answer` is for SQuAD 2.0, where questions may have none. Received: SQuAD 1.1")
    lacking = [name for name in questions.ids if name not in no_answer]
    if lacking:
        raise ValueError(f"`no_answer` lacks {len(lacking)} question(s), the first is {lacking[0]}")
    undefined = [name for name in questions.ids if math.isnan(no_answer[name])]
    if undefined:
        raise ValueError(f"`no_answer` is not a number for {len(undefined)} question(s), the first is {undefined[0]}")


def _check_golds(questions):
    """Raises for questions of SQuAD 1.1 without a gold answer."""
    golds = zip(questions.ids, questions.golds, strict=True)
    unknown = [name for name, texts in golds if not texts]
    if unknown:
        raise ValueError(f"{len(unknown)} question(s) of SQuAD 1.1 have no gold answer, the first is {unknown[0]}")


def _with_refused(raw, refused, answerable):
    """Returns scores by kind and id; "no answer" is right for the refused questions without an answer."""
    scores = {}
    for kind, values in raw.items():
        scores[kind] = dict(values)
        for name in refused:
            scores[kind][name] = float(not answerable[name])
    return scores


def _scores_by_group(scores, answerable):
    """Returns the scores of SQuAD 2.0 in percent: of all questions, of those with an answer and of those without."""
    result = {kind: _percent(values.values()) for kind, values in scores.items()}
    result["total"] = len(answerable)
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        names = [name for name, has_answer in answerable.items() if has_answer == wanted]
        if not names:
            continue
        for kind, values in scores.items():
            result[f"{prefix}_{kind}"] = _percent([values[name] for name in names])
        result[f"{prefix}_total"] = len(names)
    return result


def best_threshold(scores, predictions, no_answer, answerable):
    """Returns the highest score in percent over all thresholds for no answer, and the lowest threshold that reaches it.

    The threshold is a value of `no_answer`, or 0. As in the official script, equal values are processed one by one, so
    that possibly no threshold reaches this score.
    """
    unanswerable = [name for name, has_answer in answerable.items() if not has_answer]
    current = sum(name in predictions for name in unanswerable)  # If no question is answered.
    best = current
    place = 0.0
    for name in sorted(no_answer, key=no_answer.get):
        if name not in scores:
            continue
        if answerable[name]:
            current += scores[name]
        elif predictions.get(name):
            current -= 1
        if current > best:
            best = current
            place = no_answer[name]
    return 100.0 * best / len(scores), place


def _percent(values):
    values = list(values)
    return 100.0 * sum(values) / len(values)
