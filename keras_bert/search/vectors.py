"""Vectors of queries and passages."""

from keras_bert.tasks.retrieval.ranking import unit

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
