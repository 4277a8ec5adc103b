"""What makes the vectors of a model what they are: its weights, vocabulary and settings."""

import dataclasses
import hashlib
import json

import keras

from keras_bert.checkpoints.loaded import LoadedBert

# Metadata that has no influence on vectors.
_WITHOUT_INFLUENCE = {
    "head",
    "vocabulary",
    "labels",
    "multi_label",
    "task",
    "pair",
    "null_threshold",
    "thresholds",
    "features",
    "tied",
    "similarity_function",
}
_HASHES = {"weights": "the weights", "vocabulary": "the vocabulary", "source": "the passages"}


def model_facts(bert):
    """Returns a dict of what the vectors of `bert.encode` depend on, to be stored as JSON, without defaults."""
    if not isinstance(bert, LoadedBert):
        raise ValueError(f"an index needs a BERT that `keras_bert.load` returns. Received: {bert!r:.100}")
    fields = [field for field in dataclasses.fields(bert.metadata) if field.name not in _WITHOUT_INFLUENCE]
    settings = {field.name: getattr(bert.metadata, field.name) for field in fields}
    defaults = {field.name: field.default for field in fields}
    model = bert.model() if bert.head == "embedding" else bert.encoder
    facts = {
        "weights": _weights_hash(model),
        "vocabulary": bert.vocabulary and bert.vocabulary.sha256,
        "strip_accents": bert.strip_accents,
        **{name: value for name, value in settings.items() if value != defaults[name]},
    }
    return json.loads(json.dumps(facts))  # As it is read back: tuples are lists.


def differences(first, second):
    """Returns which values of two dicts differ, as texts; hashes are not shown."""
    found = []
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        if one != other:
            found.append(_HASHES.get(name) or f"`{name}`, {one!r} instead of {other!r}")
    return found


def _weights_hash(model):
    found = hashlib.sha256()
    for weight in model.weights:
        array = keras.ops.convert_to_numpy(keras.ops.cast(weight.value, "float32"))
        found.update(f"{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]
