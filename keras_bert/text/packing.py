"""Packs tokens into model inputs: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded to a length. BERT, section 3.

Some vocabularies have two `[SEP]` between the texts of a pair.
"""

import tensorflow as tf


def truncated_lengths(first, second, room, only_second: bool = False):
    """Computes the lengths of a pair after truncation to `room` tokens, for inference, fine-tuning and pre-training.

    Google's rule: the longer text is truncated until both fit; if both are equally long, the second one. `first` and
    `second` are lengths `(batch,)`. With `only_second`, the first text is truncated only if it alone is too long.
    """
    least = room if only_second else tf.maximum(room - second, (room + 1) // 2)
    first = tf.minimum(first, least)
    return first, tf.minimum(second, room - first)


def pack(first, second, length, vocabulary):
    """Packs ragged ids `(batch, tokens)`, which must fit, into `token_ids`, `segment_ids` and `padding_mask`.

    These are dense int32 tensors `(batch, length)`. `second` may be `None`. The `Vocabulary` defines the ids of
    `[CLS]`, `[SEP]` and `[PAD]`, whether pairs have segments, and how many `[SEP]` are between them.
    """
    position, separators = tf.range(length)[tf.newaxis], vocabulary.pair_separators
    start, end, pad = vocabulary.ids(["[CLS]", "[SEP]", "[PAD]"])
    first_end = tf.cast(first.row_lengths(), tf.int32)[:, tf.newaxis] + 1
    ids = tf.where(position == 0, start, tf.where(position < first_end, _at(first, position - 1), end))
    last = first_end
    if second is not None:
        last = first_end + tf.cast(second.row_lengths(), tf.int32)[:, tf.newaxis] + separators
        within = (position >= first_end + separators) & (position < last)
        ids = tf.where(within, _at(second, position - first_end - separators), ids)
    real = position <= last
    is_second = real & (position > first_end) & vocabulary.pair_segments
    return {
        "token_ids": tf.where(real, ids, pad),
        "segment_ids": tf.cast(is_second, tf.int32),
        "padding_mask": tf.cast(real, tf.int32),
    }


def _at(ragged, position):
    """Gathers values at positions relative to the start of each row; arbitrary values for positions outside the row."""
    flat = tf.cast(ragged.row_starts(), tf.int32)[:, tf.newaxis] + position
    values = tf.pad(ragged.values, [[0, 1]])
    return tf.gather(values, tf.clip_by_value(flat, 0, tf.size(values) - 1))


def select(keep, *ragged):
    """Returns ragged tensors of the same rows with the values where `keep`, a bool vector, is true.

    `tf.ragged.boolean_mask` of each would take ten times as long to trace.
    """
    places = tf.where(keep)[:, 0]
    before = tf.pad(tf.cumsum(tf.cast(keep, ragged[0].row_splits.dtype)), [[1, 0]])
    splits = tf.gather(before, ragged[0].row_splits)
    return tuple(
        tf.RaggedTensor.from_row_splits(tf.gather(each.values, places), splits, validate=False) for each in ragged
    )


def cut(ragged, lengths, side="right"):
    """Truncates the rows of a ragged tensor `(batch, tokens)` to `lengths`, a scalar or `(batch,)`, at a side."""
    starts, ends = ragged.row_starts(), ragged.row_limits()
    kept = tf.minimum(ragged.row_lengths(), tf.cast(lengths, starts.dtype))
    if side == "left":
        return ranges(ragged, ends - kept, ends)
    return ranges(ragged, starts, starts + kept)


def ranges(ragged, first, limits):
    """Returns ranges of the values of a ragged tensor `(batch, tokens, ...)`, ragged `(ranges, tokens, ...)`.

    `first` and `limits` `(ranges,)` are places in the values of all rows, of the type of the row splits.
    """
    places = tf.ragged.range(first, limits, row_splits_dtype=first.dtype)
    return places.with_values(tf.gather(ragged.values, places.values))


def unpadded(packed):
    """Returns model inputs `(batch, length)` without padding, a dict of ragged tensors."""
    lengths = tf.reduce_sum(packed["padding_mask"], axis=-1)
    return {name: tf.RaggedTensor.from_tensor(ids, lengths) for name, ids in packed.items()}
