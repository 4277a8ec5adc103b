"""Boundaries against brute force."""

import itertools

import numpy as np
import pytest

from keras_bert.training.boundaries import fit_boundaries

LENGTHS = np.random.default_rng(0).geometric(0.1, 230)


def padded_sum(lengths, boundaries):
    return sum(min(boundary for boundary in boundaries if boundary >= length) for length in lengths)


@pytest.mark.parametrize("count", range(1, 8))
def test_boundaries_are_optimal(count):
    rng = np.random.default_rng(count)
    for _ in range(5):
        lengths = rng.choice(np.arange(1, 40), 7)[rng.integers(0, 7, 50)]
        sizes = np.unique(lengths)
        sets = itertools.chain.from_iterable(itertools.combinations(sizes, size) for size in range(1, count + 1))
        best = min(padded_sum(lengths, boundaries) for boundaries in sets if boundaries[-1] == sizes[-1])
        found = fit_boundaries(lengths, count)
        assert len(found) <= count
        assert padded_sum(lengths, found) == best


def test_fewest_boundaries_for_a_ratio():
    for ratio in (1.1, 1.15, 1.5):
        found = fit_boundaries(LENGTHS, 12, ratio)
        assert padded_sum(LENGTHS, found) <= ratio * LENGTHS.sum()
        assert padded_sum(LENGTHS, fit_boundaries(LENGTHS, len(found) - 1)) > ratio * LENGTHS.sum()
    assert len(fit_boundaries(LENGTHS, 2, 1.01)) == 2
    # Boundaries {1, 9} compute 1 + 1 + 9 + 9 tokens for 1 + 1 + 8 + 9.
    assert fit_boundaries([1, 9, 8, 1], ratio=20 / 19) == [1, 9]
    assert fit_boundaries([1, 9, 8, 1]) == [1, 8, 9]
