"""The data of `fit`: which rows are trained on, and which are held out."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert.runs.fit_data import read_data, read_intermediate

TEXTS = ["a", "b", "c", "d"]
CLASSES = ["x", "y", "x", "y"]


def read(validation=None, split=None):
    return read_data(TEXTS, CLASSES, task=None, validation=validation, split=split, seed=1)


def rows_of(source):
    return [row for _, row in source.values]


def test_without_validation():
    data = read()
    assert data.dev is data.train
    assert not data.held_out


def test_the_same_rows_as_validation_are_held_out():
    data = read(validation=(TEXTS, CLASSES))
    assert data.held_out
    assert rows_of(data.dev) == rows_of(data.train)


def test_a_share_of_texts():
    data = read(split=0.5)
    parts = rows_of(data.train), rows_of(data.dev)
    assert [len(part) for part in parts] == [2, 2]
    found = {row["text"]: row["label"] for part in parts for row in part}
    assert found == dict(zip(TEXTS, CLASSES, strict=True))


def test_a_share_of_rows_is_held_out_with_its_targets():
    rows = [{"question": "a", "context": f"b c{number}"} for number in range(6)]
    data = read_data(rows, ["b"] * 6, None, None, 0.5, 1)
    assert [row["answers"] for part in (data.train, data.dev) for _, row in part.values] == ["b"] * 6


def test_both_validation_and_a_share():
    with pytest.raises(ValueError, match="`validation` and `validation_split` exclude each other. Received: both"):
        read(validation=(TEXTS, CLASSES), split=0.5)


def test_intermediate_data():
    pair = (TEXTS, CLASSES)
    assert read_intermediate(None) == read_intermediate(()) == read_intermediate([]) == []
    (single,) = read_intermediate(pair)
    (listed,) = read_intermediate([pair])
    assert rows_of(single.train) == rows_of(listed.train)
