"""Boundaries of lengths, against brute force."""

import itertools

import numpy as np
import pytest

from keras_bert.data.boundaries import best_boundaries, fit_boundaries, used_boundaries

LENGTHS = np.random.default_rng(0).geometric(0.1, 230)


def padded_sum(lengths, boundaries):
    """Returns the number of tokens if each row is padded to the next boundary."""
    places = np.searchsorted(boundaries, lengths)
    return int(np.take(boundaries, places).sum())


def least_sum(lengths, count):
    """Returns the least number of tokens with at most `count` boundaries, by trying all."""
    *sizes, longest = np.unique(lengths)
    best = np.inf
    for others in range(count):
        for boundaries in itertools.combinations(sizes, others):
            best = min(best, padded_sum(lengths, [*boundaries, longest]))
    return best


@pytest.mark.parametrize("count", range(1, 8))
def test_boundaries_are_optimal(count):
    rng = np.random.default_rng(count)
    for _ in range(5):
        lengths = rng.choice(np.arange(1, 40), 7)[rng.integers(0, 7, 50)]
        found = fit_boundaries(lengths, count)
        assert len(found) <= count
        assert padded_sum(lengths, found) == least_sum(lengths, count)


@pytest.mark.parametrize("ratio", [1.1, 1.15, 1.5])
def test_fewest_boundaries_for_a_ratio(ratio):
    found = fit_boundaries(LENGTHS, 12, ratio)
    assert padded_sum(LENGTHS, found) <= ratio * LENGTHS.sum()
    assert padded_sum(LENGTHS, fit_boundaries(LENGTHS, len(found) - 1)) > ratio * LENGTHS.sum()


def test_the_count_comes_before_the_ratio():
    assert len(fit_boundaries(LENGTHS, 2, 1.01)) == 2


def test_boundaries_by_hand():
    """Boundaries 1 and 9 compute 1 + 1 + 9 + 9 tokens for 1 + 1 + 8 + 9."""
    assert fit_boundaries([1, 9, 8, 1], ratio=20 / 19) == [1, 9]
    assert fit_boundaries([1, 9, 8, 1]) == [1, 8, 9]
    assert list(best_boundaries(np.array([1, 9, 8, 1]), 3)) == [([9], 36), ([1, 9], 20), ([1, 8, 9], 19)]


def test_empty_rows_have_a_boundary_of_at_least_one():
    assert fit_boundaries([0, 0, 3]) == [1, 3]


def test_boundaries_above_the_longest_row_are_not_used():
    assert used_boundaries([2, 4, 8, 16], np.array([1, 5])) == [2, 4, 8]


@pytest.mark.parametrize("boundaries", [[4, 4], [5, 3], [0, 4], [2.5], [], 4])
def test_boundaries_must_increase(boundaries):
    with pytest.raises(ValueError, match="`boundaries` must be increasing integers of at least 1. Received: boundar"):
        used_boundaries(boundaries, np.array([2]))


def test_boundaries_must_reach_the_longest_row():
    with pytest.raises(ValueError, match="`boundaries` must reach the longest row, row 1 of length 7. Received: "):
        used_boundaries([2, 6], np.array([2, 7, 7]))
