"""Long texts for one model: their views, packed as sequences, and one answer of the outputs of the views."""

import abc
import functools
import itertools

import numpy as np
import tensorflow as tf

from keras_bert.text import joins
from keras_bert.text.packing import unpadded
from keras_bert.text.spans import best_spans
from keras_bert.text.token_counts import COUNT, READ, TOKENS
from keras_bert.text.views import max_context

_PACKED = 4096  # Views to pack at a time; each time costs as much as some thousand views.
_ROWS = 32  # Views per model call; more would only need more memory.


class ViewedRows(abc.ABC):
    """Rows of texts of any length as the views that a model reads: what texts alone and texts with choices share.

    Args:
        packing: `Packing`.
        views: `Views` of all rows.
        tokens: ragged ids `(texts, tokens)`.
        lengths: int32 `(rows,)`, the number of tokens of the text of each row.
        offsets: pair of ragged ints `(texts, tokens)`, where each token starts and ends in its text, for `strongest`.
        left_out: `(rows,)`, how many tokens beside those of the text are not read, for `token_counts`.
    """

    def __init__(self, packing, views, tokens, lengths, offsets=None, left_out=0):
        self.views = views
        self._packing = packing
        self._tokens = tokens
        self._lengths = lengths
        self._offsets = offsets
        self._left_out = left_out

    # From views to sequences.

    @abc.abstractmethod
    def packed(self, first=0, last=None):
        """Returns the model inputs of a range of views."""

    @abc.abstractmethod
    def _lengths_of_others(self):
        """Returns the number of tokens beside those of the text of each row: [CLS], each [SEP], other texts."""

    def token_counts(self):
        """Returns how many tokens the rows have, how many are read, and in how many views, see `text.token_counts`."""
        others = self._lengths_of_others()
        read = tf.math.segment_max(self.views.limits(), self.views.row)
        count = tf.math.segment_sum(tf.ones_like(self.views.row), self.views.row)
        return {TOKENS: self._lengths + others + self._left_out, READ: read + others, COUNT: count}

    def ragged_parts(self, first=0, last=None):
        """Yields the model inputs of a range of views without padding, those of a few thousand views at a time."""
        for begin, end in self._ranges(first, last):
            yield unpadded(self.packed(begin, end))

    def _ranges(self, first, last):
        """Yields ranges of a few thousand views."""
        count = len(self.views.row)
        end = count if last is None else min(last, count)
        for begin in range(first, max(end, first + 1), _PACKED):  # No views are a part, too.
            yield begin, min(begin + _PACKED, end)

    def _part(self, first, last):
        """Returns a range of the views."""
        if not first and last is None:
            return self.views
        return self.views.part(first, last)

    # From outputs of views to one answer.

    def outputs(self, model):
        """Returns the outputs of a model for all views by name, `(views, ...)`, such as `(views, positions, ...)`."""
        return outputs_in_parts(model, self.packed())

    def mean(self, values):
        """Returns the mean of the outputs of the views of each row, float32 `(rows, ...)`."""
        return joins.mean(values, self.views.row)

    def log_mean_exp(self, values):
        """Returns the logarithm of the mean of the exponentials of the outputs of the views of each row, float32."""
        return joins.log_mean_exp(values, self.views.row)

    def maximum(self, values):
        """Returns the maximum of the outputs of the views of each row, float32 `(rows, ...)`."""
        return tf.math.segment_max(tf.cast(values, tf.float32), self.views.row)

    def strongest(self, scores):
        """Returns where the view with the highest score of each row starts and ends in its text, int32 `(rows,)` each.

        `scores` are float `(views,)`. Of several views, the first one counts. An empty view is from 0 to 0.
        """
        row = self.views.row
        highest = tf.gather(tf.math.segment_max(scores, row), row)
        number = tf.range(tf.size(row))
        candidate = tf.where(scores >= highest, number, tf.int32.max)
        first_of_highest = tf.math.segment_min(candidate, row)
        strongest = tf.minimum(first_of_highest, tf.size(row) - 1)  # Scores may be NaN.
        starts, ends = self._offsets
        start = offsets_at(starts, tf.gather(self.views.start, strongest)[:, None])[:, 0]
        end = offsets_at(ends, tf.gather(self.views.limits(), strongest)[:, None] - 1)[:, 0]
        is_empty = tf.gather(self.views.length, strongest) == 0
        return tf.where(is_empty, 0, start), tf.where(is_empty, 0, end)


class ViewedTexts(ViewedRows):
    """Texts of any length as the views that a model reads, each of which is packed as a sequence.

    Args:
        preprocessor: `TextPreprocessor`.
        reading: `Reading`, how a text is read that does not fit.
        tokens: ragged ids `(texts, tokens)`.
        before: ragged ids `(rows, tokens)` of what precedes each view of a row, such as a question, which must leave
            room. By default, nothing does.
        text: `(rows,)`, the text of each row. By default, each row is a text.
        offsets: pair of ragged ints `(texts, tokens)`, where each token starts and ends in its text, for `strongest`.
        left_out: `(rows,)`, how many tokens were left out of what precedes, for `token_counts`. By default, none.

    Attributes:
        views: `Views` of all rows.
        offset: int32 `(views,)`, the position in its sequence of the first token of the text.
    """

    def __init__(self, preprocessor, reading, tokens, before=None, text=None, offsets=None, left_out=0):
        packing = preprocessor.packing
        lengths_of_texts = tf.cast(tokens.row_lengths(), tf.int32)
        lengths = lengths_of_texts if text is None else tf.gather(lengths_of_texts, text)
        if before is None:
            views = reading.views(lengths, packing.room())
            self.offset = tf.ones_like(views.start)
        else:
            taken = tf.cast(before.row_lengths(), tf.int32)
            views = reading.views(lengths, rooms_behind(lengths, taken, packing.room(pair=True)))
            offset_of_row = taken + 1 + preprocessor.vocabulary.pair_separators
            self.offset = tf.gather(offset_of_row, views.row)
        super().__init__(packing, views, tokens, lengths, offsets=offsets, left_out=left_out)
        self._before = before
        self._text = text

    # From views to sequences.

    @property
    def lengths(self):
        """The number of tokens of each sequence, `(views,)`."""
        return self.offset + self.views.length + 1

    def packed(self, first=0, last=None):
        """Returns the model inputs of a range of views, `(views, length)`."""
        views = self._part(first, last)
        tokens = views.take(self._tokens, self._text)
        if self._before is None:
            return self._packing.pack(tokens)
        return self._packing.pack(tf.gather(self._before, views.row), tokens)

    def _lengths_of_others(self):
        return tf.math.segment_min(self.offset, self.views.row) + 1

    def values(self, values):
        """Returns values of all tokens of the texts, `(tokens, ...)`, in views: ragged `(views, tokens, ...)`."""
        return self.views.take(self._tokens.with_values(values), self._text)

    def blocks(self, size):
        """Returns ranges of about `size` views to process at a time, with all views of a row in one of them."""
        counts = np.bincount(self.views.row)
        ends = np.cumsum(counts)
        # A row belongs to the block of its first view.
        block = (ends - counts) // size
        is_last = np.append(np.diff(block), 1) != 0
        return list(itertools.pairwise([0, *ends[is_last].tolist()]))

    # From outputs of views to one answer.

    @functools.cached_property
    def chosen(self):
        """Which tokens of which views count, ragged bool `(views, tokens)`: each one where it has most context."""
        return max_context(self.views)

    def of_tokens(self, values, first=0, last=None):
        """Returns the output of each token of the texts, `(tokens, ...)`, from the view that gives it most context.

        `values` are those of a range of views, `(views, positions, ...)`.
        """
        chosen = self.chosen
        lengths = self.views.length
        offset = self.offset
        if first or last is not None:
            chosen = chosen[first:last]
            lengths = lengths[first:last]
            offset = offset[first:last]
        view = chosen.value_rowids()
        position = tf.gather(offset, view) + tf.ragged.range(lengths).values
        places = tf.boolean_mask(tf.stack([tf.cast(view, tf.int32), position], 1), chosen.values)
        # Without the shape, TensorFlow's optimizer of graphs prints an error.
        return tf.ensure_shape(tf.gather_nd(values, places), [None, *values.shape[2:]])

    def best_spans(self, start_logits, end_logits, max_answer_length, count, first=0, last=None):
        """Returns the best `Spans` of each row over all its views; each starts where its token has most context.

        The logits are those of a range of views with all views of their rows, `(views, positions)`.
        """
        views = self._part(first, last)
        offset = self.offset
        if first:
            views = views._replace(row=views.row - views.row[0])
        if first or last is not None:
            offset = offset[first:last]
        valid = max_context(views)
        return best_spans(start_logits, end_logits, views, offset, valid, max_answer_length, count)

    def flat(self, values, first=0, last=None):
        """Returns the outputs of a range of views, an array `(views, positions)`, without padding: `(positions,)`."""
        lengths = self.lengths[first:last].numpy()
        is_real = np.arange(values.shape[1]) < lengths[:, None]
        return values[is_real]

    def padded(self, flat, first=0, last=None):
        """Returns the outputs of a range of views, dense, given those of all views from `flat`."""
        if last is None:
            last = len(self.views.row)
        begin = self._ends[first]
        end = self._ends[last]
        ragged = tf.RaggedTensor.from_row_lengths(flat[begin:end], self.lengths[first:last])
        return ragged.to_tensor()

    @functools.cached_property
    def _ends(self):
        """Where the positions of each sequence begin among those of all, and how many there are at the end."""
        return np.cumsum(np.append(0, self.lengths))


def rooms_behind(lengths, taken, room):
    """Returns the room of the views of texts, `(rows,)`, given how many tokens beside them are taken of a room.

    A text that fits has one view, whatever its room: it has all of it then, which satisfies any overlap.
    """
    left = room - taken
    return tf.where(lengths <= left, room, left)


def offsets_at(offsets, tokens):
    """Returns the offsets of tokens, ints `(rows, count)`, given by index within a row; arbitrary for index -1."""
    flat = tf.cast(offsets.row_starts(), tf.int32)[:, None] + tf.maximum(tokens, 0)
    values = tf.pad(tf.cast(offsets.values, tf.int32), [[0, 1]])  # There may be no tokens at all.
    return tf.gather(values, tf.minimum(flat, tf.size(values) - 1))


def outputs_in_parts(model, inputs):
    """Returns the outputs of a model for all sequences, computed `_ROWS` at a time to limit memory."""
    rows, *axes = tf.unstack(tf.shape(inputs["token_ids"]))
    none = {}
    shapes = {}
    for name, output in sorted(model.output.items()):
        if isinstance(output, list):  # Such as hidden states.
            continue
        # A free axis is that of the tokens, or of the choices.
        sizes = []
        for place, size in enumerate(output.shape[1:]):
            sizes.append(axes[place] if size is None else size)
        none[name] = tf.zeros([0, *sizes], output.dtype)
        shapes[name] = tf.TensorShape([None, *none[name].shape[1:]])

    def are_left(start, outputs):
        return start < rows

    def with_next(start, outputs):
        end = start + _ROWS
        part = model({name: value[start:end] for name, value in inputs.items()}, training=False)
        joined = {name: tf.concat([before, part[name]], 0) for name, before in outputs.items()}
        return end, joined

    invariants = (tf.TensorShape([]), shapes)
    _, outputs = tf.while_loop(are_left, with_next, (0, none), shape_invariants=invariants)
    return outputs
