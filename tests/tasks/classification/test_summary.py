"""The summary of texts with labels before training, against counts by hand."""

import dataclasses
import json
import types

import pytest

from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.classification.examples import TaskSpec, TextData, TextExamples
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.tasks.classification.summary import majority, summarize, warnings
from keras_bert.tasks.summary import Summary
from keras_bert.training.metrics import accuracy, exact_match, f1, micro_f1, spearman


def spec(labels, metrics, **options):
    return TaskSpec("own", "Own", "text", None, "label", tuple(labels), metrics, **options)


def examples(texts, labels, pair=None):
    return TextExamples(texts, pair, labels, list(range(len(texts))))


def summary_of(task, train, dev, test=None, lengths=None):
    """Returns the summary of examples, whose texts have 3 tokens by default."""
    tests = {} if test is None else {"own": test}
    data = TextData(task, train, {"own": dev}, tests)
    return summarize(data, lengths or [3] * len(train), sequence_length=128, limit=512)


def all_warnings(summary):
    return [*warnings(summary), *data_summary.warnings(summary)]


@pytest.fixture
def table():
    """The summary of a table: the last training text equals the first one, but for case and white space."""
    return summary_of(
        spec(["no", "yes"], (f1, accuracy)),
        train=examples(["a b", "c", "d", "A  b"], [1, 0, 1, 0]),
        dev=examples(["a B ", "e", "f"], [1, 1, 0]),
        test=examples(["c", "d", "g"], None),
        lengths=[3, 200, 100, 130],
    )


def test_a_table(table):
    assert table.to_json() == json.loads(json.dumps(table.to_json()))
    assert table.to_json() == {
        "unit": "rows",
        "train": 4,
        "dev": {"own": 3},
        "test": {"own": 3},
        "skipped": {},
        "labels": {"no": 2, "yes": 2},
        "not_in_dev": [],
        "repeated": 0,
        "contradictory": 2,
        "truncated": {
            "rows": 2,
            "share": 0.5,
            "sequence_length": 128,
            "longest": 200,
            "enough": 256,
            "held": 1.0,
        },
        "overlap": {"dev": 1, "test": 2},
        # A tie in train goes to the first class; dev has a majority of its own.
        "baseline": "always no",
        "majority": {"f1": 0.0, "accuracy": pytest.approx(1 / 3)},
        "dev_baseline": "always yes",
        "dev_majority": {"f1": pytest.approx(4 / 5), "accuracy": pytest.approx(2 / 3)},
    }


def test_facts_of_a_table(table):
    facts = data_summary.facts(dataclasses.replace(table, skipped={"train": 1200, "dev": 1}))
    assert facts["skipped rows"] == "train 1,200, dev 1"
    longer = "50.0% of the training rows are longer than 128 tokens"
    assert facts["truncated"] == f"{longer}; sequence_length=256 would hold 100%"
    of_train = "f1 0.00%, accuracy 33.33% (always no), as in train"
    of_dev = "f1 80.00%, accuracy 66.67% (always yes), as in dev"
    assert facts["majority baseline"] == f"{of_train}; {of_dev}"


def test_a_share_is_not_rounded_up_to_all(table):
    table.truncated["held"] = 0.9996
    found = data_summary.facts(table)["truncated"]
    assert found.endswith("sequence_length=256 would hold 99.9%")


def test_warnings_about_a_table(table):
    assert all_warnings(table) == [
        "2 of 2 classes have fewer than 5 training rows: no (2), yes (2)",
        "1 of 3 dev rows are also in train, which raises the dev scores",
        "2 of 3 answered rows are also in train, so the model has seen them",
        "2 training rows occur with different labels",
    ]
    table.more["labels"] = dict.fromkeys("abcdefg", 1)
    first = warnings(table)[0]
    assert first.endswith("rows: a (1), b (1), c (1), d (1), e (1), and 2 more")


def test_majority_baselines():
    """MRPC's F1 of a model that always says yes is 81.22."""
    labels = [1] * 279 + [0] * 129
    assert 100 * majority(TASKS["mrpc"], labels, labels)["f1"] == pytest.approx(81.22, abs=5e-3)
    numbers = majority(TASKS["stsb"], [1.0, 4.0], [0.0, 1.0, 5.0])
    assert numbers == {"spearman": 0.0, "pearson": 0.0}


def test_all_rows_have_the_same_label():
    task = spec(["no", "yes"], (f1, accuracy))
    summary = summary_of(task, examples(["a", "b"], [1, 1]), examples(["c"], [1]))
    assert warnings(summary) == [
        "all training rows have the label yes: the model can only learn to predict it",
        "1 of 2 classes have fewer than 5 training rows: yes (2)",
    ]


def test_all_rows_have_the_same_number():
    task = spec([], (spearman,))
    summary = summary_of(task, examples(["a", "b"], [2.5, 2.5]), examples(["c"], [1.0]))
    expected = "all training rows have the target 2.5: the model can only learn to predict it"
    assert warnings(summary) == [expected]


def test_misspelled_and_rare_labels_and_repeated_rows():
    task = spec(["good", "Good", "bad", "b", "c", "d", "e"], (accuracy,))
    texts = ["a", "A ", "b", "b", *"cdefghijklmno"]
    labels = [0, 0, 0, 1, 0, 0, *[2] * 6, 1, 3, 4, 5, 6]
    summary = summary_of(task, examples(texts, labels), examples(["x", "y"], [0, 2]))
    assert data_summary.facts(summary)["repeated"] == "1 of 17 training rows are repeated"
    assert all_warnings(summary) == [
        "labels that look alike are different classes: 'good' (5) and 'Good' (2)",
        "5 of 7 classes have fewer than 5 training rows: Good (2), b (1), c (1), d (1), e (1)",
        "no dev rows have the training label(s) Good, b, c, d, e",
        "2 training rows occur with different labels",
    ]


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        ([f"{n / 10:g}" for n in range(31, 43)], "Numbers that measure something"),
        ([f"id-{n}" for n in range(12)], "Expected the column of the labels"),
    ],
)
def test_nearly_as_many_classes_as_rows(labels, advice):
    counts = dict.fromkeys(labels, 1)
    counts[labels[0]] = 3
    (found,) = warnings(Summary(train=14, more={"labels": counts}))
    assert found.startswith(f"the 14 training rows have 12 different labels. {advice}")


@pytest.fixture
def label_sets():
    """The summary of rows with several labels."""
    return summary_of(
        spec("abc", (micro_f1, exact_match), multi_label=True),
        train=examples(["v", "w", "x", "X"], [(0,), (0, 1), (0,), (0, 1)]),
        dev=examples(["y", "z"], [(0,), ()]),
    )


def test_several_labels_per_row(label_sets):
    assert label_sets.to_json() == json.loads(json.dumps(label_sets.to_json()))
    assert label_sets.more["labels"] == {"a": 4, "b": 2, "c": 0}
    assert label_sets.more["labels_per_row"] == {"1": 2, "2": 2}
    assert label_sets.repeated == 0
    assert label_sets.contradictory == 2
    assert all_warnings(label_sets) == [
        "all training rows have the label(s) a: the model can only learn to predict them",
        "no training rows have the label(s) c",
        "2 of 3 classes have fewer than 5 training rows: a (4), b (2)",
        "no dev rows have the training label(s) b",
        "2 training rows occur with different labels",
    ]


def test_majorities_of_several_labels(label_sets):
    """With "a" for each row, micro F1 is 8/10 on the training rows; with "b", 12/14, and 2/5 on dev."""
    assert label_sets.baseline == "always a, b"
    assert label_sets.majority == {"micro_f1": 2 / 5, "exact_match": 0.0}
    assert label_sets.dev_baseline == "always a"
    assert label_sets.dev_majority == {"micro_f1": pytest.approx(2 / 3), "exact_match": 0.5}


def test_rows_of_one_label_each_are_classes():
    more = {"labels": {"a": 5, "b": 5}, "labels_per_row": {"1": 10}}
    (found,) = warnings(Summary(train=10, more=more))
    assert found == "all training rows have one label; `task=classification` predicts exactly one"


def test_the_comparison_is_with_the_better_majority():
    """Train knows 11 classes equally often, and the alphabet chooses one; dev mostly has one of the others."""
    labels = [4] * 12 + [0] * 3 + [7] * 4
    train = examples([str(n) for n in range(22)], [*range(11)] * 2)
    dev = examples([f"x{n}" for n in range(len(labels))], labels)
    summary = summary_of(spec("abcdefghijk", (accuracy,)), train, dev)
    assert data_summary.baselines(summary) == [
        ("always a", {"accuracy": 3 / 19}),
        ("always e", {"accuracy": 12 / 19}),
    ]
    worse = data_summary.no_better(summary, "accuracy", {"accuracy": 0.5})
    assert worse.endswith("the majority baseline (always e): accuracy 50.00% against 63.16%")
    assert data_summary.no_better(summary, "accuracy", {"accuracy": 0.64}) is None
    described = types.SimpleNamespace(metric="accuracy", summary=summary)
    headline = data_summary.headline(described, {"accuracy": 0.5}, "dev")
    assert headline.text.endswith("13.2 points below the baseline (always e: 63.2%).")
    # That of train may be the better one.
    better = dataclasses.replace(summary, majority={"accuracy": 0.9})
    assert data_summary.best_baseline(better, "accuracy") == ("always a", 0.9)
