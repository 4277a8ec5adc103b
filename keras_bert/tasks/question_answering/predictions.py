"""SQuAD predictions, in the files of the official programs."""

import dataclasses
import pathlib

import numpy as np

from keras_bert.files import write_json
from keras_bert.tasks.question_answering import metrics as squad_metrics

_NO_SCORE = -1e30  # Of the best answer if there is none. JSON has no infinity.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnsweredQuestion:
    """A question of dev, what is right and what is predicted.

    Args:
        id: string.
        question: string.
        context: string.
        golds: list of strings, empty if there is no answer.
        gold_spans: list of the known positions of the golds, `(first byte, end byte)` in the context's UTF-8.
        prediction: string, "" for no answer.
        place: span of the prediction, like `gold_spans`, or `None`.
        probability: float, that of the best answer, or `None`.
        exact: float, exact match, 0 or 1.
        f1: float, from 0 to 1.
    """

    id: str
    question: str
    context: str
    golds: list
    gold_spans: list
    prediction: str
    place: tuple | None
    probability: float | None
    exact: float
    f1: float


def null_odds(answers):
    """Returns, by id, the score of no answer minus the score of the best answer, of `BestAnswers`."""
    odds = {}
    for question in answers:
        best_score = _NO_SCORE
        if question.answers:
            best = question.answers[0]
            best_score = best["start_logit"] + best["end_logit"]
        odds[question.id] = question.null_score - best_score
    return odds


def predictions(answers, threshold=None):
    """Returns the answer texts by id, of the result of `QuestionWindows.answers`.

    `null_odds` above the threshold mean no answer, ""; `None` always answers.
    """
    odds = null_odds(answers)
    predicted = {}
    for question in answers:
        is_refused = threshold is not None and odds[question.id] > threshold
        if question.answers and not is_refused:
            predicted[question.id] = question.answers[0]["text"]
        else:
            predicted[question.id] = ""
    return predicted


def choose_threshold(questions, answers):
    """Returns the threshold of `null_odds` with the best F1; `None` for version 1.1, where all questions have answers.

    The official threshold equals the odds of a question. This one lies between two odds, for robustness to rounding.
    """
    if not questions.version_2:
        return None
    odds = null_odds(answers)
    order = sorted(odds, key=odds.get)
    places = np.array([odds[name] for name in order])
    gains = _gains_of_answering(questions, answers)
    # The gain if the first n are answered.
    total = np.cumsum([0.0] + [gains[name] for name in order])
    total[1:-1][places[1:] == places[:-1]] = -np.inf  # Equal odds must be on the same side.
    count = int(np.argmax(total))
    if count == 0:
        return float(places[0]) - 1
    last = places[count - 1]
    if count == len(places):
        return float(last + 1)
    following = places[count]
    return float(min(last + 1, (last + following) / 2))


def _gains_of_answering(questions, answers):
    """Returns, by id, how much higher the F1 of the best answer is than that of no answer."""
    _, answered = squad_metrics.score_answers(questions, predictions(answers))
    gains = {}
    for name, golds in zip(questions.ids, questions.golds, strict=True):
        refused = float(not golds)
        gains[name] = answered[name] - refused
    return gains


def score(questions, answers, threshold=None):
    """Returns the official scores; for version 2.0 with the given threshold and with the best thresholds."""
    if not questions.version_2:
        return squad_metrics.score(questions, predictions(answers))
    scores = squad_metrics.score(questions, predictions(answers, threshold))
    raw = squad_metrics.score(questions, predictions(answers), null_odds(answers))
    for name, value in raw.items():
        if name.startswith("best_"):
            scores[name] = value
    return scores


def answered_questions(questions, answers, threshold=None):
    """Returns the `AnsweredQuestion`s for `judge_answers`."""
    texts_by_id = predictions(answers, threshold)
    exact, f1 = squad_metrics.score_answers(questions, texts_by_id)
    answered = []
    for row, (name, best_answers, _) in enumerate(answers):
        best = best_answers[0] if best_answers else {}
        question = AnsweredQuestion(
            id=name,
            question=questions.questions[row],
            context=questions.contexts[questions.context[row]],
            golds=questions.golds[row],
            gold_spans=questions.spans[row],
            prediction=texts_by_id[name],
            place=best.get("place") if texts_by_id[name] else None,
            probability=best.get("probability"),
            exact=exact[name],
            f1=f1[name],
        )
        answered.append(question)
    return answered


def write(folder, answers, threshold=None):
    """Writes `predictions.json`, `nbest_predictions.json` and `null_odds.json`."""
    folder = pathlib.Path(folder)
    write_json(folder / "predictions.json", predictions(answers, threshold))
    write_json(folder / "nbest_predictions.json", _best_answers(answers))
    write_json(folder / "null_odds.json", null_odds(answers))


def _best_answers(answers):
    """Returns all answers by id, without their places in the context."""
    best = {}
    for name, texts, _ in answers:
        best[name] = []
        for answer in texts:
            written = dict(answer)
            written.pop("place", None)
            best[name].append(written)
    return best
