"""Attention masks by hand, and the tokens of packed rows."""

import numpy as np
import pytest

from keras_bert.layers.masks import AttentionMask, FirstTokens, PackedMask, attention_bias, take_positions
from tests.conftest import to_numpy

VECTORS = np.arange(12, dtype="float32").reshape(2, 3, 2)


def test_padding_is_not_attended_to():
    mask = to_numpy(AttentionMask()(np.array([[1, 1, 0]])))
    assert mask.tolist() == [[[[1, 1, 0]]]]


def test_a_causal_mask_has_no_right_context():
    mask = to_numpy(AttentionMask(causal=True)(np.array([[1, 1, 0]])))
    assert mask[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("causal", "expected"),
    [
        (False, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        (True, [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
    ],
)
def test_tokens_of_packed_rows_attend_to_their_own_text(causal, expected):
    mask = to_numpy(PackedMask(causal=causal)(np.array([[1, 1, 2, 0]])))
    assert mask[0, 0].tolist() == expected


def test_forbidden_scores_have_no_probability():
    assert to_numpy(attention_bias(np.array([True, False]))).tolist() == [0.0, -1e9]


def test_positions_are_those_of_each_row():
    taken = to_numpy(take_positions(VECTORS, np.array([[2, 0], [1, 1]], "int32")))
    assert taken.tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]


def test_first_tokens_are_sequences_of_one_token():
    first = to_numpy(FirstTokens()(VECTORS, np.array([[0, 2], [0, 0]], "int32")))
    assert first.tolist() == [[[0, 1]], [[4, 5]], [[6, 7]], [[6, 7]]]


@pytest.mark.tensorflow
@pytest.mark.parametrize("position", [3, -1])
def test_a_position_outside_its_row_reads_no_other_row(position):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        take_positions(VECTORS, tf.constant([[position], [0]]))
