"""Embeddings of tokens and positions."""

import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy


def test_an_id_outside_a_quantized_table_does_not_wrap():
    table = layers.TokenEmbedding(7, 8)
    table.build()
    table.quantize("int8")
    # An error on CPU, NaN in JAX, but never the last row.
    with pytest.raises(Exception, match=r"not in \[0, 7\)|out of range|not equal"):
        np.testing.assert_array_equal(numpy(table(np.array([-1]))), numpy(table(np.array([6]))), "not equal")


def test_sinusoid_positions_follow_the_paper():
    expected = [[f(pos / 10000 ** (2 * i / 6)) for i in range(3) for f in (np.sin, np.cos)] for pos in range(50)]
    bert = layers.BertEmbeddings(hidden_size=6, max_length=50, positions="sinusoid")
    np.testing.assert_allclose(numpy(bert.fixed_positions()), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(layers.ScaledEmbeddings(6, 50).table()), expected, atol=1e-5)
