"""Batches of rows of similar length, to minimize padding."""

import functools
import math

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checks import is_count
from keras_bert.training.batch_source import BatchSource

MOST_BOUNDARIES = 12
_PADDING_RATIO = 1.05  # Target ratio of computed to real tokens; all lengths have one trace.


def fit_boundaries(lengths, count=MOST_BOUNDARIES, ratio=1.0):
    """Returns the boundaries with the fewest computed tokens, if each row is padded to the next boundary.

    Args:
        lengths: integer array, the length of each row.
        count: int, maximum number of boundaries. Defaults to 12.
        ratio: float, stops at the fewest boundaries with `ratio` computed tokens per real one. Defaults to 1.0.

    Returns:
        List of increasing integers; the last one fits the longest row.
    """
    fits = list(_best_boundaries(np.asarray(lengths), count))
    return next((fit for fit, computed in fits if computed <= ratio * np.sum(lengths)), fits[-1][0])


def _best_boundaries(lengths, count):
    """Yields the best 1, 2, ... boundaries with their number of computed tokens, by dynamic programming."""
    rows = np.bincount(np.maximum(lengths, 1).astype(np.int64))
    sizes = np.flatnonzero(rows)
    below = np.concatenate([[0], np.cumsum(rows[sizes])])
    # cost[i, j]: tokens of the rows in sizes[i:j], padded to the largest of these. best[j]: minimum for sizes[:j].
    cost = np.full((len(below), len(below)), np.inf)
    cost[:, 1:] = sizes * (below[1:] - below[:, None])
    cost[np.tril_indices_from(cost)] = np.inf
    best = np.array([0.0] + [np.inf] * len(sizes))
    origins = []
    for _ in range(min(count, len(sizes))):
        total = best[:, None] + cost
        origins.append(total.argmin(axis=0))
        best = total.min(axis=0)
        boundaries, end = [], len(sizes)
        for origin in reversed(origins):
            boundaries.insert(0, int(sizes[end - 1]))
            end = origin[end]
        yield boundaries, best[-1]


class PlannedBatches(BatchSource):
    """Batches of in-memory rows: each batch has rows of one group, padded to the lengths of that group.

    Subclasses call `_plan` and define `_batch`.
    """

    def _plan(self, group, sizes, groups):
        """Sets the plan.

        Args:
            group: integer array `(rows,)`, the group of each row.
            sizes: integer array `(steps,)`, the rows of each batch.
            groups: integer array `(steps,)`, the group of each batch, increasing.
        """
        self._group, self._sizes, self._groups = group, sizes, groups
        self._starts = np.cumsum(sizes) - sizes
        self.steps = len(sizes)

    def _lengths(self, epoch):
        """Returns the padded lengths of each batch of the plan, `(steps, ...)`."""
        return np.array(self.boundaries)[self._groups]

    def _order(self, epoch):
        """Returns the row indices of all batches of the plan, filler as -1, and the order of the batches."""
        rows, steps = self._shuffled(epoch)
        rows = rows[np.argsort(self._group[rows], kind="stable")]
        # The filler of each group follows its rows.
        groups = range(len(self.boundaries))
        ends = np.cumsum(np.bincount(self._group, minlength=len(groups)))
        room = np.cumsum([self._sizes[self._groups == group].sum() for group in groups])
        missing = np.diff(room - ends, prepend=0)
        return np.insert(rows, np.repeat(ends, missing), -1), steps

    def _shuffled(self, epoch):
        """Returns the rows and the batches of the plan in the random order of an epoch."""
        check_integers(0, epoch=epoch)
        rows, steps = np.arange(len(self._group)), np.arange(len(self._sizes))
        if not self.shuffle:
            return rows, steps
        rng = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        return rng.permutation(rows), rng.permutation(steps)

    def rows(self, epoch=0):
        """Returns the row indices of each batch in the order of `dataset`, a list of integer arrays; filler is -1."""
        rows, steps = self._order(epoch)
        batches = np.split(rows, self._starts[1:])
        return [batches[step] for step in steps]

    def dataset(self, epoch=0, start=0):
        rows, steps = self._order(epoch)
        if not 0 <= start <= self.steps:
            raise ValueError(f"`start` must be a step of the epoch, 0 to {self.steps}. Received: start={start}")
        plan = tuple(values[steps[start:]] for values in (self._starts, self._sizes, self._lengths(epoch)))
        with tf.device("CPU:0"):
            batch = functools.partial(self._batch, tf.constant(rows))
        dataset = tf.data.Dataset.from_tensor_slices(plan).map(batch, num_parallel_calls=tf.data.AUTOTUNE)
        options = tf.data.Options()
        # TensorFlow's optimizations would copy all features for every iterator without any gain.
        options.experimental_optimization.apply_default_optimizations = False
        options.autotune.enabled = False  # See `replica_dataset`.
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)


class Batches(PlannedBatches):
    """Splits in-memory rows into batches of similar length, each padded to one of a few boundaries.

    Each epoch contains every row once, in an order that depends only on `seed` and the epoch. Rows are shuffled,
    sorted by boundary and split into batches. The remaining rows of a boundary move up to the next one, so that at
    most one batch per epoch is incomplete; it is filled with copies of its first row, with weight 0. With
    `tokens_per_batch`, the batches of each boundary have equal numbers of rows instead, up to filler in the last one.
    Finally, the batches are shuffled.

    Args:
        inputs: dict of features over the same rows, or a single feature. A `tf.RaggedTensor` `(rows, length)`, or
            `(rows, choices, length)` with the same number of choices in every row, is padded with zeros; other tensors
            are unchanged. The length of a row is that of its longest sequence.
        targets: like `inputs`, or `None`. Integers are padded with -1, which `token_loss` and Keras'
            `SparseCategoricalCrossentropy(ignore_class=-1)` ignore.
        batch_size: int, rows per batch. Defaults to 32.
        boundaries: increasing integers, the lengths to pad to. Defaults to the fewest with at most 1.05 computed tokens
            per real token, including filler, or else to the best of at most 12.
        shuffle: bool, whether to shuffle rows and batches; otherwise they are sorted by boundary. Defaults to `True`.
        seed: int, shuffle seed. Defaults to 0.
        tokens_per_batch: int, replaces `batch_size`: maximum number of tokens per batch, including padding, but at
            least one row. A row with choices counts as one sequence.
        grouped: bool, whether the rows of a batch have similar lengths. `False` draws batches from all rows and pads to
            the boundary of the longest row: more padding, but each batch is a random sample. Defaults to `True`.

    Attributes:
        steps, batch_size, sequence_length, examples, tokens, seed: see `BatchSource`.
        boundaries: list of int, the boundaries in use.
        computed: int, tokens per epoch, including padding and filler; of the first epoch if not grouped.

    Example:
        batches = Batches(inputs, labels, batch_size=32)
        model.fit(batches.dataset(epoch=0), shuffle=False)
        logits = model.predict(batches.dataset(epoch=0))
        order = np.concatenate(batches.rows(epoch=0))
        logits = logits[np.argsort(order)][-len(labels) :]  # In input order: filler is row -1, so comes first.
    """

    def __init__(
        self,
        inputs,
        targets=None,
        batch_size=32,
        boundaries=None,
        shuffle=True,
        seed=0,
        tokens_per_batch=None,
        grouped=True,
    ):
        check_integers(1, batch_size=batch_size)
        check_integers(0, seed=seed)
        if tokens_per_batch is not None:
            check_integers(1, tokens_per_batch=tokens_per_batch)
            if not grouped:
                raise ValueError("`tokens_per_batch` needs rows of similar length. Received: grouped=False")
        self.batch_size = batch_size if tokens_per_batch is None else None
        self.tokens_per_batch = tokens_per_batch
        self.shuffle, self.seed, self.grouped = shuffle, seed, grouped
        self._features = to_tensors(inputs), to_tensors(targets)
        lengths = row_lengths(*self._features)
        self.examples, self.tokens = len(lengths), int(lengths.sum())
        if grouped:
            self.boundaries = self._fit(lengths) if boundaries is None else _used(boundaries, lengths)
            sizes, groups = self._layout(self.boundaries, lengths)
        else:
            sizes, groups = np.full(-(-len(lengths) // batch_size), batch_size), None
            self._plan(np.zeros_like(lengths), sizes, groups)
            longest = self._longest(lengths, 0)
            self.boundaries = fit_boundaries(longest, ratio=1.02) if boundaries is None else _used(boundaries, lengths)
        group = np.searchsorted(self.boundaries, lengths).astype(np.uint16)  # Sorting 16 bits takes linear time.
        self._plan(group, sizes, groups)
        self.sequence_length = self.boundaries[-1]
        self.computed = int(self._sizes @ self._lengths(0))

    def _fit(self, lengths):
        fits = []
        for boundaries, _ in _best_boundaries(lengths, MOST_BOUNDARIES):
            sizes, groups = self._layout(boundaries, lengths)
            computed = sizes @ np.array(boundaries)[groups]
            fits.append((computed, boundaries))
            if computed <= _PADDING_RATIO * self.tokens:
                return boundaries
        return min(fits, key=lambda fit: fit[0])[1]

    def _layout(self, boundaries, lengths):
        """Returns the rows and the boundary of each batch, `(steps,)`, from shortest to longest."""
        counts = np.bincount(np.searchsorted(boundaries, lengths), minlength=len(boundaries))
        if self.tokens_per_batch is not None:
            return even_batches(counts, self.tokens_per_batch // np.array(boundaries))
        batches, left = [], 0
        for rows in counts:
            full, left = divmod(left + rows, self.batch_size)
            batches.append(full)
        batches[-1] += left > 0
        groups = np.repeat(np.arange(len(batches)), batches)
        return np.full_like(groups, self.batch_size), groups

    def _lengths(self, epoch):
        if self.grouped:
            return super()._lengths(epoch)
        return np.array(self.boundaries)[self._longest(self._group, epoch)]

    def _longest(self, values, epoch):
        """Returns the maximum of `values` over the rows of each batch."""
        rows, _ = self._order(epoch)
        return np.where(rows < 0, 0, values[rows]).reshape(len(self._sizes), self.batch_size).max(1)

    def _order(self, epoch):
        if self.tokens_per_batch is not None:
            return super()._order(epoch)
        rows, steps = self._shuffled(epoch)
        if self.grouped:
            rows = rows[np.argsort(self._group[rows], kind="stable")]
        return np.pad(rows, (0, self._sizes.sum() - len(rows)), constant_values=-1), steps

    @tf.autograph.experimental.do_not_convert
    def _batch(self, rows, start, size, length):
        rows = rows[start : start + size]
        rows.set_shape([self.batch_size])
        take = functools.partial(pad_rows, rows=tf.where(rows < 0, rows[0], rows), length=length)
        inputs, targets = self._features
        inputs = tf.nest.map_structure(take, inputs)
        targets = tf.nest.map_structure(lambda feature: take(feature, padding=-1), targets)
        return inputs, targets, tf.cast(rows >= 0, tf.float32)


def even_batches(counts, most):
    """Splits the rows of each group into the fewest batches of equal numbers of rows, up to filler in the last one.

    Args:
        counts: integer array, the rows of each group.
        most: integer array, the maximum rows of a batch of each group; at least one row is taken.

    Returns:
        The rows and the group of each batch, `(steps,)`.
    """
    batches = -(-counts // np.maximum(most, 1))
    sizes = -(-counts // np.maximum(batches, 1))
    return np.repeat(sizes, batches), np.repeat(np.arange(len(counts)), batches)


def token_batches(make, batch_size, grouped=True):
    """Returns batches with equal numbers of tokens, for losses that are means over tokens.

    With equal numbers of rows, the tokens in batches of short rows would weigh more.

    Args:
        make: callable that takes the options of `Batches` and returns the batches.
        batch_size: int, mean number of rows per batch.
        grouped: bool, see `Batches`. Batches that are not grouped have equal numbers of rows. Defaults to `True`.
    """
    batches = make(batch_size=batch_size, grouped=grouped)
    if not grouped:
        return batches
    steps, budget = -(-batches.examples // batch_size), batch_size * batches.tokens / batches.examples
    for _ in range(3):
        batches = make(tokens_per_batch=math.ceil(budget))
        budget *= batches.steps / steps
    return batches


def pad_rows(feature, rows, length, padding=0):
    """Gathers rows of a feature; ragged integers are padded with `padding`, other ragged values with zeros."""
    if feature is None:
        return None
    taken = tf.gather(feature, rows)
    if isinstance(feature, tf.RaggedTensor):
        shape = [rows.shape[0], *feature.shape[1:]]
        padded = [-1 if size is None else size for size in shape]
        padded[feature.ragged_rank] = length
        filler = padding if feature.dtype.is_integer else None
        taken = tf.ensure_shape(taken.to_tensor(filler, shape=tf.stack(padded)), shape)
    return taken


def to_tensors(value):
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if value is None:
        return None
    with tf.device("CPU:0"):  # Batches are made there.
        if isinstance(value, tf.RaggedTensor):
            return tf.nest.map_structure(tf.identity, value, expand_composites=True)
        return tf.convert_to_tensor(value)


def longest_sequences(feature):
    """Returns the length of the longest sequence of each row of a `tf.RaggedTensor`, `(rows,)`."""
    rows = int(feature.nrows())
    return feature.nested_row_lengths()[-1].numpy().reshape(rows, -1).max(axis=1)


def row_lengths(inputs, targets):
    """Returns the length of the longest sequence of each row, `(rows,)`."""
    features = keras.tree.flatten_with_path({"inputs": inputs, "targets": targets})
    features = {".".join(map(str, path)): feature for path, feature in features if feature is not None}
    rows = {name: int(tf.shape(feature)[0]) for name, feature in features.items()}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise ValueError(f"all features must have the same number of rows, at least one. Received: rows={rows}")
    ragged = {name: feature for name, feature in features.items() if isinstance(feature, tf.RaggedTensor)}
    if not ragged:
        raise ValueError(
            "at least one feature must be a `tf.RaggedTensor`; see `tf.RaggedTensor.from_tensor`. "
            f"Received: dense {', '.join(features)}"
        )
    lengths = []
    for name, feature in ragged.items():
        if name.startswith("targets") and feature.dtype.is_unsigned:
            raise ValueError(
                f"`{name}` must be signed integers, as ragged targets are padded with -1. "
                f"Received: {name}.dtype={feature.dtype.name}"
            )
        if None in feature.shape[1 : feature.ragged_rank].as_list():
            raise ValueError(
                f"`{name}` must be ragged in one axis, `(rows, length)` or `(rows, choices, length)`; see "
                f"`tf.RaggedTensor.from_uniform_row_length`. Received: {name}.shape={feature.shape}"
            )
        lengths.append(longest_sequences(feature))
    return np.max(lengths, axis=0)


def _used(boundaries, lengths):
    """Returns the boundaries up to the one that fits the longest row."""
    boundaries = np.asarray(boundaries)
    if boundaries.ndim != 1 or boundaries.dtype.kind not in "iu" or (np.diff(boundaries, prepend=0) <= 0).any():
        raise ValueError(
            f"`boundaries` must be increasing integers of at least 1. Received: boundaries={boundaries.tolist()}"
        )
    row = lengths.argmax()
    if lengths[row] > boundaries[-1]:
        raise ValueError(
            f"`boundaries` must reach the longest row, row {row} of length {lengths[row]}. "
            f"Received: boundaries={boundaries.tolist()}"
        )
    return boundaries[: np.searchsorted(boundaries, lengths[row]) + 1].tolist()


def check_integers(least, **values):
    for name, value in values.items():
        if not is_count(value, least):
            raise ValueError(f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}")
