"""Reads TensorFlow checkpoints, `*.index` and `*.data-?????-of-?????`, without TensorFlow.

The index is a LevelDB table, sorted by name, of the messages `BundleEntryProto`, which say where each tensor is.
"""

import math
import pathlib
import struct

import numpy as np

from keras_bert.wire_format import fields, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 10: "?", 19: "<f2"}  # Of the enumeration `DataType`.
_DTYPE, _SHAPE, _SHARD, _OFFSET, _SIZE, _SLICES = 1, 2, 3, 4, 5, 7  # Fields of `BundleEntryProto`.


class TensorBundle:
    """The tensors of a TensorFlow checkpoint. Checksums are not verified.

    Args:
        prefix: path of the checkpoint, without `.index`.
    """

    def __init__(self, prefix):
        self._prefix = pathlib.Path(prefix)
        index = self._prefix.with_name(f"{self._prefix.name}.index").read_bytes()
        try:
            entries = dict(_table(index))
            self._shards = dict(fields(entries.pop(b"")))[1]
            # The parts of partitioned variables have keys that are no text, which start with a zero byte.
            names = [name for name in entries if not name.startswith(b"\0")]
            self._entries = {name.decode(): dict(fields(entries[name])) for name in names}
            self._shapes = {name: _shape(entry.get(_SHAPE, b"")) for name, entry in self._entries.items()}
        except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:  # TypeError: a number, no message.
            raise ValueError(f"the index is damaged: {error}") from None

    def get_variable_to_shape_map(self):
        """Returns the shapes by name, as TensorFlow's reader does."""
        return self._shapes

    def get_tensor(self, name):
        """Returns a tensor as an array."""
        entry, shape = self._entries[name], self._shapes[name]
        if _SLICES in entry:
            raise ValueError("it is partitioned. Install TensorFlow to read it")
        if entry.get(_DTYPE) not in _TYPES:
            raise ValueError(f"the type {entry.get(_DTYPE)} is not supported. Install TensorFlow to read it")
        dtype, offset, size = np.dtype(_TYPES[entry[_DTYPE]]), entry.get(_OFFSET, 0), entry.get(_SIZE, 0)
        path = f"{self._prefix}.data-{entry.get(_SHARD, 0):05}-of-{self._shards:05}"
        with open(path, "rb") as file:
            file.seek(offset)
            content = file.read(size)
        if size != math.prod(shape) * dtype.itemsize or len(content) != size:
            raise ValueError(f"{path} has {len(content):,} bytes at {offset:,}, expected {size:,}, of shape {shape}")
        return np.frombuffer(content, dtype).reshape(shape)


def _table(content):
    """Yields keys and values of a LevelDB table."""
    if len(content) < _FOOTER or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise ValueError("it does not end as a table")
    footer = content[-_FOOTER:]
    _, place = varint(footer, 0)
    _, place = varint(footer, place)  # The handle of the block of metadata.
    for _, handle in _block(content, footer[place:]):
        yield from _block(content, handle)


def _block(content, handle):
    """Yields keys and values of the block at a handle: each key shares its first bytes with the key before it."""
    offset, place = varint(handle, 0)
    size, _ = varint(handle, place)
    block = content[offset : offset + size + 1]
    if len(block) != size + 1 or block[-1] != 0:
        raise ValueError("a block is truncated or compressed")
    end, place, key = size - 4 - 4 * struct.unpack_from("<I", block, size - 4)[0], 0, b""
    while place < end:
        shared, place = varint(block, place)
        new, place = varint(block, place)
        length, place = varint(block, place)
        key = key[:shared] + block[place : place + new]
        place += new
        yield key, block[place : place + length]
        place += length


def _shape(message):
    """Returns the shape of a `TensorShapeProto`."""
    return tuple(dict(fields(dimension)).get(1, 0) for field, dimension in fields(message) if field == 2)
