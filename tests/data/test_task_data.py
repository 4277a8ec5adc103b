"""Rows of a task: some of them, splits of them, and what recognizes changed data."""

import dataclasses

import numpy as np
import pytest

from keras_bert.data.task_data import Rows, TaskData


@dataclasses.dataclass(frozen=True)
class Texts(Rows):
    """Texts with or without labels, and their lines."""

    text: list
    labels: list | None
    lines: np.ndarray

    content = ("text", "labels")
    places = ("lines",)


@dataclasses.dataclass(frozen=True)
class Data(TaskData):
    """Data to train on, and to evaluate on."""

    train: Texts
    dev: Texts | None = None


@pytest.fixture
def rows():
    return Texts(["a", "b", "c", "d"], [0, 1, 0, 1], np.array([2, 3, 5, 7]))


def test_some_rows_in_their_order(rows):
    some = rows.at([2, 0])
    assert some.text == ["c", "a"]
    assert some.labels == [0, 0]
    assert some.lines.tolist() == [5, 2]
    assert len(some) == 2


def test_rows_without_labels(rows):
    unlabeled = dataclasses.replace(rows, labels=None)
    assert unlabeled.at([1]).labels is None
    assert unlabeled.at([1]).text == ["b"]


def test_the_first_rows(rows):
    assert rows.first(2).text == ["a", "b"]
    assert rows.first(9).text == rows.text
    assert rows.first(None) is rows
    with pytest.raises(ValueError, match="`count` must be at least 1. Received: count=0"):
        rows.first(0)


def test_a_fingerprint_is_that_of_the_content(rows):
    """The places of rows do not matter, their order does."""
    moved = dataclasses.replace(rows, lines=np.array([1, 2, 3, 4]))
    assert moved.fingerprint() == rows.fingerprint()
    assert rows.at([1, 0, 2, 3]).fingerprint() != rows.fingerprint()
    assert rows.first(3).fingerprint() != rows.fingerprint()


def test_rows_are_in_folds_by_their_texts(rows):
    assert rows.groups() == rows.text
    assert rows.strata() is None


def test_parts_of_the_rows_to_train_on(rows):
    parted = Data(rows).parted([0, 3], [1])
    assert parted.train.text == ["a", "d"]
    assert parted.dev.text == ["b"]
    assert Data(rows).on_train().dev is rows
    assert Data(rows).divided is rows
    assert Data(rows).first(1).train.text == ["a"]


def test_a_share_of_the_rows_becomes_dev(rows):
    split = Data(rows).split(0.5, seed=1)
    assert sorted(split.train.text + split.dev.text) == rows.text
    assert len(split.dev) == 2
