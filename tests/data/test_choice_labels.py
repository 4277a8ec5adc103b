"""How labels name the right choice: letters, or numbers from 0 or 1."""

import pytest

from keras_bert.data.choice_labels import SeenLabel, described_keys, find_numbering, index_of, is_key, key_names
from keras_bert.data.choice_layouts import Layout
from keras_bert.data.sources import PythonRows

LAYOUT = Layout("question", ["A", "B"], "key")
ROWS = PythonRows("texts", [{"question": "a", "A": "b", "B": "c", "key": "A"}])


def numbering(*labels, first=None):
    """Returns the numbering of labels, each with the number of the last choice of its row."""
    seen = [SeenLabel(line, label, last) for line, (label, last) in enumerate(labels)]
    return find_numbering(ROWS, LAYOUT, seen, first)


@pytest.mark.parametrize(
    ("labels", "has_letters", "first", "first_key"),
    [
        ([("0", 3), ("2", 3)], False, 0, "0"),
        ([("3", 3), ("1", 3)], False, 1, "1"),
        ([("C", 3), (2, 2)], True, 1, "A"),
        ([("b", 3)], True, None, "A"),
        ([("0", 3), ("7", 3)], False, 0, "0"),  # No choice has the second label, which is reported later.
        ([], False, None, "A"),
    ],
)
def test_numbering(labels, has_letters, first, first_key):
    found = numbering(*labels)
    assert found.has_letters == has_letters
    assert found.first == first
    assert found.first_key == first_key


def test_the_number_of_the_first_choice_may_be_given():
    assert numbering(("0", 3), ("3", 3), first=1).first == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("0", 3), ("3", 3)], r"texts\[1\].*`key` is numbered from 1 here, .* but from 0 in .* 0. .*`first_label=0`"),
        ([("1", 3), ("2", 3)], r"texts\[0\].*`key` has neither 0 nor the number of the last choice"),
    ],
)
def test_numbers_that_do_not_say_where_they_start(labels, message):
    with pytest.raises(ValueError, match=message):
        numbering(*labels)


@pytest.mark.parametrize(
    ("label", "index"),
    [("A", 0), (" c ", 2), ("1", 0), (2, 1), (True, None), ("x1", None), (None, None), (1.0, None)],
)
def test_the_index_of_a_label(label, index):
    assert index_of(label, 1) == index
    assert is_key(label) == (index is not None)


def test_numbers_from_0():
    assert index_of("1", 0) == 1
    assert index_of("1", None) == 1


def test_names_of_choices():
    assert key_names("A", 3) == ["A", "B", "C"]
    assert key_names("0", 3) == ["0", "1", "2"]
    assert key_names("1", 2) == ["1", "2"]
    assert key_names("A", 27)[-1] == "27"  # There are not as many letters.
    assert described_keys(None, 3) == "A to C, 0 to 2 or 1 to 3"
    assert described_keys(1, 2) == "A to B or 1 to 2"
