"""Features of tokenized rows in few bytes: ids in the smallest type, and segments and masks as lengths.

`compact` converts ragged tensors, and `pad_rows` of `data/bucketing.py` makes the same batches of both.
"""

import numpy as np
import tensorflow as tf

_TYPES = (np.uint8, np.uint16, np.int32)


class CompactRows:
    """A feature of rows `(rows, length)` or `(rows, choices, length)`, which stands for a `tf.RaggedTensor`.

    Attributes:
        shape: `tf.TensorShape`; the length is `None`.
        dtype: `tf.DType` of the values in batches.
    """

    shape: tf.TensorShape
    dtype: tf.DType

    def row_lengths(self):
        """Returns the length of each sequence, int64 `(rows,)` or `(rows, choices)`."""
        raise NotImplementedError

    def take(self, rows):
        """Returns the feature of some rows."""
        raise NotImplementedError

    def ragged(self, rows=None):
        """Returns the feature of some rows, or of all, as a `tf.RaggedTensor`; works in graphs, too."""
        raise NotImplementedError

    def to_list(self):
        """Returns the sequences as lists of lists."""
        return self.ragged().to_list()

    def padded(self, rows, length, padding=0):
        """Returns the feature of some rows, dense, padded to a length."""
        raise NotImplementedError

    def uniform(self, count):
        """Returns the sequences `(rows * count, length)` as `(rows, count, length)`."""
        raise NotImplementedError


class Ids(CompactRows):
    """Integers, kept in a smaller type than that of batches; `ragged` is in the smaller type."""

    def __init__(self, ragged, dtype):
        self._ragged = ragged
        self.dtype = dtype
        self.shape = ragged.shape

    @property
    def nbytes(self):
        """The number of bytes in memory."""
        tensors = (self._ragged.flat_values, *self._ragged.nested_row_splits)
        return sum(tensor.numpy().nbytes for tensor in tensors)

    def row_lengths(self):
        lengths = self._ragged.nested_row_lengths()[-1]
        return tf.reshape(lengths, [int(size) for size in self.shape[:-1]])

    def take(self, rows):
        return Ids(tf.gather(self._ragged, rows), self.dtype)

    def ragged(self, rows=None):
        taken = self._ragged
        if rows is not None:
            taken = tf.gather(taken, rows)
        return taken.with_flat_values(tf.cast(taken.flat_values, self.dtype))

    def padded(self, rows, length, padding=0):
        return pad_ragged(self.ragged(rows), rows.shape[0], self.shape, length, padding)

    def uniform(self, count):
        return Ids(tf.RaggedTensor.from_uniform_row_length(self._ragged, count), self.dtype)

    @classmethod
    def joined(cls, parts):
        """Returns the rows of several `Ids` one after another."""
        types = [part._ragged.dtype.as_numpy_dtype for part in parts]
        largest = np.result_type(*types)
        features = []
        for part in parts:
            values = tf.cast(part._ragged.flat_values, largest)
            features.append(part._ragged.with_flat_values(values))
        return cls(tf.concat(features, 0), parts[0].dtype)


class Runs(CompactRows):
    """Zeros and then ones in each sequence: segments, or a mask. `starts` are the places of the first ones."""

    def __init__(self, starts, lengths, dtype):
        self._starts = starts
        self._lengths = lengths
        self.dtype = dtype
        self.shape = tf.TensorShape([*lengths.shape, None])

    @property
    def nbytes(self):
        """The number of bytes in memory."""
        return self._starts.numpy().nbytes + self._lengths.numpy().nbytes

    def row_lengths(self):
        return tf.cast(self._lengths, tf.int64)

    def take(self, rows):
        return Runs(tf.gather(self._starts, rows), tf.gather(self._lengths, rows), self.dtype)

    def ragged(self, rows=None):
        taken = self if rows is None else self.take(rows)
        lengths = tf.reshape(tf.cast(taken._lengths, tf.int64), [-1])
        starts = tf.reshape(tf.cast(taken._starts, tf.int64), [-1])
        places = tf.ragged.range(lengths)
        values = tf.cast(places.values >= tf.gather(starts, places.value_rowids()), self.dtype)
        splits = tf.cast(places.row_splits, tf.int64)
        sequences = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        if self.shape.rank == 2:
            return sequences
        return tf.RaggedTensor.from_uniform_row_length(sequences, int(self.shape[1]))

    def padded(self, rows, length, padding=0):
        lengths = tf.cast(tf.gather(self._lengths, rows), tf.int32)[..., tf.newaxis]
        starts = tf.cast(tf.gather(self._starts, rows), tf.int32)[..., tf.newaxis]
        places = tf.range(tf.cast(length, tf.int32))
        values = tf.cast(places >= starts, self.dtype)
        values = tf.where(places < lengths, values, tf.cast(padding, self.dtype))
        return tf.ensure_shape(values, [rows.shape[0], *self.shape[1:]])

    def uniform(self, count):
        shape = [-1, count]
        return Runs(tf.reshape(self._starts, shape), tf.reshape(self._lengths, shape), self.dtype)

    @classmethod
    def joined(cls, parts):
        """Returns the rows of several `Runs` one after another."""
        starts = np.concatenate([part._starts.numpy() for part in parts])
        lengths = np.concatenate([part._lengths.numpy() for part in parts])
        return cls(_constant(starts), _constant(lengths), parts[0].dtype)


def compact(feature):
    """Returns a ragged feature of integers as `Runs` or `Ids`; any other feature as it is.

    Zeros and then ones in each sequence are `Runs`. Other features that no smaller type holds stay as they are.
    """
    if not isinstance(feature, tf.RaggedTensor) or not feature.dtype.is_integer:
        return feature
    if not _is_of_sequences(feature):
        return feature
    values = feature.flat_values.numpy()
    splits = feature.nested_row_splits[-1].numpy()
    if _are_runs(values, splits):
        return _as_runs(feature, values, splits)
    smallest = _smallest_type(values)
    if smallest.itemsize >= values.dtype.itemsize:
        return feature
    ids = _constant(values.astype(smallest))
    return Ids(feature.with_flat_values(ids), feature.dtype)


def compact_parts(parts):
    """Returns the rows of dicts of ragged features, one after another, as a dict of compact features.

    Each part is compacted when it is made, so that all rows are never there in their long form.
    """
    features = {}
    for part in parts:
        for name, feature in part.items():
            features.setdefault(name, []).append(compact(feature))
    return {name: joined(of_name) for name, of_name in features.items()}


def joined(features):
    """Returns the rows of several features, compact ones or tensors, one after another."""
    parts = list(features)
    if len(parts) == 1:
        return parts[0]
    first = type(parts[0])
    if issubclass(first, CompactRows) and all(isinstance(part, first) for part in parts):
        return first.joined(parts)
    if any(isinstance(part, CompactRows) for part in parts):
        parts = [_as_ids(part) for part in parts]
    if all(isinstance(part, Ids) for part in parts):
        return Ids.joined(parts)
    return tf.concat([as_tensor(part) for part in parts], 0)


def _as_ids(feature):
    """Returns a feature as `Ids`, where a smaller type holds it."""
    if not isinstance(feature, Runs):
        return feature
    ragged = feature.ragged()
    return Ids(ragged.with_flat_values(tf.cast(ragged.flat_values, tf.uint8)), feature.dtype)


def take(feature, rows):
    """Returns some rows of a feature, compact or a tensor."""
    if isinstance(feature, CompactRows):
        return feature.take(rows)
    return tf.gather(feature, rows)


def uniform(feature, count):
    """Returns a feature of sequences `(rows * count, length)` as `(rows, count, length)`."""
    if isinstance(feature, CompactRows):
        return feature.uniform(count)
    return tf.RaggedTensor.from_uniform_row_length(feature, count)


def as_tensor(feature):
    """Returns a feature, compact or a tensor, as a tensor."""
    if isinstance(feature, CompactRows):
        return feature.ragged()
    return feature


def sequence_lengths(feature):
    """Returns the length of each sequence of a feature as an array, `(rows,)` or `(rows, choices)`."""
    if isinstance(feature, CompactRows):
        return feature.row_lengths().numpy()
    lengths = feature.nested_row_lengths()[-1].numpy()
    if feature.ragged_rank == 1:
        return lengths
    return lengths.reshape(int(feature.nrows()), -1)


def pad_ragged(taken, rows, shape, length, padding):
    """Pads a `tf.RaggedTensor` of some rows of a feature of this shape; values other than integers with zeros."""
    static_shape = [rows, *shape[1:]]
    dense_shape = []
    for size in static_shape:
        dense_shape.append(-1 if size is None else size)
    dense_shape[taken.ragged_rank] = length
    pad_value = padding if taken.dtype.is_integer else None
    dense = taken.to_tensor(pad_value, shape=tf.stack(dense_shape))
    return tf.ensure_shape(dense, static_shape)


def _is_of_sequences(feature):
    """Whether the values of a ragged feature are numbers, in sequences of which each row has one, or equally many."""
    if feature.flat_values.shape.rank != 1:
        return False
    return feature.shape.rank == 2 or (feature.shape.rank == 3 and feature.shape[1] is not None)


def _are_runs(values, splits):
    """Whether each sequence is zeros and then ones."""
    if values.size and (values.min() < 0 or values.max() > 1):
        return False
    falls = np.flatnonzero(values[1:] < values[:-1]) + 1
    is_start = np.zeros(len(values) + 1, bool)
    is_start[splits] = True
    return bool(is_start[falls].all())


def _as_runs(feature, values, splits):
    """Returns a feature whose sequences are zeros and then ones as `Runs`."""
    ones_before = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    lengths = np.diff(splits)
    ones = ones_before[splits[1:]] - ones_before[splits[:-1]]
    smallest = _smallest_type(lengths)
    shape = [int(size) for size in feature.shape[:-1]]
    starts = _constant((lengths - ones).astype(smallest).reshape(shape))
    return Runs(starts, _constant(lengths.astype(smallest).reshape(shape)), feature.dtype)


def _smallest_type(values):
    """Returns the smallest type that holds all values, their own one if that is none of `_TYPES`."""
    if not values.size:
        return np.dtype(_TYPES[0])
    lowest = int(values.min())
    highest = int(values.max())
    for integer in _TYPES:
        limits = np.iinfo(integer)
        if limits.min <= lowest and highest <= limits.max:
            return np.dtype(integer)
    return values.dtype


def _constant(values):
    """Returns an array as a tensor on the CPU."""
    with tf.device("CPU:0"):  # Batches are made there.
        return tf.constant(values)
