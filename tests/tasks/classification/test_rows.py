"""Texts and pairs with classes, sets of labels or numbers: which task they are, their rows, scores of a SavedModel."""

import json

import numpy as np
import pytest

from keras_bert.data.sources import PythonRows
from keras_bert.tasks.classification.rows import LabelSetRows, NumberRows, TextRows
from keras_bert.tasks.classification.settings import ClassificationSettings
from tests.tasks.files import write

CLASSES = TextRows()
NUMBERS = NumberRows()
SETS = LabelSetRows()


@pytest.mark.parametrize(
    ("text", "targets", "rows"),
    [
        ("a", ["x", "y"], CLASSES),
        ("a", [None, 3], CLASSES),
        (("a", "b"), [1, 0], CLASSES),
        ("a", [1, 0.5], NUMBERS),
        (("a", "b"), [0.5, None], NUMBERS),
        ("a", [["x"], ["x", "y"]], SETS),
        ("a", [[], [1, 2]], SETS),
        (["a", "b"], ["x", "y"], None),
        ("a", None, None),
    ],
)
def test_texts_and_targets_are_recognized(text, targets, rows):
    known = [each for each in (SETS, NUMBERS, CLASSES) if each.recognizes(text, targets)]
    assert known[:1] == ([] if rows is None else [rows])


@pytest.mark.parametrize(
    ("rows", "targets", "advice"),
    [
        (NUMBERS, [1.0, 0.0], "task='regression'"),
        (SETS, [[1.0, 0.0], [0.0, 1.0]], r"targets.argmax\(-1\)"),
        (SETS, [["x"], ["y"]], "task='multi_label'"),
    ],
)
def test_targets_that_may_be_something_else_are_refused(rows, targets, advice):
    with pytest.raises(ValueError, match=advice):
        rows.recognizes("a", targets)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a", {"text": "a", "label": "x"}),
        (("a", "b"), {"text": "a", "pair": "b", "label": "x"}),
        ({"text": "a", "label": "y", "id": 1}, {"text": "a", "id": 1, "label": "x"}),
    ],
)
def test_a_row_of_python(text, row):
    assert CLASSES.row("texts[0]", text, "x") == row


@pytest.mark.parametrize("text", [("a", "b", "c"), 7, None])
def test_texts_that_are_refused(text):
    with pytest.raises(ValueError, match=r"texts\[4\] must be a string, or a tuple of two"):
        CLASSES.row("texts[4]", text, "x")


def test_pairs_with_classes_are_read():
    rows = PythonRows("texts", [{"text": "a", "pair": "b", "label": "y"}, {"text": "c", "pair": "d", "label": "x"}])
    data = CLASSES.read(rows, rows, ClassificationSettings(), name="own")
    assert data.task.labels == ("x", "y")
    assert data.train.pair == ["b", "d"]
    assert data.train.labels == [1, 0]
    assert data.dev["own"] is data.train


def test_classes_of_a_model_keep_their_order():
    rows = PythonRows("texts", [{"text": "a", "label": "y"}])
    data = CLASSES.read(rows, rows, ClassificationSettings(), labels=["z", "y"])
    assert data.task.labels == ("z", "y")
    assert data.train.labels == [1]


def test_lists_of_zeros_and_ones_are_no_label_sets():
    rows = PythonRows("texts", [{"text": "a", "label": [0, 1]}, {"text": "b", "label": [1, 1]}])
    with pytest.raises(ValueError, match=r"np.array\(targets\)"):
        SETS.read(rows, rows, ClassificationSettings())


def facts(labels, **changes):
    """Returns what `export` stores about a classifier."""
    stored = {"head": "classification", "labels": labels, "multi_label": False, "pair": False}
    return stored | changes


@pytest.fixture
def labeled_file(tmp_path):
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}, {"text": "c", "label": "y"}]
    return write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))


def test_labeled_classes(labeled_file):
    found = CLASSES.labeled("own", "model/1", facts(["y", "x"]), labeled_file)
    assert found.inputs == {"text": ["a", "b", "c"]}
    assert found.examples.labels == [1, 0, 0]
    assert found.spec.labels == ("y", "x")
    assert found.predictions({"probabilities": np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1]])}) == [1, 1, 0]
    scores = found.score([1, 1, 0])
    assert scores["accuracy"] == pytest.approx(200 / 3)


def test_labeled_numbers(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,1\nb,2.5\nc,4\n")
    found = NUMBERS.labeled("own", "model/1", facts(None), path)
    assert found.predictions({"value": np.array([1.5, 2.0, 9.0])}) == [1.5, 2.0, 9.0]
    assert found.score([1.5, 2.0, 9.0])["spearman"] == pytest.approx(100)


def test_labeled_label_sets(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,x|y\nb,y\nc,\n")
    found = SETS.labeled("own", "model/1", facts(["x", "y"], multi_label=True), path)
    assert found.predictions({"predicted": np.array([[1, 1], [0, 1], [0, 0]])}) == [[1, 1], [0, 1], [0, 0]]
    assert found.score([[1, 1], [0, 1], [0, 0]])["exact_match"] == 100
    assert found.score([[1, 1], [1, 1], [0, 0]])["exact_match"] == pytest.approx(200 / 3)


@pytest.mark.parametrize("rows", [NUMBERS, SETS])
def test_data_of_another_kind_of_labels(labeled_file, rows):
    assert rows.labeled("own", "model/1", facts(["x", "y"]), labeled_file) is None


def test_a_model_of_pairs_needs_pairs(labeled_file):
    with pytest.raises(ValueError, match="model/1 takes pairs"):
        CLASSES.labeled("own", "model/1", facts(["x", "y"], pair=True), labeled_file)


def test_labels_of_an_official_task(tmp_path):
    path = write(tmp_path / "dev.tsv", "sentence\tlabel\na\t1\n")
    found = CLASSES.labeled("own", "model/1", facts(["negative", "positive"]), path.parent, task="sst2")
    assert found.examples.labels == [1]
    with pytest.raises(ValueError, match="model/1 must have the labels of sst2"):
        CLASSES.labeled("own", "model/1", facts(["no", "yes"]), path.parent, task="sst2")
