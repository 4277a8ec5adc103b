"""Vectors of queries and passages."""

from keras_bert.similarity import unit

SIMILARITIES = ("cosine", "dot")


def model_similarity(bert):
    """Returns the similarity function of a model, or raises an error if an index cannot search by it."""
    if bert.similarity_function not in SIMILARITIES:
        raise ValueError(
            f"the model compares vectors by {bert.similarity_function} distance, which an index does not. Expected "
            f"similarity={' or similarity='.join(SIMILARITIES)}"
        )
    return bert.similarity_function


def embed(bert, texts, batch_size: int, prompt: str, similarity: str):
    """Returns the vectors of texts, float32 `(texts, width)`; for the similarity "cosine" of length 1, or zeros.

    The prompt is put before each text; the other similarity is "dot".
    """
    vectors = bert.encode(texts, batch_size=batch_size, prompt=prompt)
    return unit(vectors) if similarity == "cosine" else vectors
