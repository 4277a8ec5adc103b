"""The views of a text: the parts of its tokens that a model reads, one of them in each sequence.

A text that fits has one view, all of it. How a longer one is read is a `Reading`: its head, its tail, both, or windows
that overlap. `viewed_texts.py` packs the tokens of views and makes one answer of their outputs. Everything works
eagerly on many texts at once, and in the graph of a SavedModel.
"""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from keras_bert.checks import check_choice, check_count
from keras_bert.text import packing
from keras_bert.text.graph_checks import require
from keras_bert.text.long_texts import HEAD, HEAD_TAIL, REFUSE, TAIL, WINDOWS

_NO_ROOM = "`room` must be at least 1, but a question leaves no room for its passage"


class Gap(NamedTuple):
    """Tokens that views leave out in their midst. All fields are int32 `(views,)`."""

    after: tf.Tensor  # The number of tokens of the view before the gap.
    size: tf.Tensor  # The number of tokens that are left out, 0 for none.


class Views(NamedTuple):
    """The views of the texts of some rows, in order; each row has at least one. All fields are int32 `(views,)`."""

    row: tf.Tensor
    start: tf.Tensor  # The first token, counted from the start of the text.
    length: tf.Tensor  # The number of tokens of the view.
    gap: Gap | None = None  # `None` if the tokens of all views are adjacent.

    def part(self, first, last):
        """Returns a range of views."""
        gap = None
        if self.gap is not None:
            gap = Gap(self.gap.after[first:last], self.gap.size[first:last])
        return Views(self.row[first:last], self.start[first:last], self.length[first:last], gap)

    def places(self):
        """Returns the place in its text of each token, ragged int32 `(views, tokens)`."""
        index = tf.ragged.range(self.length)
        view = index.value_rowids()
        return index.with_values(self.places_of(view, index.values))

    def places_of(self, view, index):
        """Returns the places in their texts of tokens `(tokens,)`, given the view of each and its index there."""
        start = tf.gather(self.start, view)
        if self.gap is None:
            return start + index
        gap = Gap(tf.gather(self.gap.after, view), tf.gather(self.gap.size, view))
        return _behind_gap(start + index, index, gap)

    def places_in_each(self, index):
        """Returns the places in their texts of tokens `(views, tokens)` of each view, given their indices there."""
        places = self.start[:, None] + index
        if self.gap is None:
            return places
        return _behind_gap(places, index, Gap(self.gap.after[:, None], self.gap.size[:, None]))

    def index_of(self, view, place):
        """Returns the index in its view of each token, -1 if it is not there, given its view and its place.

        All are int32 `(tokens,)`.
        """
        index = place - tf.gather(self.start, view)
        is_there = (index >= 0) & (place < tf.gather(self.limits(), view))
        if self.gap is not None:
            after = tf.gather(self.gap.after, view)
            size = tf.gather(self.gap.size, view)
            is_there &= (index < after) | (index >= after + size)
            index = tf.where(index < after, index, index - size)
        return tf.where(is_there, index, -1)

    def limits(self):
        """Returns the place in its text behind the last token of each view, `(views,)`."""
        limits = self.start + self.length
        if self.gap is None:
            return limits
        return limits + tf.where(self.length > self.gap.after, self.gap.size, 0)

    def take(self, values, text=None):
        """Returns values of tokens, ragged `(texts, tokens, ...)`, in views: ragged `(views, tokens, ...)`.

        `text` has for each row its text, `(rows,)`; by default, each row is a text.
        """
        text_of_view = self.row if text is None else tf.gather(text, self.row)
        dtype = values.row_splits.dtype
        begin = tf.gather(values.row_starts(), text_of_view)
        if self.gap is None:
            first = begin + tf.cast(self.start, dtype)
            return packing.ranges(values, first, first + tf.cast(self.length, dtype))
        places = self.places().with_row_splits_dtype(dtype)
        flat = tf.gather(begin, places.value_rowids()) + tf.cast(places.values, dtype)
        return places.with_values(tf.gather(values.values, flat))


def _behind_gap(places, index, gap):
    """Moves the places of the tokens behind a gap, given their indices in their views."""
    return places + tf.where(index >= gap.after, gap.size, 0)


@dataclasses.dataclass(frozen=True)
class Reading(abc.ABC):
    """How a text is read that may be longer than the room in a sequence. `READINGS` lists the kinds."""

    name: ClassVar[str]

    @abc.abstractmethod
    def of_lengths(self, lengths: tf.Tensor, room: tf.Tensor) -> Views:
        """Returns the `Views`, given int32 `(rows,)` lengths of texts and the room of each, at least 1."""

    def views(self, lengths: Any, room: Any) -> Views:
        """Returns the `Views` of texts.

        Args:
            lengths: `(rows,)`, the number of tokens of each text. An empty text has one empty view.
            room: the maximum number of tokens of a view, `(rows,)` or one number for all.
        """
        lengths, rooms = _lengths_and_rooms(lengths, room)
        rooms = require(rooms >= 1, _NO_ROOM, room=rooms)
        return self.of_lengths(lengths, rooms)

    def unchecked_views(self, lengths: Any, room: Any) -> Views:
        """Same as `views`, where no room may be left, as for the second text of a pair."""
        lengths, rooms = _lengths_and_rooms(lengths, room)
        return self.of_lengths(lengths, rooms)


@dataclasses.dataclass(frozen=True)
class HeadOnly(Reading):
    """Reads the first tokens of a text, as many as fit."""

    name: ClassVar[str] = HEAD

    def of_lengths(self, lengths, room):
        start = tf.zeros_like(lengths)
        return Views(_each_row(lengths), start, tf.minimum(lengths, room))


@dataclasses.dataclass(frozen=True)
class TailOnly(Reading):
    """Reads the last tokens of a text, as many as fit."""

    name: ClassVar[str] = TAIL

    def of_lengths(self, lengths, room):
        kept = tf.minimum(lengths, room)
        return Views(_each_row(lengths), lengths - kept, kept)


@dataclasses.dataclass(frozen=True)
class HeadAndTail(Reading):
    """Reads the head of a text and its tail: a quarter of the room, and three quarters (Sun et al., 2019)."""

    name: ClassVar[str] = HEAD_TAIL

    def of_lengths(self, lengths, room):
        kept = tf.minimum(lengths, room)
        gap = Gap(after=room // 4, size=lengths - kept)
        return Views(_each_row(lengths), tf.zeros_like(lengths), kept, gap)


@dataclasses.dataclass(frozen=True)
class Refused(HeadOnly):
    """Reads texts that fit. The preprocessor raises an error for others."""

    name: ClassVar[str] = REFUSE


@dataclasses.dataclass(frozen=True)
class SlidingWindows(Reading):
    """Reads all of a text, in windows that overlap.

    Args:
        doc_stride: int, the distance in tokens of the starts of windows, limited to the room, as in Google's
            `run_squad.py`. By default, windows overlap by half.
        overlap: int, the number of tokens that a window shares with the one before, instead of `doc_stride`.
        max_windows: int, the maximum number of windows of a text, the first ones. By default, there is no limit.
    """

    name: ClassVar[str] = WINDOWS
    doc_stride: int | None = None
    overlap: int | None = None
    max_windows: int | None = None

    def __post_init__(self):
        if self.doc_stride is not None and self.overlap is not None:
            raise ValueError(
                "`doc_stride` and `overlap` must not be passed together: their sum is the length of a window. "
                f"Received: doc_stride={self.doc_stride}, overlap={self.overlap}"
            )
        for name in ("doc_stride", "max_windows"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.overlap is not None:
            check_count("overlap", self.overlap, least=0)

    def of_lengths(self, lengths, room):
        step = self._step(room)
        further = -((room - lengths) // step)  # After the first one; rounded up.
        count = 1 + tf.maximum(0, further)
        if self.max_windows is not None:
            count = tf.minimum(count, self.max_windows)
        row = tf.repeat(_each_row(lengths), count)
        start = tf.ragged.range(count).values * tf.gather(step, row)
        length = tf.minimum(tf.gather(room, row), tf.gather(lengths, row) - start)
        return Views(row, start, length)

    def _step(self, room):
        """Returns the distance of the starts of windows, `(rows,)`."""
        if self.doc_stride is not None:
            return tf.minimum(room, self.doc_stride)
        if self.overlap is not None:
            message = f"`overlap` must be less than the tokens of a window, overlap={self.overlap} is not"
            room = require(room > self.overlap, message, room=room)
            return room - self.overlap
        return tf.maximum(1, room // 2)


READINGS: list[type[Reading]] = [HeadOnly, TailOnly, HeadAndTail, Refused, SlidingWindows]


def reading(name: str, **options) -> Reading:
    """Returns the `Reading` of a name, one of `READINGS`, with its options; those that are `None` have the defaults."""
    by_name = {reading_class.name: reading_class for reading_class in READINGS}
    check_choice("long_texts", name, list(by_name))
    reading_class = by_name[name]
    given = {option: value for option, value in options.items() if value is not None}
    known = _options_of(reading_class)
    for option, value in given.items():
        if option not in known:
            takers = [other.name for other in READINGS if option in _options_of(other)]
            raise ValueError(
                f"`{option}` is an option of long_texts={' or '.join(map(repr, takers)) or None}. "
                f"Received: long_texts={name!r}, {option}={value!r}"
            )
    return reading_class(**given)


def _options_of(reading_class):
    """Returns the names of the options of a class of `Reading`s."""
    return [field.name for field in dataclasses.fields(reading_class)]


def _lengths_and_rooms(lengths, room):
    """Returns the lengths of texts, and the room of each, as int32 `(rows,)`; `room` may be one number for all."""
    lengths = tf.cast(lengths, tf.int32)
    return lengths, tf.broadcast_to(tf.cast(room, tf.int32), tf.shape(lengths))


def _each_row(lengths):
    return tf.range(tf.size(lengths))


def max_context(views):
    """Marks, as ragged bool `(views, tokens)`, each token in the one view that gives it the most context."""
    index = tf.ragged.range(views.length)
    view = index.value_rowids()
    context = _context(index.values, tf.gather(views.length, view))
    # Number the tokens of all texts.
    sizes = tf.math.segment_max(views.limits(), views.row)
    before = tf.gather(tf.cumsum(sizes, exclusive=True), views.row)
    numbered = views._replace(start=before + views.start)
    token = numbered.places_of(view, index.values)
    count = tf.reduce_sum(sizes)
    # Of the views that give a token most context, the first one.
    most = tf.math.unsorted_segment_max(context, token, count)
    candidate = tf.where(context == tf.gather(most, token), view, tf.int32.max)
    first = tf.math.unsorted_segment_min(candidate, token, count)
    return index.with_values(view == tf.gather(first, token))


def _context(index, length):
    """Returns the context of tokens by Google's rule, given their indices in views of these lengths."""
    # In double precision, like Google's Python code, for the same ties and rounding.
    least = tf.cast(tf.minimum(index, length - 1 - index), tf.float64)
    return least + 0.01 * tf.cast(length, tf.float64)
