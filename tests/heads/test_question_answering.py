"""Question answering: how many spans are compared, and the answer of a text."""

import types

import numpy as np
import pytest

from keras_bert.heads.question_answering import QuestionAnswering


@pytest.mark.parametrize(("n_best", "spans"), [(None, 20), (3, 20), (30, 30)])
def test_at_least_twenty_spans_share_the_probability(n_best, spans):
    bert = types.SimpleNamespace(null_threshold=-1.5)
    assert QuestionAnswering().defaults(bert, n_best) == {"n_best": spans, "null_threshold": -1.5}


def test_spans_are_in_characters():
    """Two spans of equal scores; `é` has two bytes."""
    output = {
        "start": 3,
        "end": 5,
        "probability": 0.5,
        "scores": np.array([1.0, 1.0]),
        "starts": np.array([3, 0]),
        "ends": np.array([5, 2]),
    }
    row = {"question": "q", "context": "é ab"}
    best = {"answer": "ab", "score": 0.5, "start": 2, "end": 4}
    second = {"answer": "é", "score": 0.5, "start": 0, "end": 1}
    assert QuestionAnswering.answer(output, row, None) == best
    assert QuestionAnswering.answer(output, row, 1) == best | {"answers": [best]}
    assert QuestionAnswering.answer(output, row, 2) == best | {"answers": [best, second]}


def test_no_answer():
    output = {"start": -1, "end": -1, "probability": 1.0, "score": -1e30, "null_score": 2.0}
    found = QuestionAnswering.answer(output, {"question": "q", "context": "a"}, None)
    assert found == {"answer": "", "score": 1.0, "start": -1, "end": -1, "null_score": 1.0}
