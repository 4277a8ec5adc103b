"""Tiny random models that know the words of some texts, and inputs for them."""

import re
import string

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.models.description import is_encoder_layer, layers_of
from keras_bert.models.encoder import build_encoder

INPUTS = ("text", "pair", "question", "context", "choices", "words")  # Those that there are texts for.
LENGTH = 32  # Tokens of a text.
_POSITIONS = 128
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_NOISE = 0.3
_WORDS = re.compile(r"\w+|[^\w\s]")
_SENTENCES = (
    "a charming film",
    "two hours of nothing",
    "it has its moments",
    "the end is good and the start is slow",
)


def vocabulary(*values):
    """Returns pieces: letters, digits, and the words of all texts in nested values."""
    words = {}
    for text in (*_SENTENCES, *_strings(values)):
        words.update(dict.fromkeys(_WORDS.findall(text.lower())))
    characters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    continued = [f"##{character}" for character in (*string.ascii_lowercase, *string.digits)]
    return [*_SPECIAL, *dict.fromkeys([*characters, *continued, *words])]


def _strings(value):
    """Yields the strings in nested lists and dicts, also the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


def tiny_encoder(pieces):
    """Returns an encoder of random weights, whose answers to different texts differ."""
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=_POSITIONS,
        initializer_range=0.3,
    )
    return build_encoder(config)


def shake(model, seed=1):
    """Adds noise to the weights of the head, so that none of them has its initial value."""
    rng = np.random.default_rng(seed)
    for name, layer in layers_of(model).items():
        if is_encoder_layer(name):
            continue
        for weight in layer.trainable_weights:
            value = np.asarray(weight)
            weight.assign(value + rng.normal(scale=_NOISE, size=value.shape).astype(value.dtype))


def texts_for(names):
    """Returns texts for a head that takes these inputs."""
    first, second, third, last = _SENTENCES
    if names == ("question", "context"):
        contexts = [first, second, third]
        return [{"question": "what is good", "context": context} for context in contexts]
    if "choices" in names:
        return [{"text": text, "choices": [first, last]} for text in (second, third, last)]
    if "pair" in names:
        return [(first, second), (third, last), (last, first)]
    return [*_SENTENCES, f"{first} [MASK]"]


def token_inputs(model, rows=3, length=7, seed=0):
    """Returns random inputs of a model by name, with padding at the ends of the rows."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, length + 1, rows)
    lengths[0] = length
    inputs = {}
    for name, tensor in model.input.items():
        sizes = [size or length for size in tensor.shape[1:]]
        shape = (rows, *sizes)
        inputs[name] = _random_values(name, rng, shape, lengths)
    return inputs


def _random_values(name, rng, shape, lengths):
    """Returns random values of an input."""
    places = np.arange(shape[-1])
    lengths_of_rows = lengths.reshape([-1] + [1] * (len(shape) - 1))
    mask = np.broadcast_to(places < lengths_of_rows, shape)
    if name == "padding_mask":
        return mask.astype("int32")
    if name == "token_ids":
        ids = rng.integers(len(_SPECIAL), 2 * len(string.ascii_lowercase), shape)
        return np.where(mask, ids, 0).astype("int32")
    if name == "mask_positions":
        return np.broadcast_to(places % 3, shape).astype("int32")
    return np.zeros(shape, "int32")
