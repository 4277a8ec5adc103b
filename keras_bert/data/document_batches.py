"""Batches of documents: rows of several sequences, the windows of a long text."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.data.batch_plans import (
    GroupPlan,
    LeftoverPlan,
    SamplePlan,
    even_batches,
    first_within,
    leftover_batches,
)
from keras_bert.data.boundaries import MOST_BOUNDARIES, best_boundaries, fit_boundaries
from keras_bert.data.bucketing import Batches
from keras_bert.data.features import longest_sequences, pad_rows
from keras_bert.data.token_rows import CompactRows, as_tensor, compact_parts, joined, sequence_lengths, take, uniform

_PADDING_RATIO = 1.05  # Target ratio of computed to real tokens.
_MOST_COUNTS = 8  # Numbers of windows that rows are filled up to.
_TEXTS = 256  # Documents to tokenize at a time.


class DocumentRows(CompactRows):
    """A feature of documents `(rows, windows, length)`, of which each has windows of its own.

    With choices, it is `(rows, windows, choices, length)`: a window of the text with each of them.

    Args:
        sequences: feature of all windows, `(windows of all rows, [choices,] length)`: a `tf.RaggedTensor`, or a compact
            one.
        counts: integer array `(rows,)`, the number of windows of each row, at least 1.
    """

    def __init__(self, sequences: Any, counts: Any):
        self.sequences = sequences
        self.counts = np.asarray(counts, "int32")
        self.starts = np.cumsum(self.counts, dtype="int32") - self.counts
        self.dtype = sequences.dtype
        self.shape = tf.TensorShape([len(self.counts), None, *sequences.shape[1:]])

    @property
    def sequences_of_window(self):
        """The number of sequences of a window: that of the choices, or one."""
        return int(math.prod(self.shape[2:-1]))

    def row_lengths(self):
        """Returns the number of tokens of all windows of each row, with the longest choice."""
        return tf.constant(np.add.reduceat(longest_sequences(self.sequences), self.starts))

    def longest(self):
        """Returns the length of the longest window of each row, `(rows,)`, or with each choice, `(rows, choices)`."""
        return np.maximum.reduceat(sequence_lengths(self.sequences), self.starts)

    def take(self, rows):
        numbers = np.asarray(rows)
        counts = self.counts[numbers]
        starts = np.cumsum(counts) - counts  # Among the windows that are taken.
        within = np.arange(counts.sum()) - np.repeat(starts, counts)
        windows = np.repeat(self.starts[numbers], counts) + within
        return DocumentRows(take(self.sequences, windows), counts)

    def ragged(self, rows=None):
        taken = self if rows is None else self.take(rows)
        counts = taken.counts.astype("int64")
        return tf.RaggedTensor.from_row_lengths(as_tensor(taken.sequences), counts)

    def padded(self, rows, length, padding=0):
        """Returns the feature of some rows, dense; `length` has the number of windows and the length of each."""
        count, window_length = tf.unstack(tf.cast(length, tf.int32), 2)
        index = tf.range(count)[tf.newaxis]
        is_there = index < tf.gather(self.counts, rows)[:, tf.newaxis]
        windows = tf.where(is_there, tf.gather(self.starts, rows)[:, tf.newaxis] + index, 0)
        windows = tf.ensure_shape(tf.reshape(windows, [-1]), [None])
        values = pad_rows(self.sequences, windows, window_length, padding)
        values = tf.reshape(values, [-1, count, *self.shape[2:-1], window_length])
        inner_axes = tf.ones([self.shape.rank - 2], tf.int32)
        is_there = tf.reshape(is_there, tf.concat([tf.shape(is_there), inner_axes], 0))
        # Windows that a row lacks have no token, so that nothing reads them.
        return tf.where(is_there, values, tf.cast(padding, values.dtype))

    def uniform(self, count):
        """Returns the documents `(rows * count, ...)` as `DocumentLists`, `(rows, count, ...)`."""
        return DocumentLists(self, count)

    @classmethod
    def joined(cls, parts):
        """Returns the rows of several `DocumentRows` one after another."""
        sequences = joined([part.sequences for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        return cls(sequences, counts)


class DocumentLists(CompactRows):
    """A feature of rows with equally many documents, `(rows, documents, windows, length)`.

    Args:
        documents: `DocumentRows` of all documents, those of a row one after another.
        count: int, the documents of a row.
    """

    def __init__(self, documents: DocumentRows, count: int):
        self._documents = documents
        self._count = count
        self.dtype = documents.dtype
        self.shape = tf.TensorShape([documents.shape[0] // count, count, *documents.shape[1:]])

    @property
    def counts(self):
        """The largest number of windows of a document of each row, `(rows,)`."""
        return self._documents.counts.reshape(-1, self._count).max(1)

    def row_lengths(self):
        """Returns the number of tokens of all windows of each document, `(rows, documents)`."""
        return tf.reshape(self._documents.row_lengths(), [-1, self._count])

    def longest(self):
        """Returns the length of the longest window of each document, `(rows, documents)`."""
        return self._documents.longest().reshape(-1, self._count)

    def take(self, rows):
        return DocumentLists(self._documents.take(self._numbers(rows).numpy()), self._count)

    def ragged(self, rows=None):
        numbers = None if rows is None else self._numbers(rows).numpy()
        documents = self._documents.ragged(numbers)
        return tf.RaggedTensor.from_uniform_row_length(documents, self._count)

    def padded(self, rows, length, padding=0):
        """Returns the feature of some rows, dense; `length` has the number of windows and the length of each."""
        values = self._documents.padded(self._numbers(rows), length, padding)
        values = tf.reshape(values, tf.concat([[-1, self._count], tf.shape(values)[1:]], 0))
        return tf.ensure_shape(values, [rows.shape[0], *self.shape[1:]])

    def _numbers(self, rows):
        """Returns the numbers of the documents of some rows, one after another."""
        first = tf.convert_to_tensor(rows)[:, tf.newaxis] * self._count
        return tf.reshape(first + tf.range(self._count, dtype=first.dtype), [-1])


def window_sizes(feature):
    """Returns the number of windows of each row of a feature of documents, and the length of the longest, arrays."""
    longest = feature.longest()
    return feature.counts, longest.reshape(len(longest), -1).max(1)


class DocumentBatches(Batches):
    """`Batches` whose inputs are `DocumentRows`.

    A document is one row, whatever its length, and all batches have the same number of rows. Those of a batch have
    similar numbers of windows; they are padded to one of a few numbers, and their windows to one of a few lengths.

    Args:
        most_tokens: int, maximum number of tokens of a batch, including padding, but at least one row. Batches of long
            documents then have fewer rows, so that it is for evaluation. Defaults to `None`, equally many rows.

    Attributes:
        boundaries: list of (number of windows, length), those in use.
        windows: int, the largest number of windows of a row.

    Example:
        batches = DocumentBatches({"token_ids": DocumentRows(ids, counts), ...}, labels, batch_size=8)
    """

    def __init__(self, inputs: Any, targets: Any = None, *, most_tokens: int | None = None, **options):
        rows = next(iter(inputs.values()))
        self._most_tokens = most_tokens
        self._counts, self._longest = window_sizes(rows)
        self._sequences_of_window = rows.sequences_of_window
        super().__init__(inputs, targets, **options)
        if most_tokens is not None:
            self.batch_size = None  # Batches differ.
        windows, length = np.max(self.boundaries, axis=0)
        self.windows = int(windows)
        self.sequence_length = int(length)

    def _fit(self, lengths):
        plans = (self._plan_of(boundaries) for boundaries in self._candidates())
        return first_within(plans, _PADDING_RATIO * self.tokens)

    def _fit_samples(self, lengths):
        *_, finest = self._candidates()
        return self._plan_of(finest)

    def _candidates(self):
        """Yields boundaries, pairs of a number of windows and a length, more and more of them."""
        single = self._counts == 1
        longest = int(self._longest.max())
        counts = [[]]
        if not single.all():
            several = self._counts[~single]
            counts = [fit_boundaries(several, most) for most in range(1, _MOST_COUNTS + 1)]
        lengths = [[]]
        if single.any():
            candidates = best_boundaries(self._longest[single], MOST_BOUNDARIES)
            lengths = [boundaries for boundaries, _ in candidates]
        for number in range(max(len(counts), len(lengths))):
            boundaries = []
            for length in lengths[min(number, len(lengths) - 1)]:
                boundaries.append((1, length))
            for count in counts[min(number, len(counts) - 1)]:
                boundaries.append((count, longest))
            yield boundaries

    def _plan_of(self, pairs):
        """Returns the plan with given boundaries, pairs of a number of windows and a length."""
        boundaries = np.array(pairs)
        has_windows = boundaries[:, 0] >= self._counts[:, None]
        has_length = boundaries[:, 1] >= self._longest[:, None]
        row_groups = (has_windows & has_length).argmax(1).astype(np.uint16)  # The first pair that fits.
        if not self.grouped:
            return _DocumentSamples(boundaries, row_groups, self.batch_size)
        counts = np.bincount(row_groups, minlength=len(boundaries))
        if self._most_tokens is not None:
            tokens = boundaries.prod(axis=1) * self._sequences_of_window
            most = np.minimum(self.batch_size, self._most_tokens // tokens)
            sizes, batch_groups = even_batches(counts, most)
            return _DocumentGroups(boundaries, row_groups, sizes, batch_groups)
        sizes, batch_groups = leftover_batches(counts, self.batch_size)
        return _DocumentPlan(boundaries, row_groups, sizes, batch_groups)


class _OfDocuments:
    """Of plans whose boundaries are pairs of a number of windows and a length."""

    def computed(self, arranged=None):
        row_tokens = self.lengths(arranged).prod(axis=1)
        return int(self.sizes @ row_tokens)


class _DocumentPlan(_OfDocuments, LeftoverPlan):
    """Batches of equally many documents."""


class _DocumentGroups(_OfDocuments, GroupPlan):
    """Batches of documents with a limit of tokens."""


class _DocumentSamples(_OfDocuments, SamplePlan):
    """Batches of documents of any length."""


def document_features(preprocessor, texts):
    """Returns the `DocumentRows` of texts, or of pairs of lists of them, by name; the preprocessor reads windows."""
    viewed = (preprocessor.windows(part) for part in _in_parts(texts))
    return _joined_views(viewed)


def choice_documents(preprocessor, texts, choices):
    """Returns the same of texts with lists of equally many choices, `(rows, windows, choices, length)`."""
    viewed = (preprocessor.windows_with_choices(*part) for part in _in_parts((texts, choices)))
    return _joined_views(viewed, len(choices[0]))


def _joined_views(viewed, choices=None):
    """Returns the `DocumentRows` of several `ViewedTexts`, one after another, by name.

    `choices` is the number of sequences of each window, or `None` for a single one.
    """
    parts = {}
    part_counts = []
    for views in viewed:
        part_counts.append(np.bincount(views.views.row))
        for name, feature in compact_parts(views.ragged_parts()).items():
            parts.setdefault(name, []).append(feature)
    counts = np.concatenate(part_counts)
    rows = {}
    for name, features in parts.items():
        sequences = joined(features)
        if choices is not None:
            sequences = uniform(sequences, choices)
        rows[name] = DocumentRows(sequences, counts)
    return rows


def _in_parts(texts):
    """Yields texts, or pairs of lists of them, some at a time."""
    is_pair = isinstance(texts, tuple)
    count = len(texts[0]) if is_pair else len(texts)
    for first in range(0, count, _TEXTS):
        if is_pair:
            yield tuple(side[first : first + _TEXTS] for side in texts)
        else:
            yield texts[first : first + _TEXTS]
