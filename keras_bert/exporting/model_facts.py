"""The facts of an exported model, which `export` writes: what it answers, and all that its answers depend on."""

import dataclasses
import importlib.metadata
import json
from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import OTHER_SETTINGS
from keras_bert.files import MODEL_FACTS, difference, fingerprint, json_text, read_object
from keras_bert.text.long_texts import READING
from keras_bert.text.preprocessor import TextPreprocessor
from keras_bert.text.tokenizer_options import VOCABULARY_OPTIONS
from keras_bert.version import __version__

# Facts of which each makes another model, and so does another order of the labels: all that answers depend on, but for
# weights and the options of an export. An export of an earlier version lacks the last ones.
_MODEL = ("head", "multi_label", "labels", "pair", "vocabulary", "config", "lowercase", "tokenizer", "graph")
_NOT_OF_GRAPH = ("multi_label", "sequence_length")  # Options of heads that are a fact of their own, or of an export.
# Settings of training, on which no answer depends.
_TRAINING = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "initializer_range")


@dataclasses.dataclass(frozen=True)
class AnsweringParts:
    """What the answers of an export depend on, besides the weights.

    Attributes:
        description: `describe` of the model.
        preprocessor: what makes token ids of texts.
        labels: list of the class names, `None` for a model without classes.
        pair: bool, whether a classifier takes two texts.
        options: dict of the options of the head.
    """

    description: Any
    preprocessor: Any
    labels: list | None
    pair: bool
    options: dict


def model_facts(parts, *, example=None, score_range=None, columns=None, task=None):
    """Returns model metadata for JSON, of `AnsweringParts`; for the other arguments see `export`."""
    description = parts.description
    preprocessor = parts.preprocessor
    vocabulary = preprocessor.vocabulary
    return {
        "head": description.head,
        "multi_label": description.multi_label,
        "labels": parts.labels,
        "pair": parts.pair,
        "options": {name: _as_dict(value) for name, value in parts.options.items()},
        "example": example,
        "range": score_range,
        "columns": columns,
        "task": task,
        "sequence_length": getattr(preprocessor, "sequence_length", description.config.max_position_embeddings),
        "precision": description.dtype,
        "lowercase": preprocessor.lowercase,
        "vocabulary": {"pieces": len(vocabulary), "sha256": vocabulary.sha256},
        "tokenizer": _tokenizer_facts(preprocessor),
        "config": description.config.to_huggingface(),
        "graph": _graph_facts(description),
        "versions": {
            "keras_bert": __version__,
            "keras": keras.__version__,
            "tensorflow": tf.__version__,
            "tensorflow-text": importlib.metadata.version("tensorflow-text"),
        },
    }


def _as_dict(option):
    """Returns an option of the head for JSON: a dataclass, such as `ZeroShot`, as a dict."""
    return dataclasses.asdict(option) if dataclasses.is_dataclass(option) else option


def _tokenizer_facts(preprocessor):
    """Returns the settings of a preprocessor that ids depend on, without defaults, besides casing and length."""
    settings = _vocabulary_facts(preprocessor.vocabulary)
    config = {}
    if isinstance(preprocessor, TextPreprocessor):
        config = preprocessor.get_config()
    strip_accents = settings.pop("strip_accents", None)
    if config.get("strip_accents") is not None:
        strip_accents = config["strip_accents"]
    if strip_accents not in (None, preprocessor.lowercase):
        settings["strip_accents"] = strip_accents
    if config.get("keep_special_tokens"):
        settings["keep_special_tokens"] = sorted(config["keep_special_tokens"])
    if config.get("truncation", "longest_first") != "longest_first":
        settings["truncation"] = config["truncation"]
    for name in READING:
        if config.get(name) is not None:
            settings[name] = config[name]
    return settings


def _vocabulary_facts(vocabulary):
    """Returns the settings of a vocabulary besides its pieces; of large ones, such as merges, the fingerprint."""
    config = vocabulary.get_config()
    if not isinstance(config, dict):  # Pieces alone.
        return {}
    settings = dict(config)
    settings.pop("pieces", None)
    for option in VOCABULARY_OPTIONS:
        if option.is_large and option.name in settings:
            settings[option.name] = fingerprint(settings[option.name])
    return settings


def _graph_facts(description):
    """Returns what the graph of a model depends on besides `config.json`, without defaults."""
    graph = {}
    for name, default in OTHER_SETTINGS.items():
        value = getattr(description.config, name, default)
        if value != default:
            graph[name] = value
    for name, default in (("causal", False), ("positions", "learned")):
        value = getattr(description, name, default)
        if value != default:
            graph[name] = value
    options = getattr(description, "options", None) or {}
    graph["head"] = {name: value for name, value in options.items() if name not in _NOT_OF_GRAPH}
    return graph


def check_same_export(directory, facts):
    """Raises an error if a folder has a SavedModel of another model than that of these facts.

    It may have other weights, and its export other options, such as `sequence_length` and `thresholds`.
    """
    if not (directory / "saved_model.pb").is_file():
        return
    path = directory / MODEL_FACTS
    differs = "not one of `export`"
    if path.is_file():
        before = _facts_of_model(read_object(path))
        now = json.loads(facts_text(_facts_of_model(facts)))
        # An earlier version of this package stored fewer facts; what is inside of one is compared as it is.
        known_before = {name: value for name, value in now.items() if name in before}
        differs = difference(before, known_before)
    if differs:
        raise ValueError(
            f"the folder has the SavedModel of another model: {differs:.200}. Expected another folder, such as the "
            f"next version, or `overwrite=True`. Received: directory={str(directory)!r}"
        )


def _facts_of_model(facts):
    """Returns those of the facts of an export that make another model."""
    chosen = {name: facts[name] for name in _MODEL if name in facts}
    config = facts.get("config", {})
    chosen["config"] = {name: value for name, value in config.items() if name not in _TRAINING}
    return chosen


def facts_text(facts, indent=None):
    """Returns facts as JSON; an option may be a scalar or an array of NumPy."""
    return json_text(facts, indent=indent, default=lambda value: value.tolist())
