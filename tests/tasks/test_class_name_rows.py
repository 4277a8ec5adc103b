"""Names of classes as rows: their weights, the loss on held-out rows against scikit-learn, and names that are none."""

import types

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("tensorflow")

from keras_bert.tasks.class_name_rows import HeadRows, held_out_loss, name_inputs, name_rows
from keras_bert.tasks.linear_head import PENALTY

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def rows():
    """Ten rows of two classes, each with a weight."""
    rng = np.random.default_rng(3)
    classes = np.arange(10) % 2
    vectors = rng.normal(size=(10, 4)) + classes[:, None]
    return HeadRows(vectors.astype("float32"), classes, np.linspace(0.5, 2, 10))


@pytest.fixture
def names():
    return name_rows(np.array([[0.2, 0.1, 0, 0], [1, 1, 1, 0.5]], "float32"))


def logistic_regression(vectors, classes, weights):
    scale = ((vectors - vectors.mean(0)) ** 2).sum(1).mean()
    head = LogisticRegression(C=1 / (PENALTY * scale), solver="newton-cholesky", tol=1e-10)
    return head.fit(vectors.astype("float64"), classes, sample_weight=weights)


def test_a_name_weighs_as_much_as_four_texts():
    vectors = np.eye(3)
    found = name_rows(vectors)
    assert found.classes.tolist() == [0, 1, 2]
    assert found.weights.tolist() == [4, 4, 4]
    assert name_rows(vectors, [1, 0.5, 2]).weights.tolist() == [4, 2, 8]


def test_rows_are_taken_and_joined(rows, names):
    some = rows.take([3, 1])
    joined = some.joined(names)
    assert joined.classes.tolist() == [1, 1, 0, 1]
    np.testing.assert_array_equal(joined.vectors, np.concatenate([rows.vectors[[3, 1]], names.vectors]))
    np.testing.assert_array_equal(joined.weights, [rows.weights[3], rows.weights[1], 4, 4])


def test_the_loss_is_that_of_the_true_classes(rows):
    head = rows.fit(2)
    other = logistic_regression(rows.vectors, rows.classes, rows.weights)
    logs = other.predict_log_proba(rows.vectors)
    expected = 0.0
    for row, label in enumerate(rows.classes):
        expected -= rows.weights[row] * logs[row, label]
    assert rows.loss(head) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("tries_names", [False, True])
def test_held_out_rows_are_in_four_folds_of_each_class(rows, names, tries_names):
    """The rows of class 0 are 0, 2, 4, 6, 8: the first and the last one are in the same fold."""
    folds = np.array([0, 0, 1, 1, 2, 2, 3, 3, 0, 0])
    expected = 0.0
    for fold in range(4):
        known = rows.take(folds != fold)
        if tries_names:
            known = known.joined(names)
        held = rows.take(folds == fold)
        head = logistic_regression(known.vectors, known.classes, known.weights)
        logs = head.predict_log_proba(held.vectors)
        of_class = logs[np.arange(len(held.classes)), held.classes]
        expected -= (held.weights * of_class).sum() / rows.weights.sum()
    found = held_out_loss(rows, 2, names if tries_names else None)
    assert found == pytest.approx(expected, rel=1e-3)


def task(labels=("good", "bad"), targets=(0, 1), columns=1):
    """Returns what is asked of a task."""
    examples = types.SimpleNamespace(columns=[["a"]] * columns)
    split = types.SimpleNamespace(targets=np.array(targets), examples=examples)
    return types.SimpleNamespace(labels=labels, splits={"train": [split]})


@pytest.mark.parametrize(
    "other",
    [
        task(labels=None),  # Numbers.
        task(targets=[[0, 1], [1, 1]]),  # Sets of labels.
        task(labels=("1", "2.5")),  # The names are no texts.
        task(columns=2),  # Pairs.
        task(targets=[0, 1] * 65),  # More than 64 rows of a class.
    ],
)
def test_names_that_are_no_texts_like_those_of_the_task(other):
    assert name_inputs(other) is None
