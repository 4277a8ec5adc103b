"""Questions with choices: cells of choices, labels by letters and numbers, and texts to answer.

Whole files of data sets, and their summaries, are in tests/tasks/multiple_choice.
"""

import pytest

from keras_bert.data.choices import read, stream_asked, with_columns
from keras_bert.data.sources import PythonRows


def rows(*values):
    return PythonRows("texts", list(values))


def question(**values):
    return {"text": "q", "choices": ["x", "y", "z"], "label": "B"} | values


@pytest.mark.parametrize(
    ("cell", "label", "choices", "index"),
    [
        (["x", " y ", "z"], "B", ["x", "y", "z"], 1),
        (["x", None, "z"], "C", ["x", "", "z"], 2),
        ({"text": ["x", "y"], "label": ["1", "2"]}, 2, ["x", "y"], 1),
        ([{"text": "x", "label": "b"}, {"text": "y", "label": "a"}], "a", ["x", "y"], 1),
    ],
)
def test_cells_of_choices(cell, label, choices, index):
    """A list of texts, or texts with names; `null` is absent."""
    found = read(rows(question(choices=cell, label=label)))
    assert found.choices == [choices]
    assert found.labels == [index]
    assert found.counts() == [len(choices) - choices.count("")]


def test_a_question_begins_each_choice_that_is_there():
    found = read(rows({"context": "c", "question": "why?", "A": "x", "B": "", "C": "z", "label": "C"}))
    assert found.text == ["c"]
    assert found.choices == [["why? x", "", "why? z"]]


def test_questions_with_choices_inside():
    """As in the files of ARC."""
    stem = {"stem": "q", "choices": [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]}
    found = read(rows({"id": "1", "question": stem, "answerKey": "B"}))
    assert found.text == ["q"]
    assert found.choices == [["x", "y"]]
    assert found.labels == [1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"label": "D"}, "`label` must be A to C, .* Received: 'D'"),
        ({"label": "C", "choices": ["x", "y", ""]}, "`label` names an empty choice. Received: 'C'"),
        ({"text": " "}, "`text` is empty"),
        ({"text": 3}, "`text` must be a string. Received: 3"),
        ({"choices": "x y"}, "`choices` must be a list of strings. Received: 'x y'"),
        ({"choices": ["x", 2]}, r"`choices\[1\]` must be a string. Received: 2"),
        ({"choices": ["x", ""]}, "expected at least 2 choices, got 1"),
        ({"choices": {"text": ["x", "y"], "label": ["1"]}}, "`choices` must have a different `label` for each `text`"),
        ({"choices": {"text": ["x", "y"], "label": ["1", 1]}}, "choices"),
    ],
)
def test_mistakes_of_a_row(values, message):
    with pytest.raises(ValueError, match=rf"texts\[0\]: .*{message}"):
        read(rows(question(**values)))


def test_labels_of_test_data_are_hidden():
    """They are read if they are required, or if a row has one."""
    hidden = rows(question(label=-1), question(label=""))
    assert read(hidden, labeled=False).labels is None
    with pytest.raises(ValueError, match="label"):
        read(hidden)
    assert read(rows(question(), question()), labeled=False).labels == [1, 1]
    assert read(rows(question(), question()), labeled=None).labels is None


def test_texts_to_answer():
    """Each row, and what is asked; labels do not matter."""
    given = question(label="none of them")
    assert list(stream_asked(rows(given))) == [(given, {"text": "q", "choices": ["x", "y", "z"]})]
    with pytest.raises(ValueError, match=r"texts\[1\]: `text` is empty"):
        list(stream_asked(rows(question(), question(text=""))))


def test_texts_with_the_columns_of_a_data_set():
    given = {"sent1": "s", "sent2": "t", "ending0": "x", "ending1": "y"}
    expected = {"text": "s", "choices": ["t x", "t y"]}
    assert with_columns(given) == expected
    assert with_columns([given]) == [expected]


def test_texts_with_the_columns_that_a_model_was_trained_on():
    given = [{"body": "b", "good": "x", "bad": "y"}]
    known = {"text": "body", "choices": ["good", "bad"]}
    assert with_columns(given, known) == [{"text": "b", "choices": ["x", "y"]}]
    assert with_columns(given, {"text": "other"}) is given
    asked = [{"text": "q", "choices": ["x", "y"]}]
    assert with_columns(asked, known) is asked
