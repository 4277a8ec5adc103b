"""What a row means to a task: targets of rows, rows that are converted for the head, and errors that name a row."""

import pytest

from keras_bert.data.sources import PythonRows
from keras_bert.tasks.rows import RowFormat, first_known, not_registered


class ReplyRows(RowFormat):
    """Rows with `turns`, of which the head reads a text."""

    expects = "dicts with turns and intents"
    columns = ({"turns"}, {"first", "second"})
    target_columns = ("intent", "label")
    inputs = ("text", "pair")

    def convert(self, place, row, settings):
        return {"text": settings.join(row["turns"])}


ROWS = ReplyRows()


@pytest.mark.parametrize(
    ("targets", "first"),
    [
        ([None, [], (), "a", "b"], "a"),
        ([0, 1], 0),
        ([None], None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_target_that_is_known(targets, first):
    assert first_known(targets) == first


def test_a_task_that_is_not_registered():
    error = not_registered("grades", "model/1")
    assert "'grades' of model/1 is not registered" in str(error)
    assert "makes the texts of the rows" in str(error)
    assert "markers, ending" in str(not_registered("grades", "model/1", {"markers": "@", "ending": "."}))


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ({"turns": []}, True),
        ({"first": "a", "second": "b", "id": 1}, True),
        ({"first": "a"}, False),
        ("turns", False),
    ],
)
def test_rows_are_recognized_by_their_columns(text, is_known):
    assert ROWS.recognizes(text, None) == is_known


def test_a_target_of_python_takes_the_place_of_those_of_the_row():
    row = {"turns": ["a"], "intent": "x", "label": "y"}
    assert ROWS.row("texts[0]", row, "z") == {"turns": ["a"], "intent": "z"}
    assert ROWS.without_targets(row) == {"turns": ["a"]}
    with pytest.raises(ValueError, match=r"texts\[0\] must be a dict"):
        ROWS.row("texts[0]", "a", "z")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("mine", {"turns": ["a"], "intent": "z"}),
        ("label", {"turns": ["a"], "mine": "z", "label": "y"}),
        ("intent", {"turns": ["a"], "mine": "z", "intent": "x"}),
    ],
)
def test_a_column_that_the_user_names_has_the_target(column, expected):
    row = {"turns": ["a"], "intent": "x", "label": "y", "mine": "z"}
    assert ROWS.with_named_target(row, column) == expected


def test_rows_are_read_as_they_are_without_a_conversion():
    source = PythonRows("texts", [{"turns": ["a"]}])
    assert RowFormat().converted(source, " ") is source


def values_of(*rows):
    """Returns converted rows, and raises the error of the first one that has any."""
    converted = ROWS.converted(PythonRows("texts", list(rows)), " ")
    values = []
    for _, value in converted.values:
        if isinstance(value, ValueError):
            raise value
        values.append(value)
    return values


def test_a_converted_row_keeps_its_target():
    (row,) = values_of({"turns": ["a", "b"], "label": "x", "id": 7})
    assert row == {"text": "a b", "label": "x"}


def test_a_row_without_a_target_is_refused():
    with pytest.raises(ValueError, match=r"texts\[1\]: no column `intent`"):
        values_of({"turns": ["a"], "intent": "x"}, {"turns": ["a"]})


def test_an_error_of_a_conversion_names_the_row():
    with pytest.raises(ValueError, match=r"^texts\[0\]: `convert` must take such a row.*KeyError: 'turns'"):
        values_of({"words": ["a"]})


def test_an_error_that_names_the_row_stays(monkeypatch):
    def convert(self, place, row, settings):
        raise ValueError(f"{place}: two turns are needed")

    monkeypatch.setattr(ReplyRows, "convert", convert)
    with pytest.raises(ValueError, match=r"^texts\[0\]: two turns are needed$"):
        values_of({"turns": ["a"]})


@pytest.mark.parametrize("converted", ["a b", None, {"text": "a", "context": "b"}])
def test_a_conversion_returns_what_the_head_reads(monkeypatch, converted):
    monkeypatch.setattr(ReplyRows, "convert", lambda *arguments: converted)
    with pytest.raises(ValueError, match="`convert` must return a dict of text and pair"):
        ROWS.as_read("texts[0]", {"turns": ["a"]}, " ")


@pytest.mark.parametrize(
    ("converted", "expected"),
    [
        ({"text": "a"}, "a"),
        ({"text": "a", "pair": None}, "a"),
        ({"text": "a", "pair": "b"}, ("a", "b")),
        ({"question": "a", "context": "b"}, {"question": "a", "context": "b"}),
    ],
)
def test_what_is_asked_has_the_form_of_predict(monkeypatch, converted, expected):
    monkeypatch.setattr(ReplyRows, "convert", lambda *arguments: converted)
    monkeypatch.setattr(ReplyRows, "inputs", ())
    assert ROWS.asked("texts[0]", {"turns": ["a"], "intent": "x"}, None) == expected


def test_the_conversion_does_not_see_targets():
    with pytest.raises(ValueError, match="KeyError: 'intent'"):
        TellingRows().asked("texts[0]", {"turns": ["a"], "intent": "x"}, None)


class TellingRows(ReplyRows):
    """Rows whose text is their target."""

    def convert(self, place, row, settings):
        return {"text": row["intent"]}


def test_no_labeled_data_by_default():
    assert ROWS.labeled("grades", "model/1", {}, "a.jsonl") is None
