"""The nearest vectors by inner product: exact, block by block, and the same for any size of the blocks."""

import numpy as np

_TOGETHER = 256  # Queries whose scores are in memory at once.


def nearest(queries, blocks, top):
    """Returns the vectors with the largest inner products with each query.

    Matrix products select candidates; their scores are then summed in float64, row by row, since the rounding of a
    matrix product depends on its shape. Equal scores are ordered by number.

    Args:
        queries: array `(queries, width)`.
        blocks: iterable of arrays `(rows, width)`, the vectors in order. Only one is in memory at a time.
        top: int, number of vectors per query.

    Returns:
        Integer array of vector numbers and float32 array of scores, `(queries, top)`, best first; with fewer columns if
        there are fewer vectors.
    """
    queries = finite(np.asarray(queries, "float32"), "`queries`")
    best = [(np.zeros(0, "int64"), np.zeros(0, "float32"))] * len(queries)
    start = 0
    for block in blocks:
        vectors = finite(np.asarray(block, "float32"), f"the vectors from number {start:,}")
        for first in range(0, len(queries), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            best[part] = _merged(queries[part], vectors, start, best[part], top)
        start += len(vectors)
    count = min(top, start)
    numbers = np.array([found for found, _ in best], "int64").reshape(len(best), count)
    return numbers, np.array([scores for _, scores in best], "float32").reshape(len(best), count)


def finite(vectors, name):
    """Returns vectors, or raises an error if they contain NaN or infinity."""
    if not np.isfinite(vectors.sum(dtype="float64")) and not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(-1))[0])
        raise ValueError(f"{name} must be finite. Received: NaN or infinity in row {row:,}")
    return vectors


def exact_scores(query, vectors):
    """Returns the inner products of a query and vectors `(rows, width)` as float32, the same for any other rows."""
    return np.multiply(vectors, query, dtype="float64").sum(-1).astype("float32")


def best_first(numbers, scores, top):
    """Returns the `top` numbers and scores with the largest scores; equal scores by number."""
    order = np.lexsort([numbers, -scores])[:top]
    return numbers[order], scores[order]


def _merged(queries, vectors, start, best, top):
    """Returns the best numbers and scores of each query after a block that starts at number `start`."""
    products = queries @ vectors.T
    # Twice the largest possible rounding error of a product in float32.
    longest = np.linalg.norm(vectors, axis=-1).max(initial=0.0)
    slack = 2 * vectors.shape[-1] * np.finfo("float32").eps * longest * np.linalg.norm(queries, axis=-1)
    merged = []
    for query, row, margin, (numbers, scores) in zip(queries, products, slack, best, strict=True):
        least = scores[-1] if len(numbers) == top else _largest(row, top)
        found = np.flatnonzero(row >= least - margin)
        if len(found):
            scores = np.concatenate([scores, exact_scores(query, vectors[found])])
            numbers, scores = best_first(np.concatenate([numbers, start + found]), scores, top)
        merged.append((numbers, scores))
    return merged


def _largest(row, top):
    """Returns the value number `top` in descending order, or minus infinity if there are not more values."""
    return np.partition(row, -top)[-top] if len(row) > top else -np.inf
