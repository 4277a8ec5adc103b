"""Serializes examples as `tf.train.Example` records, with the feature names of Google's program.

A custom encoder of whole columns: with Python's protocol buffers, 20x slower, data generation would spend most of its
time here. The bytes are those of protocol buffers. It can go once `tf.io` serializes batches of examples.
"""

import functools

import numpy as np


def serialize(features):
    """Returns a list of bytes, one serialized `tf.train.Example` each.

    `features` is a dict of arrays `(examples, values)` by name, non-negative integers or float32.
    """
    columns = [_feature(name, values) for name, values in features.items()]
    examples = [b"".join(entries) for entries in zip(*columns, strict=True)]
    return [_message(b"\x0a", len(example)) + example for example in examples]


def _feature(name, values):
    """Yields the entry of each example in the map from names to features."""
    floats = values.dtype == np.float32
    content, lengths = (values.tobytes(), [4 * values.shape[1]] * len(values)) if floats else _varints(values)
    place = 0
    for length in lengths:
        yield _header(name, floats, length) + content[place : place + length]
        place += length


@functools.lru_cache(maxsize=2**16)
def _header(name, floats, length):
    """Returns the bytes before a packed list of values: `map entry { key, value { list { values } } }`."""
    key = _message(b"\x0a", len(name.encode())) + name.encode()
    values = _message(b"\x0a", length)
    inner = _message(b"\x12" if floats else b"\x1a", len(values) + length) + values
    value = _message(b"\x12", len(inner) + length) + inner
    return _message(b"\x0a", len(key) + len(value) + length) + key + value


@functools.lru_cache(maxsize=2**16)
def _message(tag, length):
    return tag + _varints(np.array([[length]]))[0]


def _varints(values):
    """Encodes integers `(rows, values)` in groups of 7 bits, lowest first; returns all bytes and each row's length."""
    size = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    values = values.astype(np.uint32 if size < 5 else np.uint64)
    groups = np.empty((*values.shape, size), np.uint8)
    there = np.ones(groups.shape, bool)
    for group in range(size):
        rest = values >> (7 * group)
        there[..., group] = (rest > 0) | (group == 0)
        groups[..., group] = np.where(rest > 127, rest & 127 | 128, rest)
    return groups[there].tobytes(), there.sum(axis=(1, 2)).tolist()
