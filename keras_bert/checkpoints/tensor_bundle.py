"""Reads TensorFlow checkpoints, `*.index` and `*.data-?????-of-?????`, also without TensorFlow.

The index is a LevelDB table, sorted by name, of the messages `BundleEntryProto`, which say where each tensor is. It is
checked for all that TensorFlow's reader would read differently, or would end the process for.
"""

import glob
import math
import os
import pathlib
import struct

import ml_dtypes
import numpy as np

from keras_bert.checkpoints.weight_files import check_tensors
from keras_bert.checks import first_line
from keras_bert.wire_format import fields, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 10: "?", 14: ml_dtypes.bfloat16, 19: "<f2"}  # Of `DataType`.
# Fields of `BundleEntryProto`, and the Python types of their values.
_DTYPE = 1
_SHAPE = 2
_SHARD = 3
_OFFSET = 4
_SIZE = 5
_CHECKSUM = 6
_SLICES = 7
_ENTRY = {
    _DTYPE: int,
    _SHAPE: bytes,
    _SHARD: int,
    _OFFSET: int,
    _SIZE: int,
    _CHECKSUM: bytes,
    _SLICES: bytes,
}
_UNREADABLE = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
_MOST_AXES = 254
_MOST_NAMES = 16  # Bytes of names per byte of a block, in which every 16th name is whole.


def open_bundle(prefix):
    """Returns the shapes of the tensors by name, and a function that reads one, with TensorFlow if it is installed."""
    try:
        import tensorflow as tf
    except ModuleNotFoundError:
        open_reader = TensorBundle
        unreadable = _UNREADABLE
    else:  # It verifies checksums. `tf.train.load_checkpoint` would follow the file `checkpoint` of a folder.
        open_reader = tf.compat.v1.train.NewCheckpointReader
        unreadable = (tf.errors.OpError, *_UNREADABLE)
    try:
        bundle = TensorBundle(prefix)  # Checks the index: TensorFlow ends the process if it is damaged.
        reader = bundle
        if not bundle.is_partitioned:
            reader = open_reader(str(prefix))
    except unreadable as error:
        raise ValueError(f"{prefix}: not a readable TensorFlow checkpoint: {first_line(error)}") from None
    shapes = bundle.get_variable_to_shape_map()
    shards = prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")
    check_tensors(prefix, shapes, sum(path.stat().st_size for path in shards))

    def fetch(name):
        try:
            bundle.check(name)
            return reader.get_tensor(name)
        except unreadable as error:
            raise ValueError(f"{prefix}: the tensor {name} cannot be read: {first_line(error)}") from None

    return shapes, fetch


class TensorBundle:
    """The tensors of a TensorFlow checkpoint, a path without `.index`. Checksums are not verified."""

    def __init__(self, prefix):
        self._prefix = pathlib.Path(prefix)
        index = self._prefix.with_name(f"{self._prefix.name}.index").read_bytes()
        try:
            messages = dict(_read_table(index))
            header = dict(fields(messages.pop(b"")))
            self._shards = header[1]
            self._entries = {}
            self._shapes = {}
            self.is_partitioned = False
            for name, message in messages.items():
                entry = _read_entry(message)
                if _SLICES in entry:
                    self.is_partitioned = True
                # The parts of partitioned variables have keys that are no text, which start with a zero byte.
                if not name.startswith(b"\0"):
                    self._entries[name.decode()] = entry
                    self._shapes[name.decode()] = entry[_SHAPE]
        except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:  # TypeError: a number, no message.
            raise ValueError(f"the index is damaged: {error}") from None

    def get_variable_to_shape_map(self):
        """Returns the shapes by name, as TensorFlow's reader does."""
        return self._shapes

    def check(self, name):
        """Raises if a tensor cannot be read."""
        entry = self._entries[name]
        if _SLICES in entry:
            raise ValueError("it is partitioned, which is not supported")
        if entry.get(_DTYPE) not in _TYPES:
            raise ValueError(f"the type {entry.get(_DTYPE)} is not supported. Expected numbers of 16 to 64 bits")

    def get_tensor(self, name):
        """Returns a tensor as an array."""
        self.check(name)
        entry = self._entries[name]
        shape = self._shapes[name]
        dtype = np.dtype(_TYPES[entry[_DTYPE]])
        offset = entry.get(_OFFSET, 0)
        size = entry.get(_SIZE, 0)
        path = f"{self._prefix}.data-{entry.get(_SHARD, 0):05}-of-{self._shards:05}"
        end = os.path.getsize(path)
        if size != math.prod(shape) * dtype.itemsize or offset + size > end:
            raise ValueError(f"{path} has {end:,} bytes, expected {size:,} at {offset:,}, of shape {shape}")
        with open(path, "rb") as file:
            file.seek(offset)
            return np.frombuffer(file.read(size), dtype).reshape(shape)


def _read_table(content):
    """Yields keys and values of a LevelDB table."""
    if len(content) < _FOOTER or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise ValueError("it does not end as a table")
    footer = content[-_FOOTER:]
    _, place = varint(footer, 0)
    _, place = varint(footer, place)  # The handle of the block of metadata.
    index_offset, index_size = _read_handle(footer[place:])
    last = None
    end = 0
    for _, handle in _read_block(content, index_offset, index_size):
        offset, size = _read_handle(handle)
        if offset < end:
            raise ValueError("its blocks are not in order")
        end = offset + size
        for key, value in _read_block(content, offset, size):
            if last is not None and key <= last:
                raise ValueError("its names are not in order")
            last = key
            yield key, value


def _read_handle(content):
    """Returns the offset and the size of a block."""
    offset, place = varint(content, 0)
    size, _ = varint(content, place)
    return offset, size


def _read_block(content, offset, size):
    """Yields keys and values of a block: each key shares its first bytes with the key before it."""
    block = content[offset : offset + size + 1]
    if len(block) != size + 1 or block[-1] != 0:
        raise ValueError("a block is truncated or compressed")
    # At the end, the places of the whole keys and their number.
    (count,) = struct.unpack_from("<I", block, size - 4)
    end = size - 4 - 4 * count
    place = 0
    key = b""
    whole_keys = set()
    length_of_names = 0
    while place < end:
        begin = place
        shared, place = varint(block, place)
        new, place = varint(block, place)
        length, place = varint(block, place)
        if max(shared, new, length) > size:
            raise ValueError("a block is truncated")
        length_of_names += shared + new
        if length_of_names > _MOST_NAMES * size:
            raise ValueError("its names are too long")
        if not shared:
            whole_keys.add(begin)
        key = key[:shared] + block[place : place + new]
        place += new
        yield key, block[place : place + length]
        place += length
    if place and not whole_keys.issuperset(struct.unpack_from(f"<{count}I", block, end)):
        raise ValueError("a block has other starts")


def _read_message(content, types):
    """Returns the fields of a message: a dict of the lists of their values; `types` has those of known fields."""
    values_by_field = {}
    for number, value in fields(content):
        if type(value) is not types.get(number):
            raise ValueError(f"a message has an unknown field {number}")
        values_by_field.setdefault(number, []).append(value)
    return values_by_field


def _read_entry(content):
    """Returns the fields of a `BundleEntryProto`, of the shape the numbers."""
    entry = {}
    for number, values in _read_message(content, _ENTRY).items():
        if len(values) > 1 and number != _SLICES:
            raise ValueError("a message has a field twice")
        entry[number] = values[0]
    entry[_SHAPE] = _read_shape(entry.get(_SHAPE, b""))
    return entry


def _read_shape(content):
    """Returns the shape of a `TensorShapeProto`."""
    axes = _read_message(content, {2: bytes, 3: int}).get(2, [])
    sizes = [_read_message(axis, {1: int}).get(1, [0])[-1] for axis in axes]
    if len(sizes) > _MOST_AXES or math.prod(size or 1 for size in sizes) >= 2**63:
        raise ValueError("a tensor is too large")
    return tuple(sizes)
