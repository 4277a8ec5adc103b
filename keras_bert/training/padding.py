"""Features of rows as tensors, padded to the length of their batch."""

import keras
import numpy as np
import tensorflow as tf


def pad_rows(feature, rows, length, padding=0):
    """Gathers rows of a feature; ragged integers are padded with `padding`, other ragged values with zeros."""
    if feature is None:
        return None
    taken = tf.gather(feature, rows)
    if isinstance(feature, tf.RaggedTensor):
        shape = [rows.shape[0], *feature.shape[1:]]
        padded = [-1 if size is None else size for size in shape]
        padded[feature.ragged_rank] = length
        pad_value = padding if feature.dtype.is_integer else None
        taken = tf.ensure_shape(taken.to_tensor(pad_value, shape=tf.stack(padded)), shape)
    return taken


def to_tensors(value):
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if value is None:
        return None
    with tf.device("CPU:0"):  # Batches are made there.
        if isinstance(value, tf.RaggedTensor):
            return tf.nest.map_structure(tf.identity, value, expand_composites=True)
        return tf.convert_to_tensor(value)


def longest_sequences(feature):
    """Returns the length of the longest sequence of each row of a `tf.RaggedTensor`, `(rows,)`."""
    rows = int(feature.nrows())
    return feature.nested_row_lengths()[-1].numpy().reshape(rows, -1).max(axis=1)


def row_lengths(inputs, targets):
    """Returns the length of the longest sequence of each row, `(rows,)`."""
    features = keras.tree.flatten_with_path({"inputs": inputs, "targets": targets})
    features = {".".join(map(str, path)): feature for path, feature in features if feature is not None}
    rows = {name: int(tf.shape(feature)[0]) for name, feature in features.items()}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise ValueError(f"all features must have the same number of rows, at least one. Received: rows={rows}")
    ragged = {name: feature for name, feature in features.items() if isinstance(feature, tf.RaggedTensor)}
    if not ragged:
        raise ValueError(
            "at least one feature must be a `tf.RaggedTensor`; see `tf.RaggedTensor.from_tensor`. "
            f"Received: dense {', '.join(features)}"
        )
    lengths = []
    for name, feature in ragged.items():
        if name.startswith("targets") and feature.dtype.is_unsigned:
            raise ValueError(
                f"`{name}` must be signed integers, as ragged targets are padded with -1. "
                f"Received: {name}.dtype={feature.dtype.name}"
            )
        if None in feature.shape[1 : feature.ragged_rank].as_list():
            raise ValueError(
                f"`{name}` must be ragged in one axis, `(rows, length)` or `(rows, choices, length)`; see "
                f"`tf.RaggedTensor.from_uniform_row_length`. Received: {name}.shape={feature.shape}"
            )
        lengths.append(longest_sequences(feature))
    return np.max(lengths, axis=0)
