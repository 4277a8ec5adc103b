"""Vectors of queries and passages, and what they depend on."""

import keras

from keras_bert.bert import LoadedBert
from keras_bert.checkpoints.identity import model_identity
from keras_bert.heads.registry import head_named
from keras_bert.similarity import unit

SIMILARITIES = ("cosine", "dot")
# Metadata that has no influence on vectors.
_WITHOUT_INFLUENCE = {
    "head",
    "labels",
    "multi_label",
    "score_activation",
    "task",
    "pair",
    "null_threshold",
    "thresholds",
    "features",
    "tied",
    "similarity_function",
}


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


def model_facts(bert):
    """Returns a dict of what the vectors of `bert.encode` depend on, to be stored as JSON, without defaults."""
    if not isinstance(bert, LoadedBert):
        raise ValueError(f"an index needs a BERT that `keras_bert.load` returns. Received: {bert!r:.100}")
    model = bert.model() if head_named(bert.head).embeds else bert.encoder
    # A pooler that the checkpoint lacks is random.
    weights = [weight for weight in model.weights if bert.has_pooler or "pooler/" not in weight.path]
    arrays = (keras.ops.convert_to_numpy(keras.ops.cast(weight.value, "float32")) for weight in weights)
    facts = model_identity(bert.metadata, bert.config, arrays)
    return {name: value for name, value in facts.items() if name not in _WITHOUT_INFLUENCE}
