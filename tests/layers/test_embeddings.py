"""Embeddings of tokens and positions."""

import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy


def test_an_id_outside_a_quantized_table_does_not_wrap():
    table = layers.TokenEmbedding(7, 8)
    table.build()
    table.quantize("int8")
    last = numpy(table(np.array([6])))
    # An error on CPU, NaN in JAX, but never the last row.
    with pytest.raises(Exception, match=r"not in \[0, 7\)|out of range|not equal"):
        np.testing.assert_array_equal(numpy(table(np.array([-1]))), last, "not equal")


def test_positions_are_counted_from_padding():
    """As `create_position_ids_from_input_ids` of transformers, in each text of a row of several ones."""
    ids = np.array([[7, 8, 1, 9, 1, 1], [7, 1, 8, 9, 5, 1]])
    count = layers.PositionIds(padding_id=1, max_length=6)
    assert numpy(count(ids)).tolist() == [[2, 3, 1, 4, 1, 1], [2, 1, 3, 4, 5, 1]]
    packed = np.array([[0, 1, 2, 3, 0, 0], [0, 1, 2, 0, 1, 0]])
    assert numpy(count(ids, position_ids=packed)).tolist() == [[2, 3, 1, 4, 1, 1], [2, 1, 3, 2, 3, 1]]
    with pytest.raises(ValueError, match="Received: length=7"):
        count(np.ones((1, 7), "int32"))


def test_one_segment_needs_no_ids():
    embed = layers.BertEmbeddings(hidden_size=6, max_length=5, num_segments=1)
    tokens = np.ones((1, 3, 6), "float32")
    first = embed(tokens, np.full((1, 3), 0))
    second = embed(tokens, np.full((1, 3), 1))
    np.testing.assert_array_equal(numpy(first), numpy(second))
