"""Features of rows: ragged tensors, compact ones and dense ones; their lengths, and some rows of them, padded."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert.data.token_rows import CompactRows, pad_ragged, sequence_lengths


def to_tensors(value):
    """Returns a feature, or a dict of them, as tensors; compact features and `None` stay as they are."""
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if value is None or isinstance(value, CompactRows):
        return value
    with tf.device("CPU:0"):  # Batches are made there.
        if isinstance(value, tf.RaggedTensor):
            return tf.nest.map_structure(tf.identity, value, expand_composites=True)
        return tf.convert_to_tensor(value)


def pad_rows(feature, rows, length, padding=0):
    """Gathers rows of a feature; ragged integers are padded with `padding`, other ragged values with zeros."""
    if feature is None:
        return None
    if isinstance(feature, CompactRows):
        return feature.padded(rows, length, padding)
    taken = tf.gather(feature, rows)
    if isinstance(feature, tf.RaggedTensor):
        return pad_ragged(taken, rows.shape[0], feature.shape, length, padding)
    return taken


def is_ragged(feature):
    """Whether the rows of a feature have lengths of their own."""
    return isinstance(feature, tf.RaggedTensor | CompactRows)


def longest_sequences(feature):
    """Returns the length of the longest sequence of each row of a ragged feature, `(rows,)`."""
    lengths = sequence_lengths(feature)
    return lengths.reshape(len(lengths), -1).max(axis=1)


def row_lengths(inputs, targets):
    """Returns the length of the longest sequence of each row, `(rows,)`; raises for features that have no batches."""
    features = _named_features(inputs, targets)
    row_counts = {name: _row_count(feature) for name, feature in features.items()}
    if len(set(row_counts.values())) != 1 or 0 in row_counts.values():
        raise ValueError(f"all features must have the same number of rows, at least one. Received: rows={row_counts}")
    lengths = []
    for name, feature in features.items():
        if is_ragged(feature):
            _check_ragged(name, feature)
            lengths.append(longest_sequences(feature))
    if not lengths:
        raise ValueError(
            "at least one feature must be a `tf.RaggedTensor`; see `tf.RaggedTensor.from_tensor`. "
            f"Received: dense {', '.join(features)}"
        )
    return np.max(lengths, axis=0)


def _named_features(inputs, targets):
    """Returns all features that are not `None` by name, such as `inputs.token_ids`."""
    features = {}
    for path, feature in keras.tree.flatten_with_path({"inputs": inputs, "targets": targets}):
        if feature is not None:
            features[".".join(map(str, path))] = feature
    return features


def _row_count(feature):
    """Returns the number of rows of a feature."""
    if isinstance(feature, CompactRows):
        return int(feature.shape[0])
    return int(tf.shape(feature)[0])


def _check_ragged(name, feature):
    """Raises for a ragged feature that cannot be padded."""
    if name.startswith("targets") and feature.dtype.is_unsigned:
        raise ValueError(
            f"`{name}` must be signed integers, as ragged targets are padded with -1. "
            f"Received: {name}.dtype={feature.dtype.name}"
        )
    outer_axes = []
    if isinstance(feature, tf.RaggedTensor):
        outer_axes = feature.shape[1 : feature.ragged_rank].as_list()
    if None in outer_axes:
        raise ValueError(
            f"`{name}` must be ragged in one axis, `(rows, length)` or `(rows, choices, length)`; see "
            f"`tf.RaggedTensor.from_uniform_row_length`. Received: {name}.shape={feature.shape}"
        )
