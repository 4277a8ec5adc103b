"""Packs tokens into model inputs: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded to a length. BERT, section 3.

Some vocabularies have two `[SEP]` between the texts of a pair.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_bert.text.long_texts import HEAD_TAIL, TAIL
from keras_bert.text.token_counts import READ, TOKENS


@dataclasses.dataclass(frozen=True)
class Packing:
    """How the tokens of texts become sequences for a model: which of them fit, and how sequences are padded.

    Args:
        vocabulary: `Vocabulary`.
        sequence_length: int, the maximum number of tokens of a sequence, including `[CLS]` and `[SEP]`.
        reading: `Reading` with one view, the tokens that are kept of a text that is too long.
        only_second: bool, whether only the second text of a pair is truncated, see `truncated_lengths`.
        padding: as for `TextPreprocessor`.
    """

    vocabulary: Any
    sequence_length: int
    reading: Any
    only_second: bool
    padding: str | int

    def pack(self, first, second=None):
        """Returns the model inputs of ragged ids `(batch, tokens)`, dense int32 tensors `(batch, length)`."""
        if second is None:
            kept = self._kept(first, self.room())
            length = self._length(kept.row_lengths() + 2)
            return _sequences(kept, None, length, self.vocabulary)
        first_length, second_length = truncated_lengths(
            first.row_lengths(), second.row_lengths(), self.room(pair=True), self.only_second
        )
        length = self._length(first_length + second_length + 2 + self.vocabulary.pair_separators)
        kept_first = self._kept(first, first_length)
        kept_second = self._kept(second, second_length)
        return _sequences(kept_first, kept_second, length, self.vocabulary)

    def question_room(self, max_question_length):
        """Returns the maximum number of tokens of a question, whose context has at least half of the room of a pair.

        The same for training, scores and SavedModels.
        """
        return min(max_question_length, self.room(pair=True) // 2)

    def room(self, pair=False):
        """Returns the number of tokens of texts that fit, beside `[CLS]` and each `[SEP]`."""
        room = self.sequence_length - 2
        if pair:
            room -= self.vocabulary.pair_separators
        return room

    def views(self, lengths):
        """Returns the `Views` of single texts of these numbers of tokens, `(batch,)`."""
        return self.reading.unchecked_views(lengths, self.room())

    def token_counts(self, first, second=None):
        """Returns how many tokens texts have, and how many of them `pack` keeps, see `text.token_counts`.

        `first` and `second` are ragged ids `(batch, tokens)`. Returns a dict of int32 `(batch,)`.
        """
        lengths = first.row_lengths() + 2
        if second is not None:
            lengths += second.row_lengths() + self.vocabulary.pair_separators
        tokens = tf.cast(lengths, tf.int32)
        return {TOKENS: tokens, READ: tf.minimum(tokens, self.sequence_length)}

    def _kept(self, tokens, room):
        """Returns the tokens that are read of ragged ids `(batch, tokens)`: at most `room`, a number or `(batch,)`."""
        if self.reading.name == HEAD_TAIL:
            return self.reading.unchecked_views(tokens.row_lengths(), room).take(tokens)
        side = "left" if self.reading.name == TAIL else "right"
        return cut(tokens, room, side)

    def _length(self, lengths):
        """Returns the length of sequences with padding, given those without, `(batch,)`."""
        if self.padding == "fixed":
            return self.sequence_length
        longest = tf.reduce_max(tf.pad(tf.cast(lengths, tf.int32), [[0, 1]], constant_values=2))
        multiple = 1 if self.padding == "longest" else self.padding
        padded = (longest + multiple - 1) // multiple * multiple
        return tf.minimum(padded, self.sequence_length)


def truncated_lengths(first, second, room, only_second: bool = False):
    """Computes the lengths of a pair after truncation to `room` tokens, for inference, fine-tuning and pre-training.

    Google's rule: the longer text is truncated until both fit; if both are equally long, the second one. `first` and
    `second` are lengths `(batch,)`. With `only_second`, the first text is truncated only if it alone is too long.
    """
    most_of_first = room if only_second else tf.maximum(room - second, (room + 1) // 2)
    truncated_first = tf.minimum(first, most_of_first)
    return truncated_first, tf.minimum(second, room - truncated_first)


def _sequences(first, second, length, vocabulary):
    """Packs ragged ids `(batch, tokens)`, which must fit, into `token_ids`, `segment_ids` and `padding_mask`.

    These are dense int32 tensors `(batch, length)`. `second` may be `None`. The `Vocabulary` defines the ids of
    `[CLS]`, `[SEP]` and `[PAD]`, whether pairs have segments, and how many `[SEP]` are between them.
    """
    start, end, pad = vocabulary.ids(["[CLS]", "[SEP]", "[PAD]"])
    position = tf.range(length)[tf.newaxis]
    first_end = tf.cast(first.row_lengths(), tf.int32)[:, tf.newaxis] + 1
    ids_of_first = tf.where(position < first_end, _at(first, position - 1), end)
    ids = tf.where(position == 0, start, ids_of_first)
    last = first_end  # The position of the last [SEP].
    if second is not None:
        second_start = first_end + vocabulary.pair_separators
        last = second_start + tf.cast(second.row_lengths(), tf.int32)[:, tf.newaxis]
        is_within = (position >= second_start) & (position < last)
        ids = tf.where(is_within, _at(second, position - second_start), ids)
    is_real = position <= last
    is_second = is_real & (position > first_end) & vocabulary.pair_segments
    return {
        "token_ids": tf.where(is_real, ids, pad),
        "segment_ids": tf.cast(is_second, tf.int32),
        "padding_mask": tf.cast(is_real, tf.int32),
    }


def _at(ragged, position):
    """Gathers values at positions relative to the start of each row; arbitrary values for positions outside the row."""
    flat = tf.cast(ragged.row_starts(), tf.int32)[:, tf.newaxis] + position
    values = tf.pad(ragged.values, [[0, 1]])  # There may be none.
    return tf.gather(values, tf.clip_by_value(flat, 0, tf.size(values) - 1))


def select(keep, *ragged):
    """Returns ragged tensors of the same rows with the values where `keep`, a bool vector, is true.

    `tf.ragged.boolean_mask` of each would take ten times as long to trace.
    """
    places = tf.where(keep)[:, 0]
    before = tf.pad(tf.cumsum(tf.cast(keep, ragged[0].row_splits.dtype)), [[1, 0]])
    splits = tf.gather(before, ragged[0].row_splits)
    selected = []
    for each in ragged:
        values = tf.gather(each.values, places)
        selected.append(tf.RaggedTensor.from_row_splits(values, splits, validate=False))
    return tuple(selected)


def first_of_rows(ragged):
    """Returns which values of a ragged tensor `(batch, tokens)` are the first ones of their rows, a bool vector."""
    count = tf.size(ragged.values, ragged.row_splits.dtype)
    first = tf.boolean_mask(ragged.row_starts(), ragged.row_lengths() > 0)
    return tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first, tf.bool), count[tf.newaxis])


def cut(ragged, lengths, side="right"):
    """Truncates the rows of a ragged tensor `(batch, tokens)` to `lengths`, a scalar or `(batch,)`, at a side."""
    starts = ragged.row_starts()
    ends = ragged.row_limits()
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
