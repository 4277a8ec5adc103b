"""Hugging Face's Marian layout: encoder-decoders as `config.json` and `model.safetensors`.

Marian's position embeddings are all sines, then all cosines; ours alternate. A fixed permutation of the model's
width makes both models equal: of the columns of the token table, of the inputs of each kernel that reads hidden
states, and of the outputs that are added to them.
"""

import pathlib
from typing import NamedTuple

import keras
import numpy as np

from keras_bert.checkpoints.huggingface import CONFIG, read_json, read_tensors, write_tensors
from keras_bert.checkpoints.layout import check_sizes
from keras_bert.files import write_json
from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.description import describe_transformer
from keras_bert.translation.model import build_transformer

MODEL_TYPE = "marian"
_ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu_new", "tanh": "tanh"}
# Keys of the config that change the model, with the only values that are supported.
_FIXED = {
    "model_type": MODEL_TYPE,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
# What transformers takes for keys that are missing; those of the sizes are needed.
_DEFAULTS = {
    **_FIXED,
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
_START = "decoder_start_token_id"
_EPSILON = 1e-5  # Of PyTorch's LayerNorm.
# For models without a vocabulary; Marian's defaults are ids of its own vocabularies, and the start must be a number.
_NO_SPECIAL = {**dict.fromkeys(f"{name}_token_id" for name in ("bos", "eos", "forced_eos", "pad")), _START: 0}
_SIDES = {"encoder": "source", "decoder": "target"}  # Their names and ours.
_TABLES = ("lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in _SIDES))
_POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in _SIDES)
_SIZES = {
    "vocab_size": ("model.shared.weight", 0),
    "d_model": ("model.shared.weight", 1),
    "encoder_ffn_dim": ("model.encoder.layers.0.fc1.weight", 0),
    "max_position_embeddings": (_POSITIONS[0], 0),
}
_LAYERS = {f"{side}_layers": rf"model\.{side}\.layers" for side in _SIDES}


def read_config(directory):
    """Returns the `TransformerConfig` of a directory."""
    path = pathlib.Path(directory, CONFIG)
    values = {**_DEFAULTS, **read_json(path)}
    for key, expected in _FIXED.items():
        if values[key] != expected:
            raise ValueError(f"{path}: `{key}` must be {expected!r}. Received: {key}={values[key]!r}")
    if missing := [key for key in _NEEDED if key not in values]:
        raise ValueError(f"{path}: the key `{missing[0]}` is missing")
    for name in ("attention_heads", "ffn_dim"):
        sides = [values[f"{side}_{name}"] for side in _SIDES]
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
    for slot in _slots(model):
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
    layers = describe_transformer(model).layers
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


def write(model, directory, vocabulary=None, dtype="float32"):
    """Writes a model into a directory; `vocabulary` tells transformers the special ids."""
    config = describe_transformer(model).config
    config.check_huggingface()
    directory = pathlib.Path(directory)
    values = {"architectures": ["MarianMTModel"], **_FIXED, **config.to_huggingface()}
    values |= _NO_SPECIAL
    if vocabulary is not None:
        pad, unknown, start, end = vocabulary.ids(["[PAD]", "[UNK]", "[START]", "[END]"])
        special = {_START: start, "eos_token_id": end, "pad_token_id": pad}
        values |= special
        never = {"bad_words_ids": [[pad], [unknown], [start]]}
        longest = {"max_length": config.max_position_embeddings, "num_beams": 4}
        write_json(directory / "generation_config.json", {**special, **never, **longest})
    write_json(directory / CONFIG, values)
    tensors = {}
    for slot in _slots(model):
        value = np.zeros(config.vocab_size, "float32") if slot.variable is None else slot.variable
        arrays = slot.to_theirs(keras.ops.convert_to_numpy(value).astype("float32"))
        tensors.update(zip(slot.names, map(np.ascontiguousarray, arrays), strict=True))
    write_tensors(tensors, directory, dtype)


class _Slot(NamedTuple):
    """A variable and the tensors that it contains.

    Args:
        variable: the variable; `None` for one that the model lacks.
        names: names of the tensors, whose outputs follow each other in the variable.
        reads: bool, whether the last axis of the tensors is permuted: inputs of a kernel, columns of the table.
        writes: bool, whether the first axis is.
        width: int, width of the model.
    """

    variable: object
    names: list
    reads: bool
    writes: bool
    width: int

    def _order(self):
        return np.arange(self.width).reshape(2, -1).T.reshape(-1)  # Of their columns in ours.

    def shapes(self, vocab_size):
        """Returns the shapes of the tensors."""
        if self.names[0] == "final_logits_bias":
            return [(1, vocab_size)]
        first, *others = reversed(self.variable.shape) if self._is_kernel() else self.variable.shape
        return [(first // len(self.names), *others)] * len(self.names)

    def to_ours(self, arrays):
        """Returns the value of the variable."""
        arrays = [array[self._order()] for array in arrays] if self.writes else arrays
        arrays = [array[..., self._order()] for array in arrays] if self.reads else arrays
        if self.names[0] == "final_logits_bias":
            return arrays[0][0]
        value = np.concatenate(arrays)
        return value.T if self._is_kernel() else value

    def to_theirs(self, value):
        """Returns the tensors of a value."""
        if self.names[0] == "final_logits_bias":
            return [value[None]]
        order = np.argsort(self._order())
        arrays = np.split(value.T if self._is_kernel() else value, len(self.names))
        arrays = [array[..., order] for array in arrays] if self.reads else arrays
        return [array[order] for array in arrays] if self.writes else arrays

    def _is_kernel(self):
        return len(self.variable.shape) == 2 and self.names[0] != "model.shared.weight"


def _slots(model):
    """Yields the slots of a model."""
    description = describe_transformer(model)
    layers, width = description.layers, description.config.hidden_size

    def slot(variable, names, reads=False, writes=False):
        return _Slot(variable, names, reads, writes, width)

    def dense(layer, names, reads=True, writes=False):
        yield slot(layer.kernel, [f"{name}.weight" for name in names], reads, writes)
        yield slot(layer.bias, [f"{name}.bias" for name in names], writes=writes)

    def norm(layer, name):
        yield slot(layer.gamma, [f"{name}.weight"], writes=True)
        yield slot(layer.beta, [f"{name}.bias"], writes=True)

    def attention(layer, name):
        if layer.cross_attention:
            yield from dense(layer.query, [f"{name}.q_proj"])
            yield from dense(layer.key_value, [f"{name}.{part}_proj" for part in "kv"])
        else:
            yield from dense(layer.query_key_value, [f"{name}.{part}_proj" for part in "qkv"])
        yield from dense(layer.output_dense, [f"{name}.out_proj"], reads=False, writes=True)

    yield slot(layers["token_embedding"].embeddings, ["model.shared.weight"], reads=True)
    yield slot(layers["output_bias"].bias if "output_bias" in layers else None, ["final_logits_bias"])
    for theirs, ours in _SIDES.items():
        for index, block in enumerate(description.blocks(ours)):
            name = f"model.{theirs}.layers.{index}"
            yield from attention(block.attention, f"{name}.self_attn")
            yield from norm(block.attention_norm, f"{name}.self_attn_layer_norm")
            if theirs == "decoder":
                yield from attention(block.cross_attention, f"{name}.encoder_attn")
                yield from norm(block.cross_attention_norm, f"{name}.encoder_attn_layer_norm")
            yield from dense(block.feed_forward.intermediate_dense, [f"{name}.fc1"])
            yield from dense(block.feed_forward.output_dense, [f"{name}.fc2"], reads=False, writes=True)
            yield from norm(block.output_norm, f"{name}.final_layer_norm")
