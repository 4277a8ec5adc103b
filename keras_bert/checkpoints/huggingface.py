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

_BIAS = "cls.predictions.bias"
_BIAS_COPY = "cls.predictions.decoder.bias"
_TABLE = "embeddings.word_embeddings.weight"
_TABLE_COPY = "cls.predictions.decoder.weight"


def fits(folder):
    """Returns whether a folder has transformers' config."""
    return folder.transformer.has(CONFIG)


def read(folder, options):
    """Opens a folder in Hugging Face's format."""
    inner = folder.transformer
    checkpoint = read_model(inner, options.head)
    return tokenizer_files.with_tokenizer(
        checkpoint,
        inner,
        options.tokenizer,
        for_transformers=not inner.is_ours,
    )


def read_model(folder, head=None):
    """Opens a folder without its tokenizer; `head` is the kind of head, if known."""
    config, metadata = read_config(folder, head)
    tensors = {our_name(name): tensor for name, tensor in read_tensors(folder.path).items()}
    if metadata.model_type != "bert":
        tensors = MODEL_TYPES[metadata.model_type].tensors(tensors)
    tensors = _without_copies(folder, tensors, metadata.tied)
    if head is None and metadata.head is None:
        inferred = _inferred_head(folder, tensors)
        if inferred:
            config, metadata = read_config(folder, inferred)
            metadata = metadata.replace(head=inferred)
    if not folder.is_ours:
        _check_causal_pooling(folder, metadata, head or metadata.head)
    return Checkpoint(str(folder), config, tensors, metadata)


def _check_causal_pooling(folder, metadata, head_name):
    """Raises for a left-to-right model of transformers with a head on its pooler, which pools [CLS]."""
    head = head_named(head_name or NO_HEAD)
    if metadata.causal and head.reads == ("pooled",):
        raise ValueError(
            f"{folder / CONFIG}: with `is_decoder`, [CLS] sees only itself, so a {head_name} head on it "
            "has no information about the text. Expected `is_decoder`: false, or load(..., head='encoder')"
        )


def read_config(folder, head=None):
    """Reads `config.json`; returns the `BertConfig` and the `Metadata`. `head` is the kind of head, if known."""
    stored = folder.json(CONFIG, needed=True)
    try:
        return _config_and_metadata(stored, head)
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: {error}") from None


def _config_and_metadata(stored, wanted):
    """Returns the `BertConfig` and the `Metadata` of the content of a `config.json`; `wanted` is a head or `None`."""
    model_type = "bert"
    if stored.get("model_type") in MODEL_TYPES:
        model_type = stored["model_type"]
        values = MODEL_TYPES[model_type].config(stored)
    else:  # MuRIL's has an `embedding_size`, which transformers does not read either.
        values = {key: value for key, value in stored.items() if key not in OTHER_SETTINGS}
    causal = bool(values.pop("is_decoder", False))
    metadata = Metadata.from_json(values.get("keras_bert") or {})
    architectures = values.get("architectures") or []
    metadata = metadata.replace(head=_stored_head(metadata.head, architectures, wanted))
    config = BertConfig.from_dict(values, "huggingface")

    head_name = wanted or metadata.head
    if model_type != "bert":
        MODEL_TYPES[model_type].check_head(head_name, config.hidden_act)
    metadata = head_named(head_name or NO_HEAD).read_config(values, metadata)
    check_stored_reading(metadata, head_named(wanted or metadata.head or NO_HEAD))
    checked_confidence(metadata.confidence)
    classes = None
    if metadata.multi_label:
        classes = count_classes(values)
    checked_thresholds(metadata.thresholds, classes)
    metadata = metadata.replace(
        causal=causal,
        positions=positions_of(model_type) or metadata.positions,
        tied=values.get("tie_word_embeddings") is not False,
        model_type=model_type,
    )
    return config, metadata


def _stored_head(head, architectures, wanted):
    """Returns the head that a config specifies, or `None`; it may be unknown if another one is wanted."""
    if head is not None and wanted is None and all(row.name != head for row in HEADS):
        raise ValueError(
            f"`head` in `keras_bert` must be a registered head. Received: head={head!r}; register its class by "
            "load(..., heads=[...]) or keras_bert.register_head, or name its module by `plugins`; or omit the head by "
            "load(..., head='encoder')"
        )
    is_list = isinstance(architectures, list)
    if not is_list or not all(isinstance(name, str) for name in architectures):
        raise ValueError(f"`architectures` must be a list of names. Received: architectures={architectures!r:.200}")
    if head:
        return head
    heads = _heads_by_architecture()
    for name in architectures:
        if name in heads:
            return heads[name]
    return None


def _heads_by_architecture():
    """Returns the head of each architecture, the first one that has it; tensors distinguish those of the same head."""
    heads = {}
    for head in HEADS:
        for architecture in head.architectures:
            heads.setdefault(architecture, head.name)
    return heads


def _inferred_head(folder, tensors):
    """Returns the head of a folder that does not name it, or `None`; that of an unknown architecture is not guessed."""
    names = sorted(tensor.name for name, tensor in tensors.items() if is_of_head(name))
    if not names:
        return None
    architectures = folder.config.get("architectures")
    if not architectures:
        return head_of_tensors(tensors)
    known = ", ".join(_heads_by_architecture())
    others = ", ".join(head.name for head in HEADS if head.architectures)
    raise ValueError(
        f"{folder / CONFIG}: `architectures` does not identify the head of {names[0]}. Expected one of "
        f"{known}. Received: architectures={architectures}; pass load(..., head='encoder') to omit "
        f"the head, or another of {others} to select it"
    )


def write_config(description, metadata, directory):
    """Writes `config.json`."""
    head = head_named(description.head)
    padding_id = 0
    if metadata.vocabulary is not None:
        padding_id = metadata.vocabulary.id("[PAD]")
    values = {"architectures": [head.architecture(description)]}
    values.update(description.config.to_huggingface())
    values["is_decoder"] = description.causal
    values["pad_token_id"] = padding_id
    values["tie_word_embeddings"] = description.tied
    values["dtype"] = "float32"
    values["keras_bert"] = metadata.to_json()
    values.update(head.to_config(description, metadata.labels))
    if metadata.model_type != "bert":
        own = dataclasses.asdict(description.config) | values
        own["model_type"] = metadata.model_type
        values = MODEL_TYPES[metadata.model_type].to_config(own, head.name)
    write_json(directory / CONFIG, values)


def write_weights(description, model_type, directory, dtype):
    """Writes `model.safetensors` with transformers' names."""
    tensors = tensors_of(description)
    for name in PROJECTION_TENSORS:
        tensors.pop(name, None)
    if not description.tied:  # transformers then reads the decoder's bias.
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    if model_type == "bert":
        has_prefix = head_named(description.head).has_prefix
        own = {_name_in_transformers(name, has_prefix): array for name, array in tensors.items()}
    else:
        own = MODEL_TYPES[model_type].to_tensors(tensors, description.head)
    write_tensors(own, directory, dtype)


def _name_in_transformers(name, has_prefix):
    """Returns the name of a tensor in a BERT of transformers."""
    if has_prefix and not is_of_head(name):
        return f"bert.{name}"
    return name


def our_name(name):
    """Returns our name of a tensor of transformers, in a `Checkpoint`."""
    name = name.removeprefix("bert.")
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _without_copies(folder, tensors, tied):
    """Drops duplicates of the tied table and of the bias, after checking that they are equal."""
    kept = dict(tensors)
    if _BIAS_COPY in kept:  # transformers writes this copy.
        if _BIAS in kept and tied:
            _check_equal(folder, kept[_BIAS_COPY], kept[_BIAS])
        kept[_BIAS] = kept.pop(_BIAS_COPY)
    if _TABLE_COPY in kept and tied:
        table = kept.pop(_TABLE_COPY)
        if _TABLE in kept:
            _check_equal(folder, table, kept[_TABLE])
        else:
            kept[_TABLE] = table
    return kept


def _check_equal(folder, copy, original):
    """Raises if two tensors that a config ties have different numbers."""
    if not np.array_equal(copy.read(), original.read()):
        raise ValueError(
            f"{folder}: {copy.name} differs from {original.name}, but `tie_word_embeddings` of {CONFIG} says that "
            "they are tied. Expected equal tensors, or `tie_word_embeddings`: false"
        )
