"""Similarity of vectors, with the functions that sentence-transformers knows."""

import numpy as np

from keras_bert.checks import check_choice

_CHUNK = 2**24  # Differences of coordinates that are in memory at the same time.
FUNCTIONS = ("cosine", "dot", "euclidean", "manhattan")


def check_function(name):
    """Raises for an unknown similarity function."""
    check_choice("similarity_function", name, FUNCTIONS)


def similarity(first, second, function="cosine"):
    """Compares each vector `(m, width)` with each `(n, width)`: float32 `(m, n)`, higher for more similar ones.

    `function` is "cosine" or "dot", or "euclidean" or "manhattan", the negative distance.
    """
    check_function(function)
    first = np.asarray(first, "float32")
    second = np.asarray(second, "float32")
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"vectors must have the same width. Received: {first.shape[-1]} and {second.shape[-1]}")
    if function == "dot":
        return first @ second.T
    if function == "cosine":
        return unit(first) @ unit(second).T
    compared = [np.zeros((0, len(second)), "float32")]
    rows = max(1, _CHUNK // max(second.size, 1))
    for start in range(0, len(first), rows):
        compared.append(paired(first[start : start + rows, None], second, function))
    return np.concatenate(compared)


def paired(first, second, function):
    """Compares vectors `(..., width)` one to one, see `similarity`."""
    if function == "dot":
        return np.einsum("...d,...d->...", first, second)
    if function == "cosine":
        return np.einsum("...d,...d->...", unit(first), unit(second))
    order = 2 if function == "euclidean" else 1
    return -np.linalg.norm(first - second, order, axis=-1)


def unit(vectors):
    """Returns float32 vectors of length 1; zeros stay zeros."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
