"""Official scores: published figures, manually derived cases, and a brute-force search over thresholds."""

import json
from fractions import Fraction

import numpy as np
import pytest

from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import metrics as squad_metrics


def questions(golds, version_2=False):
    """Returns questions with only gold answers, by id."""
    ids, count = list(golds), len(golds)
    return squad.Questions(
        [""], ids, [""] * count, np.zeros(count, int), list(golds.values()), [[]] * count, version_2, []
    )


def test_published_figures(data):
    predictions = json.loads((data / "squad" / "predictions" / "bert_ensemble.json").read_text())
    scores = squad_metrics.score(squad.read(data / "squad" / "dev-v1.1.json"), predictions)
    assert {kind: round(value, 2) for kind, value in scores.items()} == {"exact_match": 86.21, "f1": 92.20}


def test_no_answers_score_the_share_of_unanswerable_questions(data):
    half = squad.read(data / "squad" / "dev-v2.0-cs224n-half.json")
    odds = dict.fromkeys(half.ids, 0.5)
    for predictions, threshold in ((dict.fromkeys(half.ids, ""), 1.0), (dict.fromkeys(half.ids, "Köln"), 0.4)):
        scores = squad_metrics.score(half, predictions, odds, threshold)
        assert round(scores["exact"], 2) == round(scores["f1"], 2) == 52.12
        assert (scores["HasAns_exact"], scores["HasAns_f1"]) == (0, 0)
        assert (scores["NoAns_exact"], scores["NoAns_f1"]) == (100, 100)
        assert (scores["total"], scores["HasAns_total"], scores["NoAns_total"]) == (6078, 2910, 3168)
        assert (scores["best_exact"], scores["best_exact_thresh"]) == (100 * 3168 / 6078, 0)


def test_normalize():
    for text, words in {
        "The Denver Broncos": "denver broncos",
        "  a\tB\u00a0c\n": "b c",
        "an apple, the pear; A plum.": "apple pear plum",
        "theatre and banana in Athens": "theatre and banana in athens",  # Articles are whole words.
        "the-cat": "thecat",  # Punctuation is removed first, without leaving white space.
        "U.S.A.": "usa",
        "$1,000.50": "100050",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~": "",
        " \u3000 the": "",
        "Arab–Israeli “war”": "arab–israeli “war”",  # Only ASCII punctuation is removed,
        "«the» war": "« » war",  # but other punctuation ends words too.
        "ÉCOLE Straße İ": "école straße i\u0307",
        "à la": "à la",  # Accented letters are letters,
        "a\u0300 la": "\u0300 la",  # combining accents are not.
        "a_the": "athe",
    }.items():
        assert squad_metrics.normalize(text) == words


def test_single_answers():
    for gold, prediction, exact, f1 in (
        ("Denver Broncos", "the Denver Broncos!", 1, 1),
        ("Denver Broncos", "Broncos Denver", 0, 1),  # The order of words does not matter,
        ("to be or not to be", "to be", 0, 1 / 2),  # but their number does: precision 1, recall 1/3.
        ("to be", "to be to be", 0, 2 / 3),
        ("1,000", "1000", 1, 1),
        ("Köln", "Koln", 0, 0),
        ("", "", 1, 1),
        ("the", "", 1, 1),
        ("the", "x", 0, 0),
    ):
        assert squad_metrics.exact_match(gold, prediction) == squad_metrics.exact_match(prediction, gold) == exact
        assert squad_metrics.f1(gold, prediction) == pytest.approx(f1, abs=1e-15)
        assert squad_metrics.f1(prediction, gold) == squad_metrics.f1(gold, prediction)


def test_answers_without_words():
    golds = {"both": ["war", "."], "none": ["."], "no answer": []}
    # In version 1.1 "." is a normal answer, but no prediction shares a word with it.
    old = questions({name: golds[name] for name in ("both", "none")})
    for predictions, exact, f1 in ((("", "the"), (1, 1), (0, 0)), (("war", "x"), (1, 0), (1, 0))):
        found = squad_metrics.score_answers(old, dict(zip(old.ids, predictions, strict=True)))
        assert found == tuple(dict(zip(old.ids, values, strict=True)) for values in (exact, f1))
    # In version 2.0 it is ignored; a question with no other answer expects "", but counts as answerable.
    new = questions(golds, version_2=True)
    for nothing in ("", ".", "the"):
        scored = {"both": 0, "none": 1, "no answer": 1}
        assert squad_metrics.score_answers(new, dict.fromkeys(golds, nothing)) == (scored, scored)
    scores = squad_metrics.score(new, dict.fromkeys(golds, ""))
    assert (scores["HasAns_total"], scores["HasAns_exact"]) == (2, 50)
    assert (scores["NoAns_total"], scores["NoAns_exact"]) == (1, 100)


V2 = {"a1": ["x y"], "n1": [], "a2": ["z"], "n2": [], "a3": ["w"]}
ANSWERS = {"a1": "x", "n1": "", "a2": "z", "n2": "v", "a3": ""}  # F1 2/3, 1, 1, 0, 0.


def test_version_2_scores():
    scores = squad_metrics.score(questions(V2, version_2=True), ANSWERS)
    expected = {"exact": 100 * 2 / 5, "f1": 100 * (2 / 3 + 1 + 1) / 5, "total": 5}
    expected |= {"HasAns_exact": 100 / 3, "HasAns_f1": 100 * (2 / 3 + 1) / 3, "HasAns_total": 3}
    assert scores == pytest.approx(expected | {"NoAns_exact": 50, "NoAns_f1": 50, "NoAns_total": 2})
    # No scores for categories without questions.
    none = squad_metrics.score(questions({"q": []}, version_2=True), {"q": ""})
    assert list(none) == ["exact", "f1", "total", "NoAns_exact", "NoAns_f1", "NoAns_total"]


@pytest.mark.parametrize(
    ("threshold", "right", "shared"),
    [
        (0.9, 2, 8 / 3),  # 0.9 is not above: all answers count.
        (0.8, 3, 11 / 3),  # n2 is refused, correctly.
        (0.3, 2, 8 / 3),  # a2 as well, wrongly.
        (0.1, 2, 2),  # a1 too: n1 and n2 are left.
    ],
)
def test_threshold_refuses_answers(threshold, right, shared):
    no_answer = {"a1": 0.2, "n1": 0.3, "a2": 0.8, "n2": 0.9, "a3": 0.1}
    scores = squad_metrics.score(questions(V2, version_2=True), ANSWERS, no_answer, threshold)
    assert (scores["exact"], scores["f1"]) == pytest.approx((20 * right, 20 * shared))
    # The best thresholds do not depend on the threshold. a2 is the last answer to keep: n1 and n2 are 2, a1
    # adds 0 or 2/3, a2 1.
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (60, 0.8)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (pytest.approx(100 * 11 / 15), 0.8)


def test_questions_without_prediction_score_0():
    predictions = {"a1": "x y", "n1": ""}
    no_answer = {"a1": 0.1, "n1": 0.9, "a2": 0.9, "n2": 0.9, "a3": 0.1}
    for given in (None, no_answer):
        scores = squad_metrics.score(questions(V2, version_2=True), predictions, given, threshold=0.5)
        assert (scores["exact"], scores["f1"], scores["total"]) == (40, 40, 5)
        assert (scores["HasAns_exact"], scores["NoAns_exact"]) == (pytest.approx(100 / 3), 50)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (40, 0.1)


def best_prefix(scores, predictions, no_answer, answerable):
    """Brute-force official sweep: answers the questions with the lowest `no_answer`, and refuses the others."""
    order = sorted(no_answer, key=no_answer.get)  # Equal values in their order.
    totals = []
    for kept in range(len(order) + 1):
        points = [scores[name] if answerable[name] else predictions[name] == "" for name in order[:kept]]
        totals.append(sum(map(Fraction, points)) + sum(not answerable[name] for name in order[kept:]))
    first = totals.index(max(totals))
    return float(100 * max(totals) / len(order)), no_answer[order[first - 1]] if first else 0


@pytest.mark.parametrize(("seed", "values"), [(0, 1000), (1, 5), (2, 5)])  # Of five values, most are equal.
def test_best_threshold(seed, values):
    rng = np.random.default_rng(seed)
    odds = rng.permutation(values) / 8 + 0.125
    names = [f"q{number}" for number in range(40)]
    answerable = {name: bool(rng.random() < 0.5) for name in names}
    # Sums of these scores are exact. The sweep treats an article as an answer, although it scores like "".
    scores = {name: float(rng.choice([0, 0.25, 0.5, 1]) if answerable[name] else 1) for name in names}
    predictions = {name: "x" if answerable[name] else str(rng.choice(["", "", "x", "the"])) for name in names}
    # Answerable questions have lower values, and the order differs from that of the questions.
    no_answer = {
        str(name): float(odds[rng.integers(len(odds))] / (1 + answerable[name])) for name in rng.permutation(names)
    }
    expected = best_prefix(scores, predictions, no_answer, answerable)
    assert squad_metrics.best_threshold(scores, predictions, no_answer, answerable) == expected
    with_others = {"other": 0.0, **no_answer, "another": 1.0}
    assert squad_metrics.best_threshold(scores, predictions, with_others, answerable) == expected


@pytest.mark.parametrize(
    ("golds", "no_answer", "message"),
    [
        (V2, {"a1": 0, "a2": 0, "a3": 0, "x": 0}, r"`no_answer` lacks 2 question\(s\), the first is n1"),
        (V2, dict.fromkeys(V2, float("nan")), r"`no_answer` is not a number for 5 question\(s\), the first is a1"),
        ({"q1": ["x"]}, {"q1": 0.5}, r"`no_answer` is for SQuAD 2\.0, .* Received: SQuAD 1\.1"),
        ({"q1": ["x"], "q2": []}, None, r"1 question\(s\) of SQuAD 1.1 have no gold answer, the first is q2"),
    ],
)
def test_errors(golds, no_answer, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        squad_metrics.score(questions(golds, version_2=golds is V2), dict.fromkeys(golds, "x"), no_answer)
