"""Facts that identify a model: its weights, vocabulary and settings, as JSON values.

Indexes and runs store these facts, and continue only with the same model.
"""

import dataclasses
import hashlib
import json

from keras_bert.files import add_array

_HASHES = {"weights": "the weights", "vocabulary": "the vocabulary", "source": "the passages", "content": "the content"}
_NAMED = ("pieces", "strip_accents")  # Settings of a vocabulary that have facts of their own.


def model_identity(metadata, config, arrays):
    """Returns a dict of what training from a model depends on, without defaults; `arrays` are its weights."""
    vocabulary, digest = metadata.vocabulary, hashlib.sha256()
    tokenizer = vocabulary.get_config() if vocabulary else []  # A list is that of the pieces alone.
    tokenizer = tokenizer if isinstance(tokenizer, dict) else {}
    for array in arrays:
        add_array(digest, array.astype("float32", copy=False))
    facts = {
        "weights": digest.hexdigest()[:16],
        "vocabulary": vocabulary and vocabulary.sha256,
        "strip_accents": metadata.strip_accents,
        "tokenizer": {name: value for name, value in tokenizer.items() if name not in _NAMED},
        "config": _changed(config),
        **_changed(metadata.replace(vocabulary=None)),
    }
    return json.loads(json.dumps(facts))  # As they are read back: tuples are lists.


def differences(first, second):
    """Returns which values of two dicts differ, as texts; hashes are not shown."""
    differing = []
    for name in dict.fromkeys([*first, *second]):
        value, other = first.get(name), second.get(name)
        if value == other:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            differing += differences(value, other)
        else:
            values = (repr(facts[name]) if name in facts else "its default" for facts in (first, second))
            differing.append(_HASHES.get(name) or f"`{name}`, {' instead of '.join(values)}")
    return differing


def _changed(settings):
    """Returns the fields of a dataclass that do not have their default."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    return {name: value for name, value in dataclasses.asdict(settings).items() if value != defaults[name]}
