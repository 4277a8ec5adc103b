"""The lengths that rows are padded to: the few boundaries with the least padding."""

import numpy as np

MOST_BOUNDARIES = 12


def fit_boundaries(lengths, count: int = MOST_BOUNDARIES, ratio: float = 1.0):
    """Returns the boundaries with the fewest computed tokens, if each row is padded to the next boundary.

    There are at most `count`, and no more than needed for `ratio` computed tokens per real one. They increase; the last
    one fits the longest row.
    """
    most_tokens = ratio * np.sum(lengths)
    best = list(best_boundaries(np.asarray(lengths), count))
    for boundaries, computed in best:
        if computed <= most_tokens:
            return boundaries
    finest, _ = best[-1]
    return finest


def best_boundaries(lengths, count):
    """Yields the best 1, 2, ... boundaries with their number of computed tokens, by dynamic programming."""
    rows = np.bincount(np.maximum(lengths, 1).astype(np.int64))
    sizes = np.flatnonzero(rows)
    below = np.concatenate([[0], np.cumsum(rows[sizes])])
    # cost[i, j]: tokens of the rows in sizes[i:j], padded to the largest of these. best[j]: minimum for sizes[:j].
    cost = np.full((len(below), len(below)), np.inf)
    cost[:, 1:] = sizes * (below[1:] - below[:, None])
    cost[np.tril_indices_from(cost)] = np.inf
    best = np.full(len(below), np.inf)
    best[0] = 0.0
    origins = []
    for _ in range(min(count, len(sizes))):
        total = best[:, None] + cost
        origins.append(total.argmin(axis=0))
        best = total.min(axis=0)
        yield _traced_back(sizes, origins), best[-1]


def _traced_back(sizes, origins):
    """Returns the boundaries of the best solution, from the last one back to the first."""
    boundaries = []
    end = len(sizes)
    for origin in reversed(origins):
        boundaries.append(int(sizes[end - 1]))
        end = origin[end]
    return boundaries[::-1]


def used_boundaries(boundaries, lengths):
    """Returns the boundaries up to the one that fits the longest row."""
    boundaries = np.asarray(boundaries)
    are_integers = boundaries.ndim == 1 and boundaries.dtype.kind in "iu"
    if not are_integers or (np.diff(boundaries, prepend=0) <= 0).any():
        raise ValueError(
            f"`boundaries` must be increasing integers of at least 1. Received: boundaries={boundaries.tolist()}"
        )
    row = lengths.argmax()
    if lengths[row] > boundaries[-1]:
        raise ValueError(
            f"`boundaries` must reach the longest row, row {row} of length {lengths[row]}. "
            f"Received: boundaries={boundaries.tolist()}"
        )
    count = np.searchsorted(boundaries, lengths[row]) + 1
    return boundaries[:count].tolist()
