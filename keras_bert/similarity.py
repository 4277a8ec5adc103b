"""Similarity of vectors, with the functions that sentence-transformers knows, and the nearest vectors.

The nearest are found by inner product: exact, block by block, and the same for any size of the blocks.
"""

import numpy as np

_CHUNK = 2**24  # Differences of coordinates that are in memory at the same time.
FUNCTIONS = ("cosine", "dot", "euclidean", "manhattan")
_TOGETHER = 256  # Queries whose scores are in memory at once.
_ROWS = 256  # Rows whose conversion fits into the cache.
_SIGN_AND_VALUE = -0x70002000  # 0x8fffe000 as int32: the bits of a half, moved to their place in a float.
_REBIAS = np.float32(2.0**112)
_LARGEST = float(np.finfo("float16").max)


def check_function(name):
    """Raises for an unknown similarity function."""
    if name not in FUNCTIONS:
        raise ValueError(
            f"`similarity_function` must be one of {', '.join(FUNCTIONS)}. Received: similarity_function={name!r}"
        )


def similarity(first, second, function="cosine"):
    """Compares each vector with each other one.

    Args:
        first: vectors `(m, width)`.
        second: vectors `(n, width)`.
        function: str, "cosine" or "dot", or "euclidean" or "manhattan", the negative distance. Defaults to "cosine".

    Returns:
        float32 NumPy `(m, n)`; more similar vectors have higher values.
    """
    check_function(function)
    first, second = (np.asarray(vectors, "float32") for vectors in (first, second))
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"vectors must have the same width. Received: {first.shape[-1]} and {second.shape[-1]}")
    if function == "cosine":
        first, second = unit(first), unit(second)
    if function in ("cosine", "dot"):
        return first @ second.T
    order = 2 if function == "euclidean" else 1
    rows = max(1, _CHUNK // max(second.size, 1))
    parts = [
        -np.linalg.norm(first[start : start + rows, None] - second, order, axis=-1)
        for start in range(0, len(first), rows)
    ]
    return np.concatenate([np.zeros((0, len(second)), "float32"), *parts])


def unit(vectors):
    """Returns float32 vectors of length 1; zeros stay zeros."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


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
    start, buffer = 0, np.empty([0, 0], "float32")
    for block in blocks:
        if buffer.shape[0] < len(block):
            buffer = np.empty(block.shape, "float32")
        vectors = as_float32(block, buffer[: len(block)])
        # At least the length of each vector.
        longest = np.sqrt(vectors.shape[1]) * np.maximum(vectors.max(initial=0), -vectors.min(initial=0))
        if not longest < _LARGEST:  # Also of NaN.
            finite(block, f"the vectors from number {start:,}")
        for first in range(0, len(queries), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            # Twice the largest possible rounding error of a product in float32.
            slack = 2 * queries.shape[1] * np.finfo("float32").eps * longest * np.linalg.norm(queries[part], axis=-1)
            best[part] = _merged(queries[part], vectors, start, best[part], top, slack)
        start += len(vectors)
    count = min(top, start)
    numbers = np.array([found for found, _ in best], "int64").reshape(len(best), count)
    return numbers, np.array([scores for _, scores in best], "float32").reshape(len(best), count)


def as_float32(vectors, out=None):
    """Converts vectors to float32; NaN and infinity in float16 become numbers of at least 65,536.

    Args:
        vectors: array `(rows, width)`; float16 is converted three times as fast as by NumPy.
        out: float32 array `(rows, width)` for converted float16, since fresh memory takes as long as the conversion.
            Defaults to a new array.
    """
    if vectors.dtype != "float16":
        return np.asarray(vectors, "float32")
    out = np.empty(vectors.shape, "float32") if out is None else out
    for start in range(0, len(vectors), _ROWS):
        bits = vectors[start : start + _ROWS].view("int16").astype("int32") << 13  # Extends the sign to the left.
        np.multiply((bits & _SIGN_AND_VALUE).view("float32"), _REBIAS, out=out[start : start + _ROWS])
    return out


def finite(vectors, name):
    """Returns vectors, or raises an error if they contain NaN or infinity."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(-1))
    if len(bad):
        raise ValueError(f"{name} must be finite. Received: NaN or infinity in row {bad[0]:,}")
    return vectors


def exact_scores(query, vectors):
    """Returns the inner products of a query and vectors `(rows, width)` as float32, the same for any other rows."""
    return np.multiply(vectors, query, dtype="float64").sum(-1).astype("float32")


def best_first(numbers, scores, top):
    """Returns the `top` numbers and scores with the largest scores; equal scores by number."""
    order = np.lexsort([numbers, -scores])[:top]
    return numbers[order], scores[order]


def _merged(queries, vectors, start, best, top, slack):
    """Returns the best numbers and scores of each query after a block that starts at number `start`."""
    products, merged = queries @ vectors.T, list(best)
    least = np.array([scores[-1] if len(scores) == top else -np.inf for _, scores in best]) - slack
    for row in np.flatnonzero(products.max(-1, initial=-np.inf) >= least):
        numbers, scores = best[row]
        if len(numbers) < top < len(vectors):
            least[row] = np.partition(products[row], -top)[-top] - slack[row]
        found = np.flatnonzero(products[row] >= least[row])
        scores = np.concatenate([scores, exact_scores(queries[row], vectors[found])])
        merged[row] = best_first(np.concatenate([numbers, start + found]), scores, top)
    return merged
