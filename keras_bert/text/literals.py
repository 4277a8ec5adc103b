"""Strings that are always a single token. They are extracted before the text is split into words."""

import re
from typing import NamedTuple

import tensorflow as tf

_LARGEST = 2**63 - 1


class Parts(NamedTuple):
    """Texts split into parts, some of which are tokens."""

    row_splits: tf.Tensor  # Row splits of the parts of each text.
    rest: tf.Tensor  # The parts as strings, `(parts,)`; tokens are empty.
    is_token: tf.Tensor  # Bool, `(parts,)`.
    ids: tf.Tensor  # The ids of the tokens, `(tokens,)`.
    starts: tf.Tensor  # The byte offsets of the parts, `(parts,)`.
    ends: tf.Tensor


class Literals:
    """Finds strings in texts from left to right, longest match first. A text takes 15 us with 100 strings.

    Args:
        ids: dict that maps strings to ids.
    """

    def __init__(self, ids):
        longest_first = sorted(ids, key=lambda string: (-len(string), string))
        self._pattern = "|".join(map(re.escape, longest_first))
        with tf.init_scope(), tf.device("cpu"):
            hashes = _hash(tf.constant(list(ids), tf.string))
            order = tf.argsort(hashes)
            self._hashes = tf.gather(hashes, order)
            self._ids = tf.gather(tf.constant(list(ids.values()), tf.int32), order)

    def split(self, texts):
        """Splits strings `(texts,)` into `Parts`."""
        import tensorflow_text

        parts, starts, ends = tensorflow_text.regex_split_with_offsets(texts, self._pattern, self._pattern)
        # A part either is a token or contains none, so its hash identifies the token.
        hashes = _hash(parts.values)
        place = tf.minimum(tf.searchsorted(self._hashes, hashes), tf.size(self._hashes) - 1)
        is_token = tf.gather(self._hashes, place) == hashes
        rest = tf.where(is_token, "", parts.values)
        ids = tf.gather(self._ids, tf.boolean_mask(place, is_token))
        return Parts(parts.row_splits, rest, is_token, ids, starts.values, ends.values)


def join(parts, ids, *offsets):
    """Joins the pieces of all parts of each text.

    Args:
        parts: `Parts`.
        ids: int32 ids of the pieces, ragged `(parts, pieces)`.
        *offsets: optional, the starts and ends of the pieces within their part.

    Returns:
        Ragged tensors `(texts, pieces)`: `(ids,)`, or `(ids, starts, ends)` with offsets in the text.
    """

    def joined(tokens, values):
        tokens = tf.RaggedTensor.from_row_lengths(tokens, tf.cast(parts.is_token, tf.int64))
        both = tf.concat([tokens, values], 1)
        return tf.RaggedTensor.from_row_splits(both.values, tf.gather(both.row_splits, parts.row_splits))

    def joined_offsets(of_parts, offsets):
        of_parts, begin = tf.cast(of_parts, offsets.dtype), tf.cast(parts.starts, offsets.dtype)
        moved = offsets.values + tf.gather(begin, offsets.value_rowids())
        return joined(tf.boolean_mask(of_parts, parts.is_token), offsets.with_values(moved))

    return joined(parts.ids, ids), *map(joined_offsets, (parts.starts, parts.ends), offsets)


def _hash(strings):
    return tf.strings.to_hash_bucket_fast(strings, _LARGEST)
