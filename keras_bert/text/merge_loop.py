"""Byte-pair encoding inside the graph, join by join: for merges that SentencePiece's op does not do alike."""

import numpy as np
import tensorflow as tf

from keras_bert.text import merges
from keras_bert.text.byte_characters import CHARACTERS
from keras_bert.text.tokenizer import constant

_NEVER = 2**62  # Above every rank and place.
_PLACES = 2**32  # More than there are bytes in a batch.


class MergeLoop:
    """Splits words into the pieces of a vocabulary of byte-level BPE.

    Each pass joins the first pair with the lowest rank of every word that has one, so that the time grows with the
    square of the length of the longest word.
    """

    def __init__(self, vocabulary):
        self._pieces = len(vocabulary)
        by_pair = {}
        for merge in merges.parsed(vocabulary.merges):
            by_pair[vocabulary.id(merge.left) * self._pieces + vocabulary.id(merge.right)] = merge
        keys = sorted(by_pair)
        sorted_merges = [by_pair[key] for key in keys]
        # The last entry is one that no pair has, for vocabularies without merges.
        ranks = [merge.rank for merge in sorted_merges]
        wholes = [vocabulary.id(merge.whole) for merge in sorted_merges]
        self._keys = constant([*keys, _NEVER], tf.int64)
        self._ranks = constant([*ranks, 0], tf.int64)
        self._wholes = constant([*wholes, 0], tf.int32)
        self._of_bytes = constant(np.array(vocabulary.ids(CHARACTERS)), tf.int32)

    def tokenize(self, words):
        """Returns ragged ids of strings `(words,)`."""
        count = tf.size(words, tf.int64)
        sizes = tf.cast(tf.strings.length(words), tf.int64)
        content = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._of_bytes, tf.cast(content, tf.int32))
        rows = tf.repeat(tf.range(count), sizes)
        flat = tf.TensorShape([None])
        _, ids, rows = tf.while_loop(
            lambda more, ids, rows: more,
            self._join_once,
            [tf.constant(True), ids, rows],
            shape_invariants=[tf.TensorShape([]), flat, flat],
        )
        return tf.RaggedTensor.from_value_rowids(ids, rows, nrows=count, validate=False)

    def _join_once(self, _, ids, rows):
        """Joins one pair of every word; returns whether there was any, and the pieces with the words they are of."""
        place = tf.range(tf.size(ids, tf.int64))
        order, whole = self._order_of_pairs(ids, rows, place)
        best = tf.math.unsorted_segment_min(order, rows, tf.reduce_max(tf.pad(rows + 1, [[0, 1]])))
        is_best = (order < _NEVER) & (order == tf.gather(best, rows))
        is_second = tf.concat([tf.zeros_like(is_best[:1]), is_best[:-1]], 0)
        joined = tf.where(is_best, whole, ids)
        joined_ids = tf.boolean_mask(joined, ~is_second)
        joined_rows = tf.boolean_mask(rows, ~is_second)
        return tf.reduce_any(is_best), joined_ids, joined_rows

    def _order_of_pairs(self, ids, rows, place):
        """Returns for each piece with the one after it: when they are joined, first by rank, then by place; the result.

        Pairs without a rank, and those of two words, come never.
        """
        following = tf.concat([ids[1:], tf.zeros_like(ids[:1])], 0)
        is_pair = tf.concat([rows[1:] == rows[:-1], tf.zeros_like(rows[:1], tf.bool)], 0)
        keys = tf.cast(ids, tf.int64) * self._pieces + tf.cast(following, tf.int64)
        entry = tf.searchsorted(self._keys, keys)
        has_rank = is_pair & (tf.gather(self._keys, entry) == keys)
        order = tf.gather(self._ranks, entry) * _PLACES + place
        return tf.where(has_rank, order, _NEVER), tf.gather(self._wholes, entry)
