"""Canonical order and composition of Unicode's normal forms, on the code points of texts, inside the graph.

A stage takes strings `(texts,)` and returns them changed, with ragged offsets `(texts, bytes + 1)`: where the character
of each byte starts in the given text, and its end.
"""

import functools
import sys
import unicodedata

import numpy as np
import tensorflow as tf

from keras_bert.text.normalization import ranges

_PAIR = 2**21  # Above every code point.


@functools.cache
def marks():
    """Returns the characters with a combining class other than 0."""
    return [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char)]


@functools.cache
def _pairs():
    """Returns the pairs of characters that compose, as sorted numbers, and the code points of their composites."""
    pairs = {}
    for char in map(chr, range(sys.maxunicode + 1)):
        whole = unicodedata.normalize("NFD", char)
        if len(whole) > 1 and unicodedata.normalize("NFC", whole) == char:
            first, second = unicodedata.normalize("NFC", whole[:-1]), whole[-1]
            pairs[ord(first) * _PAIR + ord(second)] = ord(char)
    keys = sorted(pairs)
    return np.array(keys, np.int64), np.array([pairs[key] for key in keys], np.int32)


def sort_marks(texts):
    """A stage that sorts the marks after each letter by their combining class."""
    mark = f"[{ranges(map(ord, marks()))}]"
    letter = mark.replace("[", "[^", 1)
    sorted_already = tf.reduce_all(tf.strings.regex_full_match(texts, f"(?:{mark}?{letter})*{mark}?"))
    return tf.cond(sorted_already, lambda: unchanged(texts), lambda: _sort(texts))


def _sort(texts):
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    combining = _combining(points.values)
    letter = tf.cast(_is_leader(combining, points.value_rowids()), tf.int64)
    order = tf.argsort(tf.cumsum(letter) * 256 + tf.cast(combining, tf.int64), stable=True)
    # Offsets stay in order, as in the library: marks that change places change their ranges too.
    return _encode(texts, points.with_values(tf.gather(points.values, order)), starts)


def needs_composition(texts):
    """Returns whether any text may have characters that compose."""
    seconds = {int(key % _PAIR) for key in _pairs()[0]} | set(map(ord, marks()))
    return ~tf.reduce_all(tf.strings.regex_full_match(texts, f"[^{ranges(sorted(seconds))}]*"))


def compose(texts):
    """A stage that composes decomposed, sorted texts."""
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    flat = [points.values, tf.cast(starts.values, tf.int64), points.value_rowids()]
    shapes = [tf.TensorShape([None])] * 3
    # Each pass composes the first pair of each letter.
    flat = tf.while_loop(lambda more, *flat: more, _compose_once, [True, *flat], [tf.TensorShape([]), *shapes])[1:]
    points, starts = (tf.RaggedTensor.from_value_rowids(values, flat[2], points.nrows()) for values in flat[:2])
    return _encode(texts, points, starts)


def _compose_once(_, points, starts, rows):
    keys, composites = map(tf.constant, _pairs())
    combining, place = _combining(points), tf.range(tf.size(points))
    is_leader = _is_leader(combining, rows)
    leader = tf.gather(tf.where(is_leader)[:, 0], tf.cumsum(tf.cast(is_leader, tf.int32)) - 1)
    leader = tf.cast(tf.concat([leader[:1], leader[:-1]], 0), tf.int32)  # Of the previous character.
    before = tf.concat([combining[:1], combining[:-1]], 0)
    is_free = (rows == tf.gather(rows, leader)) & (place > 0) & ((leader == place - 1) | (before < combining))
    pairs = tf.cast(tf.gather(points, leader), tf.int64) * _PAIR + tf.cast(points, tf.int64)
    found = tf.minimum(tf.searchsorted(keys, pairs), tf.size(keys) - 1)
    second = tf.where(is_free & (tf.gather(keys, found) == pairs))[:, 0]
    first = tf.gather(leader, second)
    is_next = tf.concat([tf.ones_like(first[:1], tf.bool), first[1:] != first[:-1]], 0)
    first, second = tf.boolean_mask(first, is_next), tf.boolean_mask(second, is_next)
    composed = tf.gather(composites, tf.gather(found, second))
    points = tf.tensor_scatter_nd_update(points, first[:, tf.newaxis], composed)
    keep = tf.tensor_scatter_nd_update(
        tf.ones_like(points, tf.bool), second[:, tf.newaxis], tf.zeros_like(second, tf.bool)
    )
    points, starts, rows = (tf.boolean_mask(values, keep) for values in (points, starts, rows))
    return tf.size(second) > 0, points, starts, rows


def _combining(points):
    """Returns the combining classes of code points."""
    known = tf.constant(list(map(ord, marks())), tf.int32)
    place = tf.minimum(tf.searchsorted(known, points), tf.size(known) - 1)
    classes = tf.constant(list(map(unicodedata.combining, marks())), tf.int32)
    return tf.where(tf.gather(known, place) == points, tf.gather(classes, place), 0)


def _is_leader(combining, rows):
    """Returns which characters marks may follow: those without a combining class, and the first of each text."""
    is_first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)
    return (combining == 0) | is_first


def _encode(texts, points, starts):
    """Returns code points as strings, and the offsets of their bytes, from those of their characters in `texts`."""
    encoded = tf.strings.unicode_encode(points, "UTF-8")
    limits = tf.constant([0x7F, 0x7FF, 0xFFFF])
    widths = 1 + tf.reduce_sum(tf.cast(points.values[:, tf.newaxis] > limits, tf.int32), 1)
    origins = tf.repeat(tf.cast(starts.values, tf.int64), widths)
    return encoded, with_end(origins, encoded, texts)


def with_end(origins, changed, texts):
    """Returns the offsets of all bytes of the changed texts as ragged rows, and the ends of the original texts."""
    origins = tf.RaggedTensor.from_row_lengths(origins, _lengths(changed))
    return tf.concat([origins, _lengths(texts)[:, tf.newaxis]], 1)


def unchanged(texts):
    """A stage that does nothing."""
    return texts, tf.ragged.range(_lengths(texts) + 1)


def _lengths(texts):
    return tf.cast(tf.strings.length(texts), tf.int64)
