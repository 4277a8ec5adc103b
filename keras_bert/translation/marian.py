"""Reads encoder-decoders in Hugging Face's Marian layout: `config.json` and `model.safetensors`."""

import pathlib

import keras
import numpy as np

from keras_bert.checkpoints.huggingface import CONFIG, read_json, read_tensors
from keras_bert.checkpoints.layout import check_sizes
from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.marian_layout import FIXED, SIDES, slots
from keras_bert.translation.model import build_transformer, describe

_ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu_new", "tanh": "tanh"}
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
_NEEDED = ("vocab_size", "d_model")
_NEEDED += tuple(
    f"{side}_{part}" for side in ("encoder", "decoder") for part in ("layers", "attention_heads", "ffn_dim")
)
_EPSILON = 1e-5  # Of PyTorch's LayerNorm.
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
    values = {**_DEFAULTS, **read_json(path)}
    for key, expected in FIXED.items():
        if values[key] != expected:
            raise ValueError(f"{path}: `{key}` must be {expected!r}. Received: {key}={values[key]!r}")
    if missing := [key for key in _NEEDED if key not in values]:
        raise ValueError(f"{path}: the key `{missing[0]}` is missing")
    for name in ("attention_heads", "ffn_dim"):
        sides = [values[f"{side}_{name}"] for side in SIDES]
        if sides[0] != sides[1]:
            raise ValueError(f"{path}: `{name}` of encoder and decoder must be equal. Received: {sides}")
    if values["decoder_vocab_size"] not in (None, values["vocab_size"]):
        raise ValueError(f"{path}: `decoder_vocab_size` must be `vocab_size`. Received: {values['decoder_vocab_size']}")
    act, ours = values["activation_function"], values["keras_bert"]
    if not isinstance(act, str) or act not in _ACTIVATIONS:
        expected = ", ".join(_ACTIVATIONS)
        raise ValueError(f"{path}: `activation_function` must be one of {expected}. Received: {act!r}")
    if not isinstance(ours, dict):
        raise ValueError(f"{path}: `keras_bert` must be an object. Received: {ours!r}")
    try:
        config = TransformerConfig(
            vocab_size=values["vocab_size"],
            hidden_size=values["d_model"],
            num_encoder_layers=values["encoder_layers"],
            num_decoder_layers=values["decoder_layers"],
            num_attention_heads=values["encoder_attention_heads"],
            intermediate_size=values["encoder_ffn_dim"],
            hidden_act=_ACTIVATIONS[act],
            dropout=values["dropout"],
            attention_dropout=values["attention_dropout"],
            max_position_embeddings=values["max_position_embeddings"],
            initializer_range=values["init_std"],
            layer_norm_eps=_EPSILON,
            output_bias=ours.get("output_bias", True),
        )
        config.check_huggingface()
        return config
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read(directory, dtype=None):
    """Returns the model of a directory."""
    config = read_config(directory)
    path = pathlib.Path(directory)
    tensors = read_tensors(path)
    check_sizes(path, {**_DEFAULTS, **read_json(path / CONFIG)}, tensors, _SIZES, _LAYERS, _POSITIONS[0])
    model = build_transformer(config, dtype=dtype)
    description = describe(model)
    for slot in slots(description):
        missing = [name for name in slot.names if name not in tensors]
        if missing:
            raise ValueError(f"{path}: there is no tensor {missing[0]}")
        found = [tensors.pop(name) for name in slot.names]
        for tensor, shape in zip(found, slot.shapes(config.vocab_size), strict=True):
            if tensor.shape != shape:
                raise ValueError(f"{path}: {tensor.name} must have the shape {shape}. Received: {tensor.shape}")
        value = slot.to_ours([np.asarray(tensor.read(), "float32") for tensor in found])
        if slot.variable is None:
            _expect_zeros(value, path, slot.names[0])
        else:
            slot.variable.assign(value)
    layers = description.layers
    fixed = dict.fromkeys(_TABLES, layers["token_embedding"].embeddings)
    if tensors.keys() & set(_POSITIONS):
        fixed |= dict.fromkeys(_POSITIONS, layers["source_embeddings"].table())
    order = np.concatenate([np.arange(start, config.hidden_size, 2) for start in (0, 1)])
    for name in fixed.keys() & tensors.keys():
        value = np.asarray(tensors.pop(name).read(), "float32")
        expected = keras.ops.convert_to_numpy(fixed[name])[:, order]
        if value.shape != expected.shape or np.abs(value - expected).max() > 1e-2:
            what = "the sinusoids" if name in _POSITIONS else "model.shared.weight"
            raise ValueError(f"{path}: {name} must be equal to {what}, of which it is a copy")
    if tensors:
        raise ValueError(f"{path}: unknown tensors {', '.join(sorted(tensors)[:5])}")
    return model


def _expect_zeros(value, path, name):
    if np.any(value):
        raise ValueError(f"{path}: {name} must be zeros, as `keras_bert.output_bias` of {CONFIG} is false")
