"""Vectors of queries and passages."""

import numpy as np

SIMILARITIES = ("cosine", "dot")


def embed(bert, texts, batch_size, prompt, similarity):
    """Returns the vectors of texts, float32 `(texts, width)`; for "cosine" of length 1, or zeros.

    Args:
        bert: a `LoadedBert`.
        texts: list of strings.
        batch_size: int, see `LoadedBert.encode`.
        prompt: str, put before each text.
        similarity: str, "cosine" or "dot".
    """
    vectors = bert.encode(texts, batch_size, prompt=prompt)
    return unit(vectors) if similarity == "cosine" else vectors


def unit(vectors):
    """Scales vectors `(rows, width)` to length 1; vectors of zeros remain zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
