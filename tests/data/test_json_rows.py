"""Rows of JSON: one in each line, a list, an object, and what cannot be read."""

import pytest

from keras_bert.data.formats import source
from keras_bert.data.json_rows import JsonLines
from tests.tasks.files import write


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"a": 1}\n\n{"a": 2}\n', [(1, {"a": 1}), (3, {"a": 2})]),
        ("a.json", '[{"a": 1}, {"a": 2}]', [(1, {"a": 1}), (2, {"a": 2})]),
        ("a.json", '{"version": "1", "data": [{"a": 1}]}', [(1, {"a": 1})]),
        ("a.json", '{\r\n"a": 1}\n', [(1, {"a": 1})]),
        ("a.jsonl", '{"a": "\\ud800b"}', [(1, {"a": "?b"})]),
        ("a.json", '[{"a": ["\\ud800", 2]}]', [(1, {"a": ["?", 2]})]),
    ],
)
def test_rows(tmp_path, name, content, expected):
    assert source(write(tmp_path / name, content)).rows(["a"]) == expected


def test_lone_surrogates_may_stay(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"a": "\\ud800b"}')
    assert list(JsonLines(path, replace_surrogates=False).stream()) == [(1, {"a": "\ud800b"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", "a.json: JSON that cannot be read: Expecting value"),
        ("a.json", '{"a": 1', "a.json: JSON that cannot be read: Expecting ',' delimiter"),
        ("a.json", "[" * 100_000, "a.json: JSON that cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message) as error:
        source(write(tmp_path / name, content)).rows(["a"])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "3", "a.json:1: expected one JSON object per line. Received: 3"),
        ("a.jsonl", '{"a": 1\n', "a.jsonl:1: not JSON: Expecting ',' delimiter at column 8"),
        ("a.json", '{"a": 1}\n{"a":', "a.json:2: not JSON: Expecting value at column 6"),
        ("a.jsonl", '{"a": 1}\n[]\n', "a.jsonl:2: expected one JSON object per line"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path, name, content, message):
    """The error takes the place of the row."""
    rows = source(write(tmp_path / name, content)).rows(["a"])
    (error,) = [row for _, row in rows if isinstance(row, ValueError)]
    with pytest.raises(ValueError, match=message):
        raise error
    assert "\n" not in str(error)
