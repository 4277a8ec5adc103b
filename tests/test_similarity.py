"""Similarity of vectors."""

import numpy as np

from keras_bert.similarity import unit


def test_vectors_of_zeros_stay_zeros():
    np.testing.assert_array_equal(unit([[0.0, 0.0], [3.0, 4.0]]), np.float32([[0, 0], [0.6, 0.8]]))
