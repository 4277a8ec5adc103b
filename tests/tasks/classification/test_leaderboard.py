"""GLUE's tasks side by side."""

import pytest

from keras_bert.tasks.classification import leaderboard

NINE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte")


def test_a_table_of_all_tasks_has_an_average():
    scores = {name: {leaderboard.TASKS[name].main_metric: 0.5} for name in (*NINE, "wnli")}
    assert leaderboard.averages(scores).endswith("50.0 with WNLI, 50.0 without WNLI.\n")
    assert leaderboard.averages({name: scores[name] for name in NINE}).endswith(": 50.0 without WNLI.\n")
    assert leaderboard.averages({"cola": scores["cola"]}) == ""
    one = leaderboard.table({"stsb": {"spearman": 0.8766, "pearson": 0.9}}, {"BERT": {"stsb": 85.8}})
    assert one == "| | STS-B (spearman) |\n|---|---|\n| ours, dev | 87.7 |\n| BERT | 85.8 |\n"
    header, _, ours = leaderboard.table(scores).splitlines()
    assert header.startswith("| | CoLA (matthews correlation) | SST-2 (accuracy) | MRPC (f1) | STS-B (spearman) |")
    assert "| MNLI-m (accuracy) | MNLI-mm (accuracy) |" in header
    assert ours.split(" | ")[1:] == ["50.0"] * 10 + ["50.0 |"]


def test_leaderboard_average():
    names = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax"]
    for expected, columns in {  # Google's miniatures Mini and Medium.
        65.8: "0.0 85.9 81.1,71.8 75.4,73.3 66.4,86.2 74.8 74.3 84.1 57.9 62.3 26.1",
        73.5: "38.0 89.6 86.6,81.6 80.4,78.4 69.6,87.9 80.0 79.1 87.7 62.2 62.3 30.5",
    }.items():
        scores = [dict(enumerate(map(float, column.split(",")))) for column in columns.split()]
        with_wnli, without = leaderboard.average(dict(zip(names, scores, strict=True)))
        assert round(with_wnli, 1) == expected
        assert without == pytest.approx((9 * with_wnli - 62.3) / 8)
