"""Selects positions of sequences."""

from keras import ops


def take_positions(sequences, positions):
    """Returns the vectors of `(batch, length, width)` sequences at `(batch, count)` positions."""
    batch, length, width = ops.shape(sequences)
    # In flattened rows, a position outside its sequence would read another sequence. It is moved past the end, which
    # raises an error on CPU.
    inside = ops.logical_and(positions >= 0, positions < length)
    rows = positions + ops.arange(batch, dtype=positions.dtype)[:, None] * length
    rows = ops.where(inside, rows, batch * length)
    return ops.take(ops.reshape(sequences, (-1, width)), rows, axis=0)
