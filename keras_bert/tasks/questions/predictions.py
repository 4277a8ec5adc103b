"""SQuAD predictions, in the files of the official programs."""

import pathlib

import numpy as np

from keras_bert.files import write_json
from keras_bert.tasks.questions import metrics as squad_metrics


def null_odds(answers):
    """Returns, by id, the score of no answer minus the score of the best answer."""
    return {
        name: null - (found[0]["start_logit"] + found[0]["end_logit"] if found else -1e30)  # JSON has no infinity.
        for name, found, null in answers
    }


def predictions(answers, threshold=None):
    """Returns the answer texts by id, of the result of `QuestionWindows.answers`.

    `null_odds` above the threshold mean no answer, ""; `None` always answers.
    """
    odds = null_odds(answers)
    return {
        name: "" if not found or (threshold is not None and odds[name] > threshold) else found[0]["text"]
        for name, found, _ in answers
    }


def choose_threshold(questions, answers):
    """Returns the threshold of `null_odds` with the best F1; `None` for version 1.1, where all questions have answers.

    The official threshold equals the odds of a question. This one lies between two odds, for robustness to rounding.
    """
    if not questions.version_2:
        return None
    _, answered = squad_metrics.score_answers(questions, predictions(answers))
    refused = {name: float(not golds) for name, golds in zip(questions.ids, questions.golds, strict=True)}
    odds = null_odds(answers)
    order = sorted(odds, key=odds.get)
    places = np.array([odds[name] for name in order])
    total = np.cumsum([0.0] + [answered[name] - refused[name] for name in order])  # Gain if the first n are answered.
    total[1:-1][places[1:] == places[:-1]] = -np.inf  # Equal odds must be on the same side.
    count = int(np.argmax(total))
    if count == 0:
        return float(places[0]) - 1
    last, following = places[count - 1], places[count : count + 1]
    return float(min([last + 1, *(last + following) / 2]))


def score(questions, answers, threshold=None):
    """Returns the official scores; for version 2.0 with the given threshold and with the best thresholds."""
    if not questions.version_2:
        return squad_metrics.score(questions, predictions(answers))
    raw = squad_metrics.score(questions, predictions(answers), null_odds(answers))
    best = {name: value for name, value in raw.items() if name.startswith("best_")}
    return {**squad_metrics.score(questions, predictions(answers, threshold)), **best}


def report_rows(questions, answers, threshold=None):
    """Returns the rows for `judge_answers`."""
    texts = predictions(answers, threshold)
    exact, f1 = squad_metrics.score_answers(questions, texts)
    rows = []
    for row, (name, found, _) in enumerate(answers):
        best = found[0] if found else {}
        rows.append(
            {
                "id": name,
                "question": questions.questions[row],
                "context": questions.contexts[questions.context[row]],
                "golds": questions.golds[row],
                "gold_spans": questions.spans[row],
                "prediction": texts[name],
                "place": best.get("place") if texts[name] else None,
                "probability": best.get("probability"),
                "exact": exact[name],
                "f1": f1[name],
            }
        )
    return rows


def write(folder, answers, threshold=None):
    """Writes `predictions.json`, `nbest_predictions.json` and `null_odds.json`."""
    files = {
        "predictions": predictions(answers, threshold),
        "nbest_predictions": {
            name: [{key: value for key, value in answer.items() if key != "place"} for answer in found]
            for name, found, _ in answers
        },
        "null_odds": null_odds(answers),
    }
    for name, content in files.items():
        write_json(pathlib.Path(folder) / f"{name}.json", content)
