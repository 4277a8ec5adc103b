"""The task of rows and of texts with targets."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert.runs.task_choice import infer, infer_rows

CHOICES = {"text": "a", "choices": ["b", "c"]}


def test_a_first_tuple_of_no_labels():
    """Tuples are read as lists are."""
    for targets in ([(), ("x",)], [[], ["x"]]):
        assert infer(["a", "b"], targets).name == "multi_label"


@pytest.mark.parametrize(
    ("row", "targets", "name"),
    [
        ({"question": "a", "context": "b", "answers": "b"}, None, "questions"),
        ({"text": "a", "label": "x"}, None, "classification"),
        ({"text": "a", "stars": 2.5}, "stars", "regression"),
        ({"text": "a", "kind": "x"}, "kind", "classification"),
        (CHOICES, [1], "multiple_choice"),
    ],
)
def test_rows_are_of_the_task_with_the_most_columns(row, targets, name):
    assert infer_rows([row], targets).name == name


def test_a_missing_target():
    with pytest.raises(ValueError, match=r"targets\[1\] is missing. Expected a target for each text"):
        infer(["a", "b"], ["x", None])
