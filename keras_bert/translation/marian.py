"""Reads encoder-decoders in Hugging Face's Marian layout: `config.json` and `model.safetensors`."""

import dataclasses
import pathlib

import keras
import numpy as np

from keras_bert.checkpoints.folder import CONFIG
from keras_bert.checkpoints.tensors import assign, check_sizes
from keras_bert.checkpoints.weight_files import read_tensors
from keras_bert.checks import check_choice
from keras_bert.files import read_object
from keras_bert.translation.config import MARIAN_ACTIVATIONS, MARIAN_KEYS, TransformerConfig
from keras_bert.translation.marian_layout import BIAS, FIXED, SIDES, reordered, slots
from keras_bert.translation.model import build_transformer, describe

# What transformers takes for keys that are missing; those of the sizes are needed.
_DEFAULTS = {
    **FIXED,
    "scale_embedding": False,
    "activation_function": "gelu",
    "attention_dropout": 0.0,
    "decoder_vocab_size": None,
    "dropout": 0.1,
    "init_std": 0.02,
    "keras_bert": {},
    "max_position_embeddings": 1024,
}
_TABLES = ("lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in SIDES))
_POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in SIDES)
_SIZES = {
    "vocab_size": ("model.shared.weight", 0),
    "d_model": ("model.shared.weight", 1),
    "encoder_ffn_dim": ("model.encoder.layers.0.fc1.weight", 0),
    "max_position_embeddings": (_POSITIONS[0], 0),
}
_LAYERS = {f"{side}_layers": rf"model\.{side}\.layers" for side in SIDES}


def read_config(directory):
    """Returns the `TransformerConfig` of a directory."""
    path = pathlib.Path(directory, CONFIG)
    values = _DEFAULTS | read_object(path)
    for key, expected in FIXED.items():
        if values[key] != expected:
            message = f"{path}: `{key}` must be {expected!r}. Received: {key}={values[key]!r}"
            if values["model_type"] == "bert":
                message += ". keras_bert.load opens a BERT"
            raise ValueError(message)
    for key in MARIAN_KEYS:
        if key not in values:
            raise ValueError(f"{path}: the key `{key}` is missing")
    if values["decoder_vocab_size"] is None:
        values["decoder_vocab_size"] = values["vocab_size"]
    try:
        config = _config(values)
        config.check_huggingface()
        return config
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _config(values):
    """Returns the `TransformerConfig` of the keys of `config.json`."""
    fields = {}
    for key, field in MARIAN_KEYS.items():
        if field in fields and fields[field] != values[key]:
            keys = [other for other in MARIAN_KEYS if MARIAN_KEYS[other] == field]
            received = " and ".join(repr(values[other]) for other in keys)
            raise ValueError(f"`{keys[0]}` and `{keys[1]}` must be equal. Received: {received}")
        fields[field] = values[key]
    activation = values["activation_function"]
    check_choice("activation_function", activation, MARIAN_ACTIVATIONS)
    fields["hidden_act"] = MARIAN_ACTIVATIONS[activation]
    ours = values["keras_bert"]
    if not isinstance(ours, dict):
        raise ValueError(f"`keras_bert` must be an object. Received: {ours!r}")
    return TransformerConfig(**fields, output_bias=ours.get("output_bias", True))


def read(directory, dtype=None):
    """Returns the model of a directory."""
    config = read_config(directory)
    path = pathlib.Path(directory)
    tensors = read_tensors(path)
    check_sizes(path, config.to_huggingface(), tensors, _SIZES, _LAYERS, _POSITIONS[0])
    model = build_transformer(config, dtype=dtype)
    description = describe(model)
    _assign_weights(description, tensors, path)
    _assign_bias(description, tensors, path)
    _check_copies(description, tensors, path)
    if tensors:
        raise ValueError(f"{path}: unknown tensors {', '.join(sorted(tensors)[:5])}")
    return model


def _assign_weights(description, tensors, path):
    """Sets the variables that have a tensor each, and takes these away from `tensors`."""
    wanted = slots(description)
    shapes = {slot.name: slot.shape for slot in wanted}
    shapes[BIAS] = (1, description.config.vocab_size)
    for name, shape in shapes.items():
        if name not in tensors:
            raise ValueError(f"{path}: there is no tensor {name}")
        if tensors[name].shape != shape:
            raise ValueError(f"{path}: {name} must have the shape {shape}. Received: {tensors[name].shape}")
    assign({slot.name: _in_our_order(tensors.pop(slot.name)) for slot in wanted}, wanted)


def _assign_bias(description, tensors, path):
    """Sets the bias of the logits, and takes its tensor away; a model without one has zeros there."""
    bias = np.asarray(tensors.pop(BIAS).read(), "float32")[0]
    if description.config.output_bias:
        description.layers["output_bias"].bias.assign(bias)
    elif np.any(bias):
        raise ValueError(f"{path}: {BIAS} must be zeros, as `keras_bert.output_bias` of {CONFIG} is false")


def _check_copies(description, tensors, path):
    """Takes away the tensors that repeat a table of the model, or the sinusoids, and checks that they do."""
    layers = description.layers
    tables = dict.fromkeys(_TABLES, layers["token_embedding"].embeddings)
    if tensors.keys() & set(_POSITIONS):
        tables |= dict.fromkeys(_POSITIONS, layers["source_embeddings"].table())
    for name in tables.keys() & tensors.keys():
        value = np.asarray(tensors.pop(name).read(), "float32")
        expected = reordered(name, keras.ops.convert_to_numpy(tables[name]), (-1, 2))
        if value.shape != expected.shape or np.abs(value - expected).max() > 1e-2:
            original = "the sinusoids" if name in _POSITIONS else "model.shared.weight"
            raise ValueError(f"{path}: {name} must be equal to {original}, of which it is a copy")


def _in_our_order(tensor):
    return dataclasses.replace(tensor, read=lambda: reordered(tensor.name, np.asarray(tensor.read()), (2, -1)))
