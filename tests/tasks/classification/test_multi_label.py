"""Multi-label tables, scores against scikit-learn, and thresholds against a search over all of them."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.metrics import accuracy_score, f1_score

from keras_bert.tasks.classification.data import Examples, Task, assign_folds, own_data
from keras_bert.tasks.classification.predictions import (
    choose_thresholds,
    dense,
    most_frequent,
    multi_label_table,
    parse_threshold,
    predict,
    probabilities,
    same_prediction,
    score,
    threshold_text,
)
from keras_bert.training.metrics import exact_match, macro_f1, micro_f1
from tests.tasks.files import write

TASK = Task("own", "Own", "text", None, "label", "abcd", (micro_f1, macro_f1, exact_match), multi_label=True)
TABLES = {
    "columns.csv": "text,b,a\nx,1,0\ny,True,1.0\nz,false,0\n",
    "columns.jsonl": '{"text": "x", "b": true, "a": 0}\n{"text": "y", "b": 1, "a": "1"}\n'
    '{"text": "z", "b": 0.0, "a": false}\n',
    "list.csv": "text,labels\nx,b\ny, b | a\nz,\n",
    "list.tsv": "text\tlabels\nx\tb\ny\ta|b\nz\t\n",
    "list.jsonl": '{"text": "x", "labels": ["b"]}\n{"text": "y", "labels": ["b", "a"]}\n{"text": "z", "labels": []}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path, name):
    path = write(tmp_path / name, TABLES[name])
    columns = ["b", "a"] if "columns" in name else "labels"
    data = own_data("multi_label", path, path, path, label=columns)
    # Columns keep their order; the labels of lists are sorted.
    expected = (("b", "a"), [(0,), (0, 1), ()]) if "columns" in name else (("a", "b"), [(1,), (0, 1), ()])
    assert (data.task.labels, data.train.labels) == expected
    assert data.train == data.dev["multi_label"] == data.test["multi_label"]
    assert (data.task.main_metric, data.task.num_classes) == ("micro_f1", 2)
    assert data.balance() == "b: 2 (66.7%), a: 1 (33.3%); 1.00 labels per row; rows without a label: 1 (33.3%)"
    assert len({rows.fingerprint() for rows in (data.train, data.first(2).train)}) == 2
    unlabeled = write(tmp_path / "test.csv", "text\nx\n")
    assert own_data("multi_label", path, path, unlabeled, label=columns).test["multi_label"].labels is None


LISTS, COLUMNS = "labels", ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "text,a,b\nx,1,2\n", COLUMNS, r"a\.csv:2: column `b` must be 0 or 1, or true or false. Received:"),
        ("a.jsonl", '{"text": "x", "a": null, "b": 1}', COLUMNS, r"a\.jsonl:1: column `a` must be 0 or 1.* None"),
        ("a.csv", "text,labels\nx,a||b\n", LISTS, r"a\.csv:2: column `labels` contains an empty label. .*'a\|\|b'"),
        ("a.csv", "text,labels\nx,a|a\n", LISTS, r"a\.csv:2: column `labels` contains the label 'a' twice"),
        ("a.csv", "text,labels\nx,\"['a']\"\n", LISTS, r"a\.csv:2: .* separated by `\|`, without brackets"),
        ("a.jsonl", '{"text": "x", "labels": ["a|b"]}', LISTS, r"a\.jsonl:1: .*the label 'a\|b': `\|` separates"),
        ("a.jsonl", '{"text": "x", "labels": "a"}', LISTS, r"a\.jsonl:1: column `labels` must be a list of strings"),
        ("a.csv", "text,labels\nx,1\ny,0\n", LISTS, "alone contains only 0, 1: use `task=classification`"),
        ("a.csv", "text,labels\nx,\n", LISTS, "`labels` must have at least one class"),
        ("a.csv", "text,a,b\nx,1,1\n", ["a", "a"], "`label_column` must be different names. Received: a,a"),
        ("a.csv", "text,a,b|c\nx,1,1\n", ["a", "b|c"], r"`\|` separates labels in predictions. Rename the column"),
    ],
)
def test_bad_rows(tmp_path, name, content, columns, message):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        own_data("multi_label", path, path, label=columns)


def test_numbers_as_labels(tmp_path):
    path = write(tmp_path / "a.csv", "text,labels\nx,1|0\ny,1\n")
    assert own_data("multi_label", path, path, label="labels").train.labels == [(0, 1), (1,)]


def test_unknown_labels_and_skipped_rows(tmp_path):
    train = write(tmp_path / "train.csv", "text,labels\nx,a|b\ny,a||b\nz,b\n")
    other = write(tmp_path / "other.csv", "text,labels\nx,a\ny,a|c\n")
    found = own_data("multi_label", train, folds=2, label="labels", skip_bad_rows=1)
    assert (found.train.labels, found.train.skipped) == ([(0, 1), (1,)], 1)
    for files in ((train, other), (train, train, other)):
        with pytest.raises(ValueError, match=r"other.csv:3: unknown label 'c'. Expected one of: 'a', 'b'"):
            own_data("multi_label", *files, label="labels", skip_bad_rows=1)


def random_rows(rows=60, classes=4):
    random = np.random.default_rng(5)
    labels = random.random([rows, classes]) < [0.5, 0.2, 0.05, 0.0]
    logits = random.normal(size=[rows, classes]).astype("float32") + 2 * labels - 2
    return labels, np.round(logits, 1)  # With ties.


def test_scores():
    """Also with a label that neither occurs nor is predicted, whose F1 is 0."""
    labels, logits = random_rows()
    logits[:, 3] = -9
    ids = [tuple(np.flatnonzero(row).tolist()) for row in labels]
    np.testing.assert_array_equal(dense(ids, 4), labels)
    for thresholds in (0.5, [0.3, 0.6, 0.5, 0.9]):
        predicted = probabilities(logits) >= thresholds
        np.testing.assert_array_equal(predict(TASK, logits, thresholds), predicted)
        expected = {
            "micro_f1": f1_score(labels, predicted, average="micro", zero_division=0.0),
            "macro_f1": f1_score(labels, predicted, average="macro", zero_division=0.0),
            "exact_match": accuracy_score(labels, predicted),
        }
        assert score(TASK, ids, logits, thresholds) == pytest.approx(expected)
        assert score(TASK, labels, logits, thresholds) == pytest.approx(expected)
    assert list(score(TASK, [(), ()], np.full([2, 4], -1.0)).values()) == [0.0, 0.0, 1.0]
    with pytest.raises(FloatingPointError, match="`logits` must be finite"):
        score(TASK, [()], [[np.nan] * 4])


def test_thresholds_are_the_best():
    """No other threshold has a higher F1; of several, the closest to 0.5 is taken."""
    labels, logits = random_rows()
    everything = np.unique(probabilities(logits))
    middles = (everything[1:] + everything[:-1]) / 2

    def micro(labels, logits, threshold):
        return micro_f1(labels, probabilities(logits) >= threshold)

    shared = choose_thresholds("shared", labels, logits)
    assert micro(labels, logits, shared) == max(micro(labels, logits, middle) for middle in middles)
    assert 0.1 < shared < 0.5
    each = choose_thresholds("per_label", labels, logits)
    for place, threshold in enumerate(each[:3]):
        column = labels[:, [place]], logits[:, [place]]
        assert micro(*column, threshold) == max(micro(*column, middle) for middle in middles)
    assert each[3] == 0.5  # The label does not occur.
    assert choose_thresholds(0.3, labels, logits) == 0.3
    truth, one = np.array([[1], [0], [0]]), np.log(np.array([[0.9], [0.2], [0.1]]) / [[0.1], [0.8], [0.9]])
    assert choose_thresholds("shared", truth, one) == 0.5
    # As few decimals as possible, between the probabilities of the rows.
    assert choose_thresholds("shared", truth, one - 3) == 0.2  # 0.31, 0.012 and 0.0055.
    assert choose_thresholds("shared", np.ones([3, 1]), one - 30) == 0.5  # Too close to 0 for a threshold.
    assert choose_thresholds("per_label", truth, np.zeros([3, 1])) == [0.5]
    # One and four labels have the same F1, 2/3; 0.5 predicts two.
    assert choose_thresholds("shared", [[1], [0], [0], [1]], logit([[0.9], [0.7], [0.3], [0.2]])) == 0.8


def test_threshold_flag():
    assert [parse_threshold(value) for value in ("0.5", "shared", "per_label")] == [0.5, "shared", "per_label"]
    for value in ("0", "1", "nan", "each"):
        with pytest.raises(ValueError, match=f"`threshold` must be shared, per_label, or a number .*={value}"):
            parse_threshold(value)
    assert threshold_text([0.25, 0.5], ["a", "b"]) == "a 0.25, b 0.5"
    assert threshold_text(0.3, ["a", "b"]) == "0.3"


def test_predictions():
    logits = np.array([[2.0, -1.0, 0.0, -3.0], [-1.0, -1.0, -1.0, -1.0]])
    lines = multi_label_table(predict(TASK, logits), TASK.labels, probabilities(logits))
    assert lines[0] == "labels\ta\tb\tc\td"
    assert lines[1].startswith("a|c\t0.8808\t0.2689\t0.5000\t")
    assert lines[2].startswith('""\t0.2689')
    assert same_prediction(TASK, logits) is None
    assert same_prediction(TASK, logits[:1]) == "a, c"
    assert same_prediction(TASK, logits, 0.9) == "no label"


def test_the_constant_prediction_with_the_highest_micro_f1():
    labels = [(0,), (0, 1), (0, 2), (1, 0), ()]
    scores = {
        ids: micro_f1(dense(labels, 3), dense([ids] * 5, 3))
        for ids in [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    }
    assert most_frequent(labels) == max(scores, key=scores.get)
    assert most_frequent([(), ()]) == ()


def test_folds_share_out_rare_labels():
    labels = [(0,)] * 20 + [(0, 1)] * 6 + [(1,)] * 6 + [(0, 2)] * 3 + [()] * 7
    examples = Examples([f"text {row}" for row in range(42)], None, labels, list(range(42)))
    folds = assign_folds(examples, 3, seed=1)
    counts = np.array([dense(labels, 3)[folds == fold].sum(0) for fold in (1, 2, 3)])
    assert (np.ptp(counts, 0) <= 1).all()
    assert np.bincount(folds)[1:].tolist() == [14, 14, 14]
