"""Published scores, compared with ours."""

import pytest

import keras_bert
from keras_bert.tasks.classification import published as glue_published

NINE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte")


def test_published_row_of_the_same_size():
    for config, names, mrpc in (
        (keras_bert.BERT_BASE, ["BERT BASE"], 88.9),
        (keras_bert.BERT_TINY, ["BERT Tiny"], 81.1),
        (keras_bert.BERT_MEDIUM, ["BERT Medium"], 86.6),
        (keras_bert.named_config("L-6_H-768"), ["BERT BASE", "BERT LARGE"], 88.9),
    ):
        rows = glue_published.published(config)
        assert [name for name, _ in rows] == names
        assert rows[0][1]["mrpc"] == mrpc


def test_table_of_all_tasks_has_average_of_the_paper():
    scores = {name: {glue_published.TASKS[name].main_metric: 0.5} for name in (*NINE, "wnli")}
    assert glue_published.averages(scores).endswith("50.0 with WNLI, 50.0 without WNLI.\n")
    assert glue_published.averages({name: scores[name] for name in NINE}).endswith(": 50.0 without WNLI.\n")
    assert glue_published.averages({"cola": scores["cola"]}) == ""
    one = glue_published.comparison_table({"stsb": {"spearman": 0.8766, "pearson": 0.9}}, keras_bert.BERT_BASE)
    assert one == "| | STS-B (spearman) |\n|---|---|\n| ours, dev | 87.7 |\n| BERT BASE, test | 85.8 |\n"
    header, _, ours, base = glue_published.comparison_table(scores, keras_bert.BERT_BASE).splitlines()
    assert header.startswith("| | CoLA (matthews correlation) | SST-2 (accuracy) | MRPC (f1) | STS-B (spearman) |")
    assert "| MNLI-m (accuracy) | MNLI-mm (accuracy) |" in header
    assert ours.split(" | ")[1:] == ["50.0"] * 10 + ["50.0 |"]
    paper = ["52.1", "93.5", "88.9", "85.8", "71.2", "84.6", "83.4", "90.5", "66.4", "", "79.6 |"]
    assert base.split(" | ")[1:] == paper
    large = glue_published.comparison_table(scores, keras_bert.BERT_LARGE).splitlines()[-1]
    assert large.endswith(" | 82.1 |")


def test_leaderboard_average():
    names = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax"]
    for expected, columns in {  # Google's miniatures Mini and Medium.
        65.8: "0.0 85.9 81.1,71.8 75.4,73.3 66.4,86.2 74.8 74.3 84.1 57.9 62.3 26.1",
        73.5: "38.0 89.6 86.6,81.6 80.4,78.4 69.6,87.9 80.0 79.1 87.7 62.2 62.3 30.5",
    }.items():
        scores = [dict(enumerate(map(float, column.split(",")))) for column in columns.split()]
        with_wnli, without = glue_published.average(dict(zip(names, scores, strict=True)))
        assert round(with_wnli, 1) == expected
        assert without == pytest.approx((9 * with_wnli - 62.3) / 8)
