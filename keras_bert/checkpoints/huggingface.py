"""Hugging Face's format: `config.json` and `model.safetensors`, also sharded; without the tokenizer."""

import dataclasses
import itertools
import re
import shutil

import ml_dtypes
import numpy as np
import safetensors.numpy

from keras_bert.checkpoints import classification_config
from keras_bert.checkpoints.layout import POOLER_TENSORS, PROJECTION_TENSORS, Checkpoint, is_of_head, tensors_of
from keras_bert.checkpoints.locations import CONFIG
from keras_bert.checkpoints.relatives import RELATIVES
from keras_bert.checkpoints.weight_files import WEIGHTS, read_tensors
from keras_bert.config import OTHER_SETTINGS, BertConfig
from keras_bert.files import read_object, write_json
from keras_bert.heads.registry import HEADS, NO_HEAD, head_named
from keras_bert.metadata import Metadata
from keras_bert.text.labels import checked_thresholds


def read(directory, head=None):
    """Opens a directory in Hugging Face's format, without its tokenizer; `head` is the kind of head, if known."""
    config, metadata = read_config(directory, head)
    tensors = _read_weights(directory, metadata)
    if head is None and metadata.head is None and (head := _inferred_head(directory, tensors)):
        config, metadata = read_config(directory, head)
        metadata = metadata.replace(head=head)
    reads = head_named(head or metadata.head or NO_HEAD).reads
    if metadata.causal and reads == ("pooled",) and not is_ours(directory):
        raise ValueError(
            f"{directory / CONFIG}: with `is_decoder`, [CLS] sees only itself, so a {head or metadata.head} head on it "
            "has no information about the text. Expected `is_decoder`: false, or load(..., head='encoder')"
        )
    return Checkpoint(str(directory), config, tensors, metadata)


def read_config(directory, head=None):
    """Reads `config.json`; returns the `BertConfig` and the `Metadata`. `head` is the kind of head, if known."""
    path = directory / CONFIG
    values = read_object(path)
    model_type = values.get("model_type") if values.get("model_type") in RELATIVES else "bert"
    try:
        if model_type != "bert":
            values = RELATIVES[model_type].config(values)
        else:  # MuRIL's has an `embedding_size`, which transformers does not read either.
            values = {key: value for key, value in values.items() if key not in OTHER_SETTINGS}
        causal = bool(values.pop("is_decoder", False))
        metadata = Metadata.from_json(values.get("keras_bert") or {})
        stored = _stored_head(metadata.head, values.get("architectures") or [], head)
        metadata = metadata.replace(head=stored)
        config = BertConfig.from_dict(values, "huggingface")
        if model_type != "bert":
            RELATIVES[model_type].check_head(head or metadata.head, config.hidden_act)
        classes = classification_config.read(values, head or metadata.head)
        checked_thresholds(metadata.thresholds, classification_config.count(values) if classes["multi_label"] else None)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    tied = values.get("tie_word_embeddings") is not False
    return config, metadata.replace(causal=causal, tied=tied, model_type=model_type, **classes)


def _stored_head(head, architectures, wanted):
    """Returns the head that a config specifies, or `None`; it may be unknown if another one is wanted."""
    if head is not None and wanted is None and all(row.name != head for row in HEADS):
        raise ValueError(
            f"`head` in `keras_bert` must be a registered head. Received: head={head!r}; register its class by "
            "load(..., heads=[...]) or keras_bert.register_head, or omit the head by load(..., head='encoder')"
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


def is_ours(directory):
    """Returns whether this package wrote a directory."""
    return "keras_bert" in read_object(directory / CONFIG)


def _inferred_head(directory, tensors):
    """Returns the head of a folder that does not name it, or `None`; that of an unknown architecture is not guessed."""
    names = sorted(tensor.name for name, tensor in tensors.items() if is_of_head(name))
    architectures = read_object(directory / CONFIG).get("architectures")
    if names and not architectures:
        return head_of_tensors(tensors)
    if names:
        raise ValueError(
            f"{directory / CONFIG}: `architectures` does not identify the head of {names[0]}. Expected one of "
            f"{', '.join(_heads())}. Received: architectures={architectures}; pass load(..., head='encoder') to omit "
            f"the head, or another of {', '.join(head.name for head in HEADS if head.architectures)} to select it"
        )
    return None


def head_of_tensors(tensors):
    """Returns the head that has these tensors, or `None`: of several, that with the most tensors.

    A classifier without a pooler is one of tokens.
    """
    names = list(itertools.chain.from_iterable(head.tensors.values() for head in HEADS))
    own = {head.name: {f"{name}.weight" for name in head.tensors.values() if names.count(name) == 1} for head in HEADS}
    found = [head for head in HEADS if (own[head.name] | {head.google}) & tensors.keys()]
    if found and "pooled" in found[-1].reads and not POOLER_TENSORS & tensors.keys():
        alike = (head for head in HEADS if [*head.tensors.values()] == [*found[-1].tensors.values()])
        found += [head for head in alike if "pooled" not in head.reads][:1]
    return found[-1].name if found else None


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
        **classification_config.config_entries(description, metadata.labels),
    }
    if metadata.model_type != "bert":
        values = {**dataclasses.asdict(description.config), **values, "model_type": metadata.model_type}
        values = RELATIVES[metadata.model_type].to_config(values, head.name)
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
        tensors = RELATIVES[model_type].to_tensors(tensors, description.head)
    write_tensors(tensors, directory, dtype)


def write_tensors(tensors, directory, dtype):
    """Writes `model.safetensors` in a dtype."""
    if dtype != "float32":
        largest = max(float(np.abs(array).max()) for array in tensors.values())
        if not largest <= float(ml_dtypes.finfo(dtype).max):
            raise ValueError(f"`weights_dtype`={dtype!r} cannot hold the largest weight, {largest}. Expected 'float32'")
        tensors = {name: array.astype(dtype) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(directory / CONFIG, directory / WEIGHTS)  # safetensors makes it readable only by its owner.


def _read_weights(directory, metadata):
    """Returns the tensors of a directory by our names, with a tied table only once."""
    tensors = {our_name(name): tensor for name, tensor in read_tensors(directory).items()}
    if metadata.model_type != "bert":
        tensors = RELATIVES[metadata.model_type].tensors(tensors)
    return _without_copies(directory, tensors, metadata.tied)


def our_name(name):
    """Returns our name of a tensor of transformers, in a `Checkpoint`."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _without_copies(directory, tensors, tied):
    """Drops duplicates of the tied table and of the bias, after checking that they are equal."""
    bias, copy = "cls.predictions.bias", "cls.predictions.decoder.bias"
    if copy in tensors:  # transformers writes this copy.
        if bias in tensors and tied:
            _check_equal(directory, tensors[copy], tensors[bias])
        tensors[bias] = tensors.pop(copy)
    table, copy = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    if copy in tensors and tied:
        if table in tensors:
            _check_equal(directory, tensors[copy], tensors[table])
        tensors.setdefault(table, tensors.pop(copy))
    return tensors


def _check_equal(directory, copy, original):
    if not np.array_equal(copy.read(), original.read()):
        raise ValueError(
            f"{directory}: {copy.name} differs from {original.name}, but `tie_word_embeddings` of {CONFIG} says that "
            "they are tied. Expected equal tensors, or `tie_word_embeddings`: false"
        )
