"""Tasks with user data, and prediction tables as read by other programs."""

import csv
import io

import numpy as np
import pytest

from keras_bert.tasks.classification.data import Examples, assign_folds, own_data
from keras_bert.tasks.classification.glue_tasks import TASKS
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    predict,
    predictions_table,
    same_prediction,
    score,
)
from tests.tasks.files import write

LABELS = ["a\tb", "c\nd", "e\r\nf", '"g" h', 'i "j"', "\x00\x0b\x85\u2028", " k ", "\\t"]


def test_own_classification_data(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,10\nb,9\nc,9\n")
    dev = write(tmp_path / "dev.jsonl", '{"text": "d", "label": 10}\n')
    test = write(tmp_path / "test.tsv", "id\ttext\nx\te\n")
    data = own_data("classification", train, dev, test)
    assert (data.task.labels, data.task.num_classes, data.task.main_metric) == (("9", "10"), 2, "accuracy")
    assert (data.train.labels, data.dev["classification"].labels) == ([1, 0, 0], [1])
    assert data.test["classification"].labels is None
    assert data.balance() == "9: 2 (66.7%), 10: 1 (33.3%)"
    assert data.first(2).dev == data.dev
    folds = own_data("classification", train, folds=2).first(2)
    assert (folds.train.text, folds.dev["classification"]) == (["a", "b"], folds.train)


def test_own_regression_data(tmp_path):
    table = write(tmp_path / "all.csv", "a,b,score\nx,y,1.5\nz,w,2\n")
    data = own_data("regression", table, table, table, text="a", pair="b", label="score")
    assert (data.task.num_classes, data.task.main_metric) == (1, "spearman")
    assert (data.train.pair, data.test["regression"].labels) == (["y", "w"], [1.5, 2.0])
    assert data.balance() == "2 numbers from 1.5 to 2, mean 1.75"


def test_invalid_own_data(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,no\nb,yes\n")
    other = write(tmp_path / "other.csv", "text,label\na,maybe\n")
    alone = write(tmp_path / "alone.csv", "text,label\na,no\nb,no\n")
    typo = write(tmp_path / "typo.csv", "text,label\na,class 1\nb,clas 17\n")
    many = write(tmp_path / "many.csv", "text,label\n" + "".join(f"a,class {n}\n" for n in range(100)))
    rated = write(tmp_path / "rated.csv", "text,label\na,3.7\nb,4.1\n")
    number = write(tmp_path / "number.csv", "text,label\na,4.2\n")
    for arguments, options, message in (
        (("classification", alone, train), {}, r"alone.csv: column `label` must have at least two classes.*\['no'\]$"),
        (
            ("classification", many, typo),
            {},
            r"typo.csv:3: unknown label 'clas 17'. Did you mean 'class 17'\? Expected",
        ),
        (
            ("classification", many, typo),
            {},
            r"of: 'class 0', 'class 1', 'class 10', 'class 11', 'class 12', and 95 more",
        ),
        (("classification", rated, number), {}, r"'4.2'. Numbers that measure something are .* by `task=regression`. "),
        (("classification", train, other), {}, r"other.csv:2: unknown label 'maybe'. Expected one of: 'no', 'yes'"),
        (("classification", train, train, other), {}, r"other.csv:2: unknown label 'maybe'. Expected one of: 'no', "),
        (("tagging", "a.csv", "b.csv"), {}, "`kind` must be one of .*, multi_label, regression. Rec.*kind='tagging'"),
        (("classification", train), {}, "expected either `dev_file` or `folds`. Received: dev_file="),
        (("classification", train, train), {"folds": 3}, "expected either `dev_file` or `folds`. Received: dev_file="),
    ):
        with pytest.raises(ValueError, match=message):
            own_data(*arguments, **options)


def test_test_rows_are_never_skipped(tmp_path):
    good, bad = write(tmp_path / "a.csv", "text,label\na,1\n"), write(tmp_path / "b.csv", "text,label\na,1\nb\n")
    assert len(own_data("regression", bad, bad, good, skip_bad_rows=1).train) == 1
    with pytest.raises(ValueError, match=r"b\.csv:3: expected 2 columns, got 1$"):
        own_data("regression", good, good, bad, skip_bad_rows=1)


@pytest.mark.parametrize("labels", [np.array(LABELS), ["no", "yes"]])
def test_labels_round_trip_through_the_table(labels):
    logits = np.log(np.eye(len(labels)) * 0.5 + 0.5 / len(labels))
    lines = predictions_table(logits, labels)
    header, *rows = csv.reader(io.StringIO("\n".join(lines) + "\n", newline=""), "excel-tab")
    assert header == ["label", *labels]
    assert [row[0] for row in rows] == list(labels)
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], np.exp(logits), atol=5e-5)
    assert (lines[0] == "label\tno\tyes") == (len(labels) == 2)  # Quoted only if necessary.


def test_small_predictions_keep_their_digits():
    assert predictions_table(np.array([[1.25e-5], [-4e7]]), []) == ["value", "1.25e-05", "-4e+07"]


def test_scores():
    logits = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]])  # 1, 0, 1, 1
    assert score(TASKS["mrpc"], [1, 0, 1, 0], logits) == pytest.approx({"f1": 0.8, "accuracy": 0.75})
    scores = score(TASKS["stsb"], [0.0, 1.0, 4.0], np.array([[0.0], [1.0], [2.0]]))
    assert list(scores.items()) == [("spearman", pytest.approx(1)), ("pearson", pytest.approx(4 / np.sqrt(52 / 3)))]
    for shape in ((4,), (4, 3)):
        with pytest.raises(ValueError, match=r"`logits` must have shape \(rows, 2\). Received: shape"):
            predict(TASKS["rte"], np.zeros(shape))
    with pytest.raises(FloatingPointError, match="`logits` must be finite. Received: NaN or infinity"):
        score(TASKS["rte"], [1], [[np.nan, 0.0]])


def test_folds_are_stratified():
    """Folds and the classes in them differ by at most one row; equal texts stay together; seeds differ."""
    labels = [0] * 23 + [1] * 11 + [2] * 2
    examples = Examples([f"text {row}" for row in range(36)], None, labels, list(range(36)))
    folds = [assign_folds(examples, 5, seed) for seed in (1, 1, 2)]
    counts = np.array(
        [[np.sum((folds[0] == fold) & (np.array(labels) == label)) for label in range(3)] for fold in range(1, 6)]
    )
    assert counts.sum() == 36
    assert (counts.max(0) - counts.min(0) <= 1).all()
    assert np.ptp(counts.sum(1)) == 1
    assert (folds[0] == folds[1]).all()
    assert (folds[0] != folds[2]).any()
    twice = Examples(["a", "b", "a", "c", "a"], ["x"] * 5, [0.5, 1.0, 0.1, 2.0, 3.0], list(range(5)))
    together = assign_folds(twice, 3, 1)
    assert len(set(together[[0, 2, 4]])) == 1
    assert set(together) == {1, 2, 3}
    for count in (1, 4):
        with pytest.raises(ValueError, match="`folds` must be from 2 to the number of different texts, 3. Received"):
            assign_folds(twice, count, 1)


def test_balanced_weights():
    from sklearn.utils.class_weight import compute_class_weight

    labels, present = np.array([0, 0, 0, 2, 2, 0, 3]), np.array([0, 2, 3])
    found = np.array(balanced_weights(labels, 4))
    np.testing.assert_allclose(found[present], compute_class_weight("balanced", classes=present, y=labels))
    assert found[1] == 1  # A class without rows.


def test_same_prediction():
    assert same_prediction(TASKS["rte"], np.array([[0.0, 1.0], [1.0, 2.0]])) == "not_entailment"
    assert same_prediction(TASKS["rte"], np.eye(2)) is None
    assert same_prediction(TASKS["stsb"], np.array([[2.5], [2.5]])) == "2.5"
