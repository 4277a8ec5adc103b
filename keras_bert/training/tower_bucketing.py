"""Batches of queries and passages, each padded to lengths of their own."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.training.boundaries import fit_boundaries
from keras_bert.training.bucketing import Batches
from keras_bert.training.padding import longest_sequences, pad_rows

_GROUPS = 16  # Of similar rows; more than in `Batches`, since the towers of a row differ in length.
_LENGTHS = 24  # That a tower is padded to.


class TowerBatches(Batches):
    """`Batches` whose features are those of several towers: the part of a name before the first `_` is the tower.

    The features of a tower are padded to the longest row of the batch in this tower, rounded up to one of at most 24
    lengths: questions are not padded to the length of passages.

    Example:
        batches = TowerBatches({"query_token_ids": ..., "passage_token_ids": ...}, targets, grouped=False)
    """

    def __init__(self, inputs: Any, targets: Any = None, *, batch_size: int = 32, **options):
        super().__init__(inputs, targets, batch_size=batch_size, **options)
        self._tower_lengths = {}
        for name, feature in self._features[0].items():
            tower = _tower(name)
            self._tower_lengths[tower] = np.maximum(self._tower_lengths.get(tower, 1), longest_sequences(feature))
        self._tower_boundaries = {
            tower: fit_boundaries(values, _LENGTHS) for tower, values in self._tower_lengths.items()
        }

    def longest(self, name):
        return int(self._tower_boundaries[_tower(name)][-1])

    def _fit(self, lengths):
        return fit_boundaries(lengths, _GROUPS)

    def _inputs(self, rows, length):
        lengths = {tower: self._length(tower, rows) for tower in self._tower_lengths}
        return {name: pad_rows(feature, rows, lengths[_tower(name)]) for name, feature in self._features[0].items()}

    def _length(self, tower, rows):
        """Returns the length to pad some rows of a tower to."""
        longest = tf.reduce_max(tf.gather(self._tower_lengths[tower].astype("int32"), rows))
        boundaries = tf.constant(self._tower_boundaries[tower], tf.int32)
        return tf.gather(boundaries, tf.searchsorted(boundaries, longest[None])[0])


def _tower(name):
    return name.partition("_")[0]
