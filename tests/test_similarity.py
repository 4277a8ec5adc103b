"""Similarity of vectors."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from keras_bert.similarity import paired, similarity, unit


def test_vectors_of_zeros_stay_zeros():
    np.testing.assert_array_equal(unit([[0.0, 0.0], [3.0, 4.0]]), np.float32([[0, 0], [0.6, 0.8]]))


@pytest.mark.parametrize(
    ("function", "metric"), [("cosine", "cosine"), ("euclidean", "euclidean"), ("manhattan", "cityblock")]
)
def test_pairs_and_all_are_compared_alike(function, metric):
    first, second = np.random.default_rng(0).normal(size=(2, 5, 3))
    expected = (metric == "cosine") - cdist(first, second, metric)
    np.testing.assert_allclose(similarity(first, second, function), expected, atol=1e-6)
    np.testing.assert_allclose(paired(first, second, function), np.diag(expected), atol=1e-6)
