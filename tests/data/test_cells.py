"""Values of rows by column, and how messages call them."""

import math

import pytest

from keras_bert.data.cells import all_problems, cell, finite_number, missing, text_cell


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("texts[7]", "texts[7]: `label`"),
        ("texts", "texts: `label`"),
        ("dev texts[7]", "dev texts[7]: `label`"),
        ("dev.csv:7", "dev.csv:7: column `label`"),
    ],
)
def test_data_in_python_have_no_columns(place, expected):
    assert cell(place, "label") == expected


def test_texts():
    assert text_cell("a.csv:2", {"text": " a "}, "text") == " a "
    with pytest.raises(ValueError, match=r"a.csv:2: column `text` must be a string. Received: 3$"):
        text_cell("a.csv:2", {"text": 3}, "text")
    with pytest.raises(ValueError, match="Received: None. Leave out or fill missing values"):
        text_cell("a.csv:2", {"text": None}, "text")
    with pytest.raises(ValueError, match="a.csv:2: column `text` is empty"):
        text_cell("a.csv:2", {"text": " \n"}, "text")
    assert missing(0) == ""


@pytest.mark.parametrize(("value", "expected"), [("0.5", 0.5), ("1e3", 1000), (2, 2), (True, 1), ("-1", -1)])
def test_numbers(value, expected):
    assert finite_number("a.csv:2", "score", value) == expected


@pytest.mark.parametrize("value", ["high", "1_000", "nan", "inf", None, [], 10**400, math.nan])
def test_what_is_no_finite_number(value):
    with pytest.raises(ValueError, match="a.csv:2: column `score` must be a finite number. Received: "):
        finite_number("a.csv:2", "score", value)


def test_all_problems_of_a_row_name_its_place_once():
    def read_text(place, record):
        return text_cell(place, record, "text")

    def read_score(place, record):
        return finite_number(place, "score", record["score"])

    error = all_problems("a.csv:2", {"text": "", "score": "x"}, [read_text, read_score])
    assert str(error) == "a.csv:2: column `text` is empty; column `score` must be a finite number. Received: 'x'"
