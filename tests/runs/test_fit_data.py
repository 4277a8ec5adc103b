"""The data of `fit`: which rows are trained on, and which are held out."""

import json
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.data.in_memory import column_names
from keras_bert.runs import fit_data
from keras_bert.runs.fit_data import read_data, read_intermediate
from keras_bert.runs.run import Run

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
    found = {row["text"]: row["label"] for row in parts[0] + parts[1]}
    assert found == dict(zip(TEXTS, CLASSES, strict=True))


def test_a_share_of_rows_is_held_out_with_its_targets():
    rows = [{"question": "a", "context": f"b c{number}"} for number in range(6)]
    data = read_data(rows, ["b"] * 6, None, None, 0.5, 1)
    together = [*data.train.values, *data.dev.values]
    assert [row["answers"] for _, row in together] == ["b"] * 6


def test_both_validation_and_a_share():
    with pytest.raises(ValueError, match="`validation` and `validation_split` exclude each other. Received: both"):
        read(validation=(TEXTS, CLASSES), split=0.5)


def test_intermediate_data():
    pair = (TEXTS, CLASSES)
    assert read_intermediate(None) == read_intermediate(()) == read_intermediate([]) == []
    (single,) = read_intermediate(pair)
    (listed,) = read_intermediate([pair])
    assert rows_of(single.train) == rows_of(listed.train)


NLI = {"premise": ["a", "a", "b", "b"], "hypothesis": ["c", "d", "e", "f"], "label": ["x", "y", "x", "y"]}


AUTHORS = {"text": ["a", "b", "c", "d"], "author": [1, 1, 2, 2], "label": ["x", "y", "x", "y"]}


CONTEXTS = {"question": ["a", "b"], "context": ["c d", "c d"], "answers": ["c", "d"]}


@pytest.mark.parametrize("kind", ["frame", "table", "dicts"])
@pytest.mark.parametrize(
    ("columns", "targets", "groups", "kept"),
    [
        (NLI, "label", "premise", {"premise", "hypothesis", "label"}),
        (AUTHORS, "label", "author", {"text", "label"}),
        (AUTHORS, "label", "text", {"text", "author", "label"}),
        (AUTHORS, "label", "label", {"text", "author", "label"}),
        (CONTEXTS, None, "context", {"question", "context", "answers"}),
        ({"review": ["a", "b"], "label": ["x", "y"]}, "label", "review", {"review", "label"}),
        ({"text": ["a", "b"], "score": [1, 2], "label": ["x", "y"]}, "label", "score", {"text", "label"}),
    ],
)
def test_columns_of_groups_stay_texts_by_their_names(kind, columns, targets, groups, kept):
    """Others are left out."""
    if kind == "frame":
        texts = pytest.importorskip("pandas").DataFrame(columns)
    elif kind == "table":
        texts = pytest.importorskip("pyarrow").table(columns)
    else:
        texts = iter([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    found, values = fit_data.without_groups(texts, groups, targets)
    assert set(column_names(found)) == kept
    assert values == columns[groups]
    if groups == "premise":
        data = fit_data.read_data(found, targets, None, None, None, 1)
        assert {len(row) for _, row in data.train.values} == {3}
        assert data.task.name == "classification"


def as_series(values, **options):
    pandas = pytest.importorskip("pandas")
    return pandas.Series(values, **options)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: list(np.array([1, 1, 2])), [1, 1, 2]),
        (lambda: (name for name in "aab"), ["a", "a", "b"]),
        (lambda: np.array([b"a", b"b"]), ["a", "b"]),
        (lambda: [True, 2.5, ("a", 1), "\ud800"], [True, "2.5", "('a', 1)", "?"]),
        (lambda: np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), ["2020-01-01", "2020-01-02"]),
        (lambda: as_series(["2020-01-01"], dtype="datetime64[ns]"), ["2020-01-01 00:00:00"]),
        (lambda: as_series([1, 2], dtype="Int64", index=[7, 3]), [1, 2]),
        (lambda: as_series([3, None], dtype="Int64"), "`groups[1]` is missing. Expected a group for each text"),
        (lambda: ["a", "b", "c", float("nan")], "`groups[3]` is missing. Expected a group for each text"),
        (lambda: [None], "`groups[0]` is missing."),
        (lambda: np.array(["NaT"], "datetime64[D]"), "`groups[0]` is missing."),
        (lambda: [[1], [2]], "`groups[0]` must be one value, such as a string or an integer. Received: [1]"),
        (lambda: [1, {"a": 1}], "`groups[1]` must be one value, such as a string or an integer. Received: {'a': 1}"),
        (lambda: np.ones([2, 2]), "`groups` must be a list with a value for each text, or the name of a column of"),
        (lambda: np.array(1), "`groups` must be a list with a value for each text, or the name of a column of"),
        (lambda: 3, "`groups` must be a list with a value for each text, or the name of a column of `texts`. Rec"),
        (lambda: {"a"}, "`groups` must be a list with a value for each text, or the name of a column of `texts`. Rec"),
        (lambda: {"a": 1}, "`groups` must be a list with a value for each text, or the name of a column of `texts`. R"),
    ],
)
def test_values_of_groups(make, expected):
    """They are those that the settings of a run keep as JSON."""
    if isinstance(expected, list):
        _, found = fit_data.without_groups([], make())
        assert (found, list(map(type, found))) == (expected, list(map(type, expected)))
        assert json.loads(json.dumps(found)) == expected
        return
    with pytest.raises(ValueError) as error:
        fit_data.without_groups([], make())
    assert str(error.value).startswith(expected)


@pytest.mark.tensorflow
def test_columns_of_frames(start, caplog):
    """Columns that are read as pairs are named."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": ["b c", "d"], "b": ["e", "f g"], "class_name": ["x", "y"]})
    other = frame[["class_name", "b", "a"]]
    data = fit_data.read_data(frame, "class_name", None, other, None, 1)
    assert data.columns == {"columns": {"text": "a", "pair": "b"}}
    assert fit_data.read_data(["a", "b"], ["x", "y"], None, None, None, 1).columns == {"columns": None}
    rows = [{"text": "b c", "pair": "e", "label": "x"}, {"text": "d", "pair": "f g", "label": "y"}]
    assert [row for _, row in data.train.values] == [row for _, row in data.dev.values] == rows
    with pytest.raises(ValueError, match=r"`validation` must have the columns of `texts`, 'a', 'b', .*: 'c', 'b'"):
        fit_data.read_data(frame, "class_name", None, other.rename(columns={"class_name": "c"}), None, 1)
    with pytest.raises(ValueError, match=r"two columns without targets. .* fit\(frame, 'class_name'\), or task="):
        fit_data.read_data(frame[["a", "class_name"]], None, None, None, None, 1)
    with pytest.raises(ValueError, match="the column 'class_name' of `texts` has the targets. Expected texts, or fit"):
        fit_data.read_data(frame[["a", "class_name"]], ["x", "y"], None, None, None, 1)
    assert fit_data.read_data(frame[["a", "b"]], None, "embedding", None, None, 1).task.name == "embedding"
    bert = keras_bert.load(start)
    caplog.set_level("INFO", "keras_bert")
    with mock.patch.object(Run, "train", side_effect=SystemExit), pytest.raises(SystemExit):
        bert.fit(frame, "class_name", verbose=False)
    assert "  texts: pairs of the columns 'a' and 'b'" in caplog.messages
