"""The nearest vectors against a sort of all scores in float64."""

import numpy as np
import pytest

from keras_bert.similarity import as_float32, nearest


def reference(queries, vectors, top):
    """Sorts all scores, by number if they are equal in float32."""
    scores = (queries.astype("float64") @ vectors.astype("float64").T).astype("float32")
    numbers = np.array([sorted(range(len(vectors)), key=lambda n: (-row[n], n))[:top] for row in scores])
    return numbers, np.take_along_axis(scores, numbers, 1)


@pytest.mark.parametrize("size", [1, 7, 64, 120])
@pytest.mark.parametrize("top", [1, 10, 200])
def test_results_do_not_depend_on_the_blocks(size, top):
    """Half of the vectors occur several times; more queries than are computed together."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((120, 24)).astype("float16")
    vectors[60:] = vectors[rng.integers(0, 20, 60)]
    queries = rng.standard_normal((260, 24)).astype("float32")
    blocks = (vectors[start : start + size] for start in range(0, 120, size))
    numbers, scores = nearest(queries, blocks, top)
    expected, expected_scores = reference(queries, vectors, top)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)
    assert scores.dtype == np.float32


def test_equal_vectors_are_in_order():
    """Rounding in matrix products depends on the position of a row; equal vectors have equal scores anyway."""
    rng = np.random.default_rng(1)
    vectors = np.repeat(rng.standard_normal((1, 383)), 1001, 0).astype("float32")
    numbers, scores = nearest(rng.standard_normal((3, 383)), [vectors[:500], vectors[500:]], 700)
    np.testing.assert_array_equal(numbers, np.tile(np.arange(700), (3, 1)))
    assert (scores == scores[:, :1]).all()


def test_zero_vectors_and_no_queries():
    numbers, scores = nearest(np.zeros((1, 4)), [np.zeros((3, 4))], 2)
    assert (numbers.tolist(), scores.tolist()) == ([[0, 1]], [[0, 0]])
    assert nearest(np.zeros((0, 4)), [np.zeros((3, 4))], 2)[0].shape == (0, 2)


def test_all_finite_halves_are_converted():
    halves = np.arange(2**16, dtype="uint16").view("float16")
    halves = halves[np.isfinite(halves)].reshape(-1, 8)
    np.testing.assert_array_equal(as_float32(halves).view("int32"), halves.astype("float32").view("int32"))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value, dtype):
    vectors = np.ones((5, 2), dtype)
    vectors[3, 1] = value
    with pytest.raises(ValueError, match="the vectors from number 4 must be finite. Received: .* in row 3"):
        nearest(np.ones((1, 2)), [np.ones((4, 2)), vectors], 1)
    with pytest.raises(ValueError, match="`queries` must be finite"):
        nearest(vectors, [np.ones((4, 2))], 1)
