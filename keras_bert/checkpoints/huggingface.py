"""Hugging Face's format: `config.json` and `model.safetensors`, also sharded."""

import dataclasses
import re

import numpy as np

from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import CONFIG
from keras_bert.checkpoints.model_types import MODEL_TYPES
from keras_bert.checkpoints.tensors import PROJECTION_TENSORS, Checkpoint, head_of_tensors, is_of_head, tensors_of
from keras_bert.checkpoints.weight_files import read_tensors, write_tensors
from keras_bert.config import OTHER_SETTINGS, BertConfig
from keras_bert.files import write_json
from keras_bert.heads.class_settings import checked_thresholds
from keras_bert.heads.confidence import checked_confidence
from keras_bert.heads.head import count_classes
from keras_bert.heads.long_texts import check_stored_reading
from keras_bert.heads.registry import HEADS, NO_HEAD, head_named
from keras_bert.layers.registry import positions_of
from keras_bert.metadata import Metadata


def fits(folder):
    """Returns whether a folder has transformers' config."""
    return folder.transformer.has(CONFIG)


def read(folder, options):
    """Opens a folder in Hugging Face's format."""
    inner = folder.transformer
    checkpoint = read_model(inner, options.head)
    return tokenizer_files.with_tokenizer(checkpoint, inner, options.tokenizer, for_transformers=not inner.is_ours)


def read_model(folder, head=None):
    """Opens a folder without its tokenizer; `head` is the kind of head, if known."""
    config, metadata = read_config(folder, head)
    tensors = {our_name(name): tensor for name, tensor in read_tensors(folder.path).items()}
    if metadata.model_type != "bert":
        tensors = MODEL_TYPES[metadata.model_type].tensors(tensors)
    tensors = _without_copies(folder, tensors, metadata.tied)
    if head is None and metadata.head is None and (head := _inferred_head(folder, tensors)):
        config, metadata = read_config(folder, head)
        metadata = metadata.replace(head=head)
    reads = head_named(head or metadata.head or NO_HEAD).reads
    if metadata.causal and reads == ("pooled",) and not folder.is_ours:
        raise ValueError(
            f"{folder / CONFIG}: with `is_decoder`, [CLS] sees only itself, so a {head or metadata.head} head on it "
            "has no information about the text. Expected `is_decoder`: false, or load(..., head='encoder')"
        )
    return Checkpoint(str(folder), config, tensors, metadata)


def read_config(folder, head=None):
    """Reads `config.json`; returns the `BertConfig` and the `Metadata`. `head` is the kind of head, if known."""
    path, values = folder / CONFIG, folder.json(CONFIG, needed=True)
    model_type = values.get("model_type") if values.get("model_type") in MODEL_TYPES else "bert"
    try:
        if model_type != "bert":
            values = MODEL_TYPES[model_type].config(values)
        else:  # MuRIL's has an `embedding_size`, which transformers does not read either.
            values = {key: value for key, value in values.items() if key not in OTHER_SETTINGS}
        causal = bool(values.pop("is_decoder", False))
        metadata = Metadata.from_json(values.get("keras_bert") or {})
        stored = _stored_head(metadata.head, values.get("architectures") or [], head)
        metadata = metadata.replace(head=stored)
        config = BertConfig.from_dict(values, "huggingface")
        if model_type != "bert":
            MODEL_TYPES[model_type].check_head(head or metadata.head, config.hidden_act)
        metadata = head_named(head or metadata.head or NO_HEAD).read_config(values, metadata)
        check_stored_reading(metadata, head_named(head or metadata.head or NO_HEAD))
        checked_confidence(metadata.confidence)
        checked_thresholds(metadata.thresholds, count_classes(values) if metadata.multi_label else None)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    tied = values.get("tie_word_embeddings") is not False
    positions = positions_of(model_type) or metadata.positions
    return config, metadata.replace(causal=causal, positions=positions, tied=tied, model_type=model_type)


def _stored_head(head, architectures, wanted):
    """Returns the head that a config specifies, or `None`; it may be unknown if another one is wanted."""
    if head is not None and wanted is None and all(row.name != head for row in HEADS):
        raise ValueError(
            f"`head` in `keras_bert` must be a registered head. Received: head={head!r}; register its class by "
            "load(..., heads=[...]) or keras_bert.register_head, or name its module by `plugins`; or omit the head by "
            "load(..., head='encoder')"
        )
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ValueError(f"`architectures` must be a list of names. Received: architectures={architectures!r:.200}")
    heads = _heads()
    return head or next((heads[name] for name in architectures if name in heads), None)


def _heads():
    """Returns the head of each architecture, the first one that has it; tensors distinguish those of the same head."""
    heads = {}
    for head in HEADS:
        for architecture in head.architectures:
            heads.setdefault(architecture, head.name)
    return heads


def _inferred_head(folder, tensors):
    """Returns the head of a folder that does not name it, or `None`; that of an unknown architecture is not guessed."""
    names = sorted(tensor.name for name, tensor in tensors.items() if is_of_head(name))
    architectures = folder.config.get("architectures")
    if names and not architectures:
        return head_of_tensors(tensors)
    if names:
        raise ValueError(
            f"{folder / CONFIG}: `architectures` does not identify the head of {names[0]}. Expected one of "
            f"{', '.join(_heads())}. Received: architectures={architectures}; pass load(..., head='encoder') to omit "
            f"the head, or another of {', '.join(head.name for head in HEADS if head.architectures)} to select it"
        )
    return None


def write_config(description, metadata, directory):
    """Writes `config.json`."""
    head = head_named(description.head)
    values = {
        "architectures": [head.architecture(description)],
        **description.config.to_huggingface(),
        "is_decoder": description.causal,
        "pad_token_id": 0 if metadata.vocabulary is None else metadata.vocabulary.id("[PAD]"),
        "tie_word_embeddings": description.tied,
        "dtype": "float32",
        "keras_bert": metadata.to_json(),
        **head.to_config(description, metadata.labels),
    }
    if metadata.model_type != "bert":
        values = {**dataclasses.asdict(description.config), **values, "model_type": metadata.model_type}
        values = MODEL_TYPES[metadata.model_type].to_config(values, head.name)
    write_json(directory / CONFIG, values)


def write_weights(description, model_type, directory, dtype):
    """Writes `model.safetensors` with transformers' names."""
    tensors = {name: array for name, array in tensors_of(description).items() if name not in PROJECTION_TENSORS}
    if not description.tied:  # transformers then reads the decoder's bias.
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    if model_type == "bert":
        prefix = "bert." if head_named(description.head).has_prefix else ""
        tensors = {name if is_of_head(name) else prefix + name: tensors[name] for name in tensors}
    else:
        tensors = MODEL_TYPES[model_type].to_tensors(tensors, description.head)
    write_tensors(tensors, directory, dtype)


def our_name(name):
    """Returns our name of a tensor of transformers, in a `Checkpoint`."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _without_copies(folder, tensors, tied):
    """Drops duplicates of the tied table and of the bias, after checking that they are equal."""
    bias, copy = "cls.predictions.bias", "cls.predictions.decoder.bias"
    if copy in tensors:  # transformers writes this copy.
        if bias in tensors and tied:
            _check_equal(folder, tensors[copy], tensors[bias])
        tensors[bias] = tensors.pop(copy)
    table, copy = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    if copy in tensors and tied:
        if table in tensors:
            _check_equal(folder, tensors[copy], tensors[table])
        tensors.setdefault(table, tensors.pop(copy))
    return tensors


def _check_equal(folder, copy, original):
    if not np.array_equal(copy.read(), original.read()):
        raise ValueError(
            f"{folder}: {copy.name} differs from {original.name}, but `tie_word_embeddings` of {CONFIG} says that "
            "they are tied. Expected equal tensors, or `tie_word_embeddings`: false"
        )
