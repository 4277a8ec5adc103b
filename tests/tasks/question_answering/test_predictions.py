"""Prediction files and scores of manually derived answers."""

import json

import numpy as np
import pytest

from keras_bert.tasks.question_answering import predictions as squad_predictions
from keras_bert.tasks.question_answering.data import Questions
from keras_bert.tasks.question_answering.features import BestAnswers


def found(text, start, end, place=(0, 1)):
    return {"text": text, "place": place, "start_logit": start, "end_logit": end, "probability": 0.5}


# Odds of no answer: -2 (correct to answer), 3 (correct not to), 1 (not answered for thresholds below 1), and certain.
ANSWERS = [
    BestAnswers("1", [found("é b", 2.0, 1.0, (0, 4)), found("b", 0.0, 0.0, (3, 4))], null_score=1.0),
    BestAnswers("2", [found("c", 0.0, 0.0, (5, 6))], null_score=3.0),
    BestAnswers("3", [found("d", 1.0, 1.0)], null_score=3.0),
    BestAnswers("4", [], null_score=0.0),
]


@pytest.fixture
def questions():
    golds = [["é b"], [], ["c d"], []]
    spans = [[(0, 4)], [], [(5, 8)], []]
    return Questions(["é b c d"], ["1", "2", "3", "4"], list("wxyz"), np.zeros(4, int), golds, spans, True, [])


def test_odds_and_predictions():
    assert squad_predictions.null_odds(ANSWERS) == {"1": -2.0, "2": 3.0, "3": 1.0, "4": 1e30}
    assert squad_predictions.predictions(ANSWERS) == {"1": "é b", "2": "c", "3": "d", "4": ""}
    assert squad_predictions.predictions(ANSWERS, 1.0) == {"1": "é b", "2": "", "3": "d", "4": ""}
    assert squad_predictions.predictions(ANSWERS, 0.9) == {"1": "é b", "2": "", "3": "", "4": ""}


def test_threshold_with_best_f1(questions):
    assert squad_predictions.choose_threshold(questions, ANSWERS) == 2.0  # Between 1 and 3.
    scores = squad_predictions.score(questions, ANSWERS, 1.0)
    # "d" has recall 1/2 and precision 1 for "c d": F1 2/3.
    assert (scores["exact"], scores["f1"]) == (75.0, pytest.approx(100 * (3 + 2 / 3) / 4))
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, -2.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (scores["f1"], 1.0)


def test_threshold_positions():
    """Wrong answers belong to questions without an answer."""
    for odds, right, threshold in (
        ([-2.0, 5.0], [1, 1], 6.0),  # All are answered.
        ([-2.0, 5.0], [0, 0], -3.0),  # None.
        ([-2.0, 5.0], [1, 0], -1.0),  # Close to the last answered one.
        ([-2.0, -1.0, -1.0, -0.5], [1, 1, 0, 0], -1.5),  # Equal odds are either all answered or not.
        ([-2.0, -1.0, -1.0, -0.5], [1, 1, 1, 0], -0.75),
    ):
        count = len(odds)
        names = list("abcd"[: len(odds)])
        golds = [["a b"] if answerable else [] for answerable in right]
        questions = Questions(["a b"], names, names, np.zeros(count, int), golds, [[]] * count, True, [])
        answers = []
        for name, value in zip(names, odds, strict=True):
            answers.append(BestAnswers(name, [found("a b", 0.0, 0.0)], null_score=value))
        assert squad_predictions.choose_threshold(questions, answers) == threshold
        scores = [squad_predictions.score(questions, answers, at)["f1"] for at in (threshold, *np.arange(-4, 7, 0.25))]
        assert scores[0] == max(scores)


def test_files_match_the_official_programs(tmp_path):
    squad_predictions.write(tmp_path / "new" / "dev", ANSWERS, 1.0)
    files = {path.stem: json.loads(path.read_text("utf-8")) for path in (tmp_path / "new" / "dev").iterdir()}
    assert sorted(files) == ["nbest_predictions", "null_odds", "predictions"]
    assert files["predictions"]["1"] == "é b"
    best = files["nbest_predictions"]
    assert best["1"][1] == {"text": "b", "start_logit": 0.0, "end_logit": 0.0, "probability": 0.5}
    assert (best["4"], files["null_odds"]["4"]) == ([], 1e30)


def test_answered_questions(questions):
    first, second, *_, last = squad_predictions.answered_questions(questions, ANSWERS, 1.0)
    assert first == squad_predictions.AnsweredQuestion(
        id="1",
        question="w",
        context="é b c d",
        golds=["é b"],
        gold_spans=[(0, 4)],
        prediction="é b",
        place=(0, 4),
        probability=0.5,
        exact=1.0,
        f1=1.0,
    )
    assert (second.prediction, second.place, second.exact) == ("", None, 1.0)
    assert (last.prediction, last.place, last.probability) == ("", None, None)
