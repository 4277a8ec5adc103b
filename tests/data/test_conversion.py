"""Rows of a source, converted: unreadable ones are errors, unless some may be skipped."""

import pytest

from keras_bert.data.conversion import convert_rows, converted, readable
from keras_bert.data.sources import PythonRows

ROWS = [{"number": "3"}, {"number": "x"}, {"number": "5"}, {"number": "y"}]
SOURCE = PythonRows("texts", ROWS)


def to_number(place, row):
    if not row["number"].isdecimal():
        raise ValueError(f"{place}: no number")
    return int(row["number"])


def test_each_row_has_its_line_and_its_number():
    """The number counts from 0, also where rows are skipped."""
    found, skipped = convert_rows(SOURCE, SOURCE.rows(["number"]), to_number, skip_bad_rows=2)
    assert skipped == 2
    assert [row.result for row in found] == [3, 5]
    assert [row.number for row in found] == [0, 2]
    lines = [line for line, _ in SOURCE.rows(["number"])]
    assert [row.line for row in found] == [lines[0], lines[2]]


def test_rows_that_are_skipped_are_told(caplog):
    assert len(converted(SOURCE, SOURCE.rows(["number"]), to_number, skip_bad_rows=9)) == 2
    assert caplog.messages == ["texts: skipped 2 unreadable row(s). The first: texts[1]: no number"]


def test_the_first_bad_row_is_an_error():
    with pytest.raises(ValueError, match=r"texts\[1\]: no number$"):
        converted(SOURCE, SOURCE.rows(["number"]), to_number)


def test_more_bad_rows_than_may_be_skipped():
    message = r"texts\[1\]: no number. 2 of 4 row\(s\) are unreadable. Fix the file, or .* `skip_bad_rows=2`"
    with pytest.raises(ValueError, match=message):
        converted(SOURCE, SOURCE.rows(["number"]), to_number, skip_bad_rows=1)


def test_no_row_can_be_read():
    """Probably a wrong column or another format: the first error is raised, whatever may be skipped."""
    bad = PythonRows("texts", [{"number": "x"}, {"number": "y"}])
    with pytest.raises(ValueError, match=r"texts\[0\]: no number$"):
        converted(bad, bad.rows(["number"]), to_number, skip_bad_rows=9)


def test_a_source_without_rows():
    with pytest.raises(ValueError, match="texts: no rows"):
        converted(SOURCE, [], to_number)


def test_rows_that_the_source_could_not_read():
    rows = [(0, {"number": "3"}), (1, ValueError("texts[1]: damaged"))]
    with pytest.raises(ValueError, match="damaged"):
        converted(SOURCE, rows, to_number)
    assert len(converted(SOURCE, rows, to_number, skip_bad_rows=1)) == 1


def test_only_rows_that_are_readable():
    assert list(readable(SOURCE, [(7, ROWS[0]), (8, ROWS[1]), (9, ROWS[2])], to_number)) == [(7, 3), (9, 5)]
