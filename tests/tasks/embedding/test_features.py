"""Inputs of queries and passages."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")
from keras_bert.tasks.embedding import features
from keras_bert.text.preprocessor import TextPreprocessor

pytestmark = pytest.mark.tensorflow
A, B, CLS, SEP = 5, 6, 2, 3  # In `pieces`.


def test_absent_passages_have_no_tokens(pieces):
    inputs = features.tower_inputs(["a b", "b", "a b"], [["a"], ["b", "a b a", "a"], []], TextPreprocessor(pieces, 4))
    assert inputs["query_token_ids"].to_list() == [[CLS, A, B, SEP], [CLS, B, SEP], [CLS, A, B, SEP]]
    assert inputs["passage_token_ids"].to_list() == [
        [[CLS, A, SEP], [], []],
        [[CLS, B, SEP], [CLS, A, B, SEP], [CLS, A, SEP]],
        [[], [], []],
    ]
    assert inputs["passage_padding_mask"].to_list()[0] == [[1, 1, 1], [], []]
    ids = features.row_ids(["x", "y", "x"], [["a"], ["b", "a"], []])
    assert ids["query_ids"].tolist() == [0, 1, 0]
    assert ids["passage_ids"].tolist() == [[0, -1], [1, 0], [-1, -1]]


def test_each_distinct_passage_is_in_one_row():
    queries, passages = list("abcda"), [["p"], ["q"], ["p"], ["r"], ["q"]]
    arranged, rows, right, others, order = features.distinct_passages(queries, passages)
    assert (arranged, rows) == (list("abdca"), [["p"], ["q"], ["r"], [], []])
    assert others == {0: [1], 4: [0]}
    assert right.tolist() == [0, 1, 2, 0, 1]
    assert np.array(queries)[order].tolist() == arranged
