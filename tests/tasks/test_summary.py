"""The summary of the data before training, against counts by hand."""

import dataclasses
import json
import math
import types

import pytest

from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.classification.examples import TaskSpec, TextData, TextExamples
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.tasks.classification.summary import majority, summarize, warnings
from keras_bert.tasks.summary import Summary
from keras_bert.training.metrics import accuracy, exact_match, f1, micro_f1, spearman

TASK = TaskSpec("own", "Own", "text", None, "label", ("no", "yes"), (f1, accuracy))


def examples(texts, labels, pair=None):
    return TextExamples(texts, pair, labels, list(range(len(texts))))


def test_a_table():
    train = examples(["a b", "c", "d", "A  b"], [1, 0, 1, 0])  # The last text equals the first one.
    dev, test = examples(["a B ", "e", "f"], [1, 1, 0]), examples(["c", "d", "g"], None)
    data = TextData(TASK, train, {"own": dev}, {"own": test})
    summary = summarize(data, [3, 200, 100, 130], 128, 512)
    assert summary.to_json() == json.loads(json.dumps(summary.to_json()))
    expected = {"unit": "rows", "train": 4, "dev": {"own": 3}, "test": {"own": 3}, "skipped": {}}
    expected |= {"labels": {"no": 2, "yes": 2}, "not_in_dev": [], "repeated": 0, "contradictory": 2}
    truncated = {"rows": 2, "share": 0.5, "sequence_length": 128, "longest": 200, "enough": 256, "held": 1.0}
    expected |= {"truncated": truncated, "overlap": {"dev": 1, "test": 2}}
    # A tie in train goes to the first class; dev has a majority of its own.
    expected |= {"baseline": "always no", "majority": {"f1": 0.0, "accuracy": pytest.approx(1 / 3)}}
    own = {"f1": pytest.approx(4 / 5), "accuracy": pytest.approx(2 / 3)}
    assert summary.to_json() == expected | {"dev_baseline": "always yes", "dev_majority": own}
    facts = data_summary.facts(dataclasses.replace(summary, skipped={"train": 1200, "dev": 1}))
    assert facts["skipped rows"] == "train 1,200, dev 1"
    truncated = "50.0% of the training rows are longer than 128 tokens; sequence_length=256 would hold 100%"
    assert facts["truncated"] == truncated
    summary.truncated["held"] = 0.9996
    assert data_summary.facts(summary)["truncated"].endswith("sequence_length=256 would hold 99.9%")
    assert facts["majority baseline"] == (
        "f1 0.00%, accuracy 33.33% (always no), as in train; f1 80.00%, accuracy 66.67% (always yes), as in dev"
    )
    assert [*warnings(summary), *data_summary.warnings(summary)] == [
        "2 of 2 classes have fewer than 5 training rows: no (2), yes (2)",
        "1 of 3 dev rows are also in train, which raises the dev scores",
        "2 of 3 answered rows are also in train, so the model has seen them",
        "2 training rows occur with different labels",
    ]
    summary.more["labels"] = dict.fromkeys("abcdefg", 1)
    assert warnings(summary)[0].endswith("rows: a (1), b (1), c (1), d (1), e (1), and 2 more")


def test_majority_baselines():
    """MRPC's F1 of a model that always says yes is 81.22."""
    labels = [1] * 279 + [0] * 129
    assert 100 * majority(TASKS["mrpc"], labels, labels)["f1"] == pytest.approx(81.22, abs=5e-3)
    assert majority(TASKS["stsb"], [1.0, 4.0], [0.0, 1.0, 5.0]) == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([5, 8], 512, {"rows": 0}),
        ([300] * 3 + [9] * 197, 512, {"rows": 3, "enough": 384, "held": 1.0}),
        ([300] * 2 + [9] * 198, 512, {"rows": 2, "enough": 256, "held": 0.99}),
        ([600, 9], 512, {"rows": 1, "enough": 512, "held": 0.5}),
        ([600, 9], 128, {"rows": 1}),  # The model takes no more.
        ([70, 9], 100, {"rows": 0}),
    ],
)
def test_truncation(lengths, limit, expected):
    found = data_summary.truncation(lengths, 128, limit)
    given = {"share": expected["rows"] / len(lengths), "sequence_length": 128, "longest": max(lengths)}
    assert found == pytest.approx({**given, **expected})


def test_warnings_about_labels():
    data = TextData(TASK, examples(["a", "b"], [1, 1]), {"own": examples(["c"], [1])}, {})
    warning, few = warnings(summarize(data, [3, 3], 128, 512))
    assert warning == "all training rows have the label yes: the model can only learn to predict it"
    assert few == "1 of 2 classes have fewer than 5 training rows: yes (2)"
    task = TaskSpec("own", "Own", "text", None, "label", (), (spearman,))
    data = TextData(task, examples(["a", "b"], [2.5, 2.5]), {"own": examples(["c"], [1.0])}, {})
    warning = "all training rows have the target 2.5: the model can only learn to predict it"
    assert warnings(summarize(data, [3, 3], 128, 512)) == [warning]


def test_misspelled_and_rare_labels_and_repeated_rows():
    labels = ("good", "Good", "bad", "b", "c", "d", "e")
    task = TaskSpec("own", "Own", "text", None, "label", labels, (accuracy,))
    texts, numbers = ["a", "A ", "b", "b"] + list("cdefghijklmno"), [0, 0, 0, 1, 0, 0, *[2] * 6, 1, 3, 4, 5, 6]
    data = TextData(task, examples(texts, numbers), {"own": examples(["x", "y"], [0, 2])}, {})
    summary = summarize(data, [3] * 17, 128, 512)
    assert data_summary.facts(summary)["repeated"] == "1 of 17 training rows are repeated"
    assert [*warnings(summary), *data_summary.warnings(summary)] == [
        "labels that look alike are different classes: 'good' (5) and 'Good' (2)",
        "5 of 7 classes have fewer than 5 training rows: Good (2), b (1), c (1), d (1), e (1)",
        "no dev rows have the training label(s) Good, b, c, d, e",
        "2 training rows occur with different labels",
    ]


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        ([f"{n / 10:g}" for n in range(31, 43)], "Numbers that measure something are predicted by `task=regression`."),
        ([f"id-{n}" for n in range(12)], "Expected the column of the labels"),
    ],
)
def test_nearly_as_many_classes_as_rows(labels, warning):
    summary = Summary(train=14, more={"labels": dict.fromkeys(labels, 1) | {labels[0]: 3}})
    assert warnings(summary) == [f"the 14 training rows have 12 different labels. {warning}"]


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["True", "true", "TRUE"], "'True' (9) and 'true' (9) and 'TRUE' (9)"),
        (["1", "01", "+1.00", "\uff11"], "'1' (9) and '01' (9) and '+1.00' (9) and '\uff11' (9)"),
        (["-0.50", "-.5", "0.5", "-0.5", "-5"], "'-0.50' (9) and '-.5' (9) and '-0.5' (9)"),
        (["\xe9", "e", "e\u0301"], r"'\xe9' (9) and 'e\u0301' (9)"),
        (["x", "x\u200b", "y", "\ufeffy"], r"'x' (9) and 'x\u200b' (9), 'y' (9) and '\ufeffy' (9)"),
        (["a b", "a\xa0b", "ab"], r"'a b' (9) and 'a\xa0b' (9) and 'ab' (9)"),
        (["\u2764", "\u2764\ufe0f"], r"'\u2764' (9) and '\u2764\ufe0f' (9)"),
        (
            ["don't", "don\u2019t", "a-b", "a\u2013b"],
            "\"don't\" (9) and 'don\\u2019t' (9), 'a-b' (9) and 'a\\u2013b' (9)",
        ),
        (["10", "100", "1.10", "1.01", "1e1", "-1", "a", "\xe4", "0", "O", "--", "-"], None),
        (["12345678901234567890", "12345678901234567891"], None),
    ],
)
def test_names_that_look_alike(labels, shown):
    counts = dict.fromkeys(labels, 9)
    expected = [f"labels that look alike are different classes: {shown}"] if shown else []
    assert warnings(Summary(train=9, more={"labels": counts})) == expected


def test_several_labels_per_row():
    task = TaskSpec("own", "Own", "text", None, "label", ("a", "b", "c"), (micro_f1, exact_match), multi_label=True)
    train = examples(["v", "w", "x", "X"], [(0,), (0, 1), (0,), (0, 1)])
    summary = summarize(TextData(task, train, {"own": examples(["y", "z"], [(0,), ()])}, {}), [3] * 4, 128, 512)
    assert summary.to_json() == json.loads(json.dumps(summary.to_json()))
    assert (summary.more["labels"], summary.more["labels_per_row"]) == ({"a": 4, "b": 2, "c": 0}, {"1": 2, "2": 2})
    assert (summary.repeated, summary.contradictory) == (0, 2)
    # "a" for every row: micro F1 8/10; with "b", 12/14 on the training rows, and 2/5 on dev.
    assert summary.baseline == "always a, b"
    assert summary.majority == {"micro_f1": 2 / 5, "exact_match": 0.0}
    assert summary.dev_baseline == "always a"
    assert summary.dev_majority == {"micro_f1": pytest.approx(2 / 3), "exact_match": 0.5}
    assert [*warnings(summary), *data_summary.warnings(summary)] == [
        "all training rows have the label(s) a: the model can only learn to predict them",
        "no training rows have the label(s) c",
        "2 of 3 classes have fewer than 5 training rows: a (4), b (2)",
        "no dev rows have the training label(s) b",
        "2 training rows occur with different labels",
    ]
    more = {"labels": {"a": 5, "b": 5}, "labels_per_row": {"1": 10}}
    summary = dataclasses.replace(summary, train=10, more=more)
    assert warnings(summary)[0] == ("all training rows have one label; `task=classification` predicts exactly one")


def test_models_that_have_learned_nothing():
    summary = Summary(train=9, baseline="always yes", majority={"f1": 0.8122, "accuracy": 0.6838})
    for score in (0.8, 0.8122):
        found = data_summary.no_better(summary, "f1", {"accuracy": 0.9, "f1": score})
        assert found == f"no better than the majority baseline (always yes): f1 {100 * score:.2f}% against 81.22%"
    assert data_summary.no_better(summary, "f1", {"f1": 0.8123}) is None
    assert data_summary.no_better(Summary(train=9), "f1", {"f1": 0.0}) is None
    perfect = Summary(train=9, baseline="always yes", majority={"f1": 1.0})
    assert [data_summary.no_better(perfect, "f1", {"f1": score}) is None for score in (0.0, 1.0)] == [False, True]
    found = data_summary.no_better(dataclasses.replace(summary, predicted="word"), "f1", {"f1": 0.9}, "O")
    assert found == "the model predicts O for every word. Try more epochs, or another learning_rate"


def test_results_that_chance_explains():
    summary = Summary(train=9, dev={"dev": 20}, baseline="always yes", majority={"accuracy": 0.6})
    chances = [math.comb(20, right) * 0.6**right * 0.4 ** (20 - right) for right in range(21)]
    for right in range(13, 21):
        found = data_summary.not_significant(summary, {"accuracy": right / 20})
        chance = sum(chances[right:])
        assert (found is None) == (chance < 0.05)
        if found:
            assert found.endswith(
                f"{right} of 20 right, {5 * right:.2f}% against 60.00%, p = {chance:.2f} in a binomial test"
            )
    assert data_summary.not_significant(summary, {"f1": 0.6}) is None
    assert data_summary.not_significant(dataclasses.replace(summary, predicted="word"), {"accuracy": 0.6}) is None
    assert data_summary.not_significant(dataclasses.replace(summary, dev={}), {"accuracy": 0.6}) is None


def test_the_comparison_is_with_the_better_majority():
    """Train knows 11 classes equally often, so that the alphabet chooses one, but dev mostly has one of the others."""
    names = tuple("abcdefghijk")
    task = TaskSpec("own", "Own", "text", None, "label", names, (accuracy, f1))
    gold = [4] * 12 + [0] * 3 + [7] * 4
    train = examples([str(n) for n in range(22)], [*range(11)] * 2)
    dev = examples([f"x{n}" for n in range(len(gold))], gold)
    dataset = dataclasses.replace(task, metrics=(accuracy,))
    summary = summarize(TextData(dataset, train, {"own": dev}, {}), [3] * 22, 128, 512)
    assert data_summary.baselines(summary) == [("always a", {"accuracy": 3 / 19}), ("always e", {"accuracy": 12 / 19})]
    assert data_summary.no_better(summary, "accuracy", {"accuracy": 0.5}) == (
        "no better than the majority baseline (always e): accuracy 50.00% against 63.16%"
    )
    assert data_summary.no_better(summary, "accuracy", {"accuracy": 0.64}) is None
    described = types.SimpleNamespace(metric="accuracy", summary=summary)
    text = data_summary.headline(described, {"accuracy": 0.5}, "dev").text
    assert text.endswith("13.2 points below the baseline (always e: 63.2%).")
    better = dataclasses.replace(summary, majority={"accuracy": 0.9})  # That of train may be the better one.
    assert data_summary.best_baseline(better, "accuracy") == ("always a", 0.9)


@pytest.mark.tensorflow
def test_token_counts_are_those_before_truncation(pieces):
    from keras_bert.text.preprocessor import TextPreprocessor

    table = examples(["a b c d", "a", "e"], [0, 1, 0], pair=["a b c", "b", "a b c d e f g"])
    preprocessor = TextPreprocessor(pieces, 8)
    lengths = preprocessor.ragged((table.text, table.pair))["token_ids"].row_lengths().numpy()
    assert lengths.tolist() == [8, 5, 8]
    assert data_summary.token_counts(preprocessor, table.columns, lengths).tolist() == [10, 5, 11]
