"""What makes the vectors of a model what they are: its weights, vocabulary and settings."""

import keras

from keras_bert.checkpoints.identity import model_identity
from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.heads.registry import head_named

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
