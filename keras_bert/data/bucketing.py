"""Batches of rows of similar length, to minimize padding: which rows form a batch, and the length to pad them to."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_source import BatchSource
from keras_bert.data.token_rows import CompactRows, pad_ragged, sequence_lengths

MOST_BOUNDARIES = 12
_PADDING_RATIO = 1.05  # Target ratio of computed to real tokens; all lengths have one trace.


class PlannedBatches(BatchSource):
    """Base class of batches of in-memory rows. Subclasses set `_plan` and define `_batch`."""

    @property
    def steps(self):
        return len(self._plan.sizes)

    def _order(self, epoch):
        """Returns the arranged rows of all batches of the plan, and the order of the batches in an epoch."""
        rng = epoch_generator(self, epoch)
        rows, steps = np.arange(len(self._plan.group)), np.arange(self.steps)
        if rng is not None:
            rows, steps = rng.permutation(rows), rng.permutation(steps)
        return self._plan.arrange(rows), steps

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch in the order of `dataset`, a list of integer arrays; filler is -1."""
        rows, steps = self._order(epoch)
        batches = np.split(rows, self._plan.starts[1:])
        return [batches[step] for step in steps]

    def dataset(self, epoch=0, start=0):
        rows, steps = self._order(epoch)
        plan = tuple(values[steps] for values in (self._plan.starts, self._plan.sizes, self._plan.lengths(rows)))
        with tf.device("CPU:0"):
            batch = functools.partial(self._batch, tf.constant(rows))
        return planned_dataset(self, plan, batch, start)


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
        steps, batch_size, sequence_length, num_examples, tokens, seed: see `BatchSource`.
        boundaries: list of int, the boundaries in use.
        computed: int, tokens per epoch, including padding and filler; of the first epoch if not grouped.

    Example:
        batches = Batches(inputs, labels, batch_size=32)
        model.fit(batches.dataset(epoch=0), shuffle=False)
        logits = model.predict(batches.dataset(epoch=0))
        order = np.concatenate(batches.row_indices(epoch=0))
        logits = logits[np.argsort(order)][-len(labels) :]  # In input order: filler is row -1, so comes first.
    """

    def __init__(
        self,
        inputs: Any,
        targets: Any = None,
        *,
        batch_size: int = 32,
        boundaries: Sequence[int] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        tokens_per_batch: int | None = None,
        grouped: bool = True,
    ):
        check_count("batch_size", batch_size)
        check_count("seed", seed, 0)
        if tokens_per_batch is not None:
            check_count("tokens_per_batch", tokens_per_batch)
            if not grouped:
                raise ValueError("`tokens_per_batch` needs rows of similar length. Received: grouped=False")
        self.batch_size = batch_size if tokens_per_batch is None else None
        self.tokens_per_batch = tokens_per_batch
        self.shuffle, self.seed, self.grouped = shuffle, seed, grouped
        self._features = to_tensors(inputs), to_tensors(targets)
        lengths = row_lengths(*self._features)
        self.num_examples, self.tokens = len(lengths), int(lengths.sum())
        if boundaries is not None:
            self._plan = self._planned(used_boundaries(boundaries, lengths), lengths)
        else:
            self._plan = self._fit(lengths) if grouped else self._fit_samples(lengths)
        self.boundaries = self._plan.boundaries.tolist()
        self.sequence_length = self.boundaries[-1]
        self.computed = self._plan.computed(None if grouped else self._order(0)[0])

    def _planned(self, boundaries, lengths):
        group = np.searchsorted(boundaries, lengths).astype(np.uint16)  # Sorting 16 bits takes linear time.
        if not self.grouped:
            return SamplePlan(boundaries, group, self.batch_size)
        counts = np.bincount(group, minlength=len(boundaries))
        if self.tokens_per_batch is not None:
            return GroupPlan(boundaries, group, *even_batches(counts, self.tokens_per_batch // np.array(boundaries)))
        return LeftoverPlan(boundaries, group, *leftover_batches(counts, self.batch_size))

    def _fit(self, lengths):
        plans = (self._planned(boundaries, lengths) for boundaries, _ in best_boundaries(lengths, MOST_BOUNDARIES))
        return first_within(plans, _PADDING_RATIO * self.tokens)

    def _fit_samples(self, lengths):
        """Returns a plan whose boundaries fit the longest rows of the batches of the first epoch."""
        self._plan = SamplePlan([0], lengths, self.batch_size)
        return self._planned(fit_boundaries(self._plan.longest(lengths, self._order(0)[0]), ratio=1.02), lengths)

    @tf.function(autograph=False)  # Traced once for the datasets of all epochs.
    def _batch(self, rows, start, size, length):
        rows, weights = batch_rows(rows, start, size)
        rows.set_shape([self.batch_size])
        weights.set_shape([self.batch_size])
        pad_targets = functools.partial(pad_rows, rows=rows, length=length, padding=-1)
        return self._inputs(rows, length), tf.nest.map_structure(pad_targets, self._features[1]), weights

    def _inputs(self, rows, length):
        """Returns the inputs of rows, padded to a length."""
        return tf.nest.map_structure(functools.partial(pad_rows, rows=rows, length=length), self._features[0])


def epoch_generator(batches, epoch):
    """Returns the random generator of an epoch, or `None` without shuffling."""
    check_count("epoch", epoch, 0)
    return np.random.Generator(np.random.PCG64([batches.seed, epoch])) if batches.shuffle else None


def batch_rows(rows, start, size):
    """Returns the rows of a batch, filler as copies of the first one, and their weights, 0 for filler."""
    rows = rows[start : start + size]
    return tf.where(rows < 0, rows[0], rows), tf.cast(rows >= 0, tf.float32)


def planned_dataset(batches, plan, batch, start):
    """Returns the dataset of an epoch from step `start` on: `batch` of the slices of `plan`, a tuple or an array."""
    if not 0 <= start <= batches.steps:
        raise ValueError(f"`start` must be a step of the epoch, 0 to {batches.steps}. Received: start={start}")
    plan = tf.nest.map_structure(lambda values: values[start:], plan)
    dataset = tf.data.Dataset.from_tensor_slices(plan).map(batch, num_parallel_calls=tf.data.AUTOTUNE)
    options = tf.data.Options()
    # The optimizations serialize the graph with its constants, here all features of all rows, for every iterator: a
    # copy of the data at the start of each epoch, for a pipeline of one map that they cannot improve. It can go once
    # captured tensors are not copied.
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False  # See `replica_dataset`.
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)


def token_batches(make, batch_size: int, *, grouped: bool = True):
    """Returns batches with equal numbers of tokens, for losses that are means over tokens.

    With equal numbers of rows, the tokens in batches of short rows would weigh more.

    Args:
        make: function of options of `Batches`: `batch_size` and `grouped`, or `tokens_per_batch`. It returns batches of
            them, `Batches` or a subclass.
        batch_size: int, the mean number of rows of a batch.
        grouped: bool, see `Batches`. Batches that are not grouped have equal numbers of rows. Defaults to `True`.

    Example:
        batches = token_batches(functools.partial(Batches, inputs, targets, seed=1), 32)
    """
    batches = make(batch_size=batch_size, grouped=grouped)
    if not grouped:
        return batches
    steps, budget = -(-batches.num_examples // batch_size), batch_size * batches.tokens / batches.num_examples
    for _ in range(3):
        batches = make(tokens_per_batch=math.ceil(budget))
        budget *= batches.steps / steps
    return batches


class GroupPlan:
    """Batches of rows of one group each, a group being the rows of similar length; each group is filled up.

    `boundaries` `(groups, ...)` are the lengths to which rows are padded, `group` `(rows,)` is the group of each row;
    `sizes` and `groups`, `(steps,)`, are the rows and the group of each batch, with increasing groups.
    """

    def __init__(self, boundaries, group, sizes, groups):
        self.boundaries, self.group = np.array(boundaries), group
        self.sizes, self.groups = sizes, groups
        self.starts = np.cumsum(sizes) - sizes

    def arrange(self, rows):
        """Returns rows, a permutation of all, in the order of the batches, filler as -1."""
        # The filler of each group follows its rows.
        groups = len(self.boundaries)
        ends = np.cumsum(np.bincount(self.group, minlength=groups))
        room = np.cumsum(np.bincount(self.groups, self.sizes, groups).astype(int))
        return np.insert(self._by_group(rows), np.repeat(ends, np.diff(room - ends, prepend=0)), -1)

    def _by_group(self, rows):
        return rows[np.argsort(self.group[rows], kind="stable")]

    def lengths(self, arranged=None):
        """Returns the lengths to which the batches of arranged rows are padded, `(steps, ...)`."""
        return self.boundaries[self.groups]

    def computed(self, arranged=None):
        """Returns the tokens of all batches, including padding and filler."""
        return int(self.sizes @ self.lengths(arranged).reshape(len(self.sizes), -1).sum(axis=1))


class LeftoverPlan(GroupPlan):
    """Batches of rows of similar length, all of one size: rows that do not fill a batch move up to the next group."""

    def arrange(self, rows):
        return self._filled(self._by_group(rows))

    def _filled(self, rows):
        return np.pad(rows, (0, self.sizes.sum() - len(rows)), constant_values=-1)


class SamplePlan(LeftoverPlan):
    """Batches of rows of any length, all of one size, each padded to the boundary of its longest row."""

    def __init__(self, boundaries, group, size):
        super().__init__(boundaries, group, np.full(-(-len(group) // size), size), None)

    def arrange(self, rows):
        return self._filled(rows)

    def lengths(self, arranged):
        return self.boundaries[self.longest(self.group, arranged)]

    def longest(self, values, arranged):
        """Returns the maximum of `values` over the rows of each batch."""
        return np.where(arranged < 0, 0, values[arranged]).reshape(len(self.sizes), -1).max(1)


def leftover_batches(counts, size):
    """Returns the rows and the group of each batch of a `LeftoverPlan`, from the rows of each group."""
    batches, left = [], 0
    for rows in counts:
        full, left = divmod(left + rows, size)
        batches.append(full)
    batches[-1] += left > 0
    groups = np.repeat(np.arange(len(batches)), batches)
    return np.full_like(groups, size), groups


def even_batches(counts: np.ndarray, most: np.ndarray):
    """Splits the rows of each group into the fewest batches of equal numbers of rows, up to filler in the last one.

    `counts` are the rows of each group, `most` the maximum rows of its batches; at least one row is taken. Returns the
    rows and the group of each batch, `(steps,)`.
    """
    batches = -(-counts // np.maximum(most, 1))
    sizes = -(-counts // np.maximum(batches, 1))
    return np.repeat(sizes, batches), np.repeat(np.arange(len(counts)), batches)


def first_within(plans, tokens):
    """Returns the first plan that computes at most a number of tokens, or else the one with the fewest."""
    tried = []
    for plan in plans:
        tried.append(plan)
        if plan.computed() <= tokens:
            return plan
    return min(tried, key=GroupPlan.computed)


def fit_boundaries(lengths, count: int = MOST_BOUNDARIES, ratio: float = 1.0):
    """Returns the boundaries with the fewest computed tokens, if each row is padded to the next boundary.

    There are at most `count`, and no more than needed for `ratio` computed tokens per real one. They increase; the last
    one fits the longest row.
    """
    fits = list(best_boundaries(np.asarray(lengths), count))
    return next((fit for fit, computed in fits if computed <= ratio * np.sum(lengths)), fits[-1][0])


def best_boundaries(lengths, count):
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


def used_boundaries(boundaries, lengths):
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


def pad_rows(feature, rows, length, padding=0):
    """Gathers rows of a feature; ragged integers are padded with `padding`, other ragged values with zeros."""
    if feature is None:
        return None
    if isinstance(feature, CompactRows):
        return feature.padded(rows, length, padding)
    taken = tf.gather(feature, rows)
    if isinstance(feature, tf.RaggedTensor):
        return pad_ragged(taken, rows.shape[0], feature.shape, length, padding)
    return taken


def to_tensors(value):
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if value is None or isinstance(value, CompactRows):
        return value
    with tf.device("CPU:0"):  # Batches are made there.
        if isinstance(value, tf.RaggedTensor):
            return tf.nest.map_structure(tf.identity, value, expand_composites=True)
        return tf.convert_to_tensor(value)


def longest_sequences(feature):
    """Returns the length of the longest sequence of each row of a ragged feature, `(rows,)`."""
    lengths = sequence_lengths(feature)
    return lengths.reshape(len(lengths), -1).max(axis=1)


def is_ragged(feature):
    """Whether the rows of a feature have lengths of their own."""
    return isinstance(feature, tf.RaggedTensor | CompactRows)


def _row_count(feature):
    return int(feature.shape[0]) if isinstance(feature, CompactRows) else int(tf.shape(feature)[0])


def row_lengths(inputs, targets):
    """Returns the length of the longest sequence of each row, `(rows,)`."""
    features = keras.tree.flatten_with_path({"inputs": inputs, "targets": targets})
    features = {".".join(map(str, path)): feature for path, feature in features if feature is not None}
    rows = {name: _row_count(feature) for name, feature in features.items()}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise ValueError(f"all features must have the same number of rows, at least one. Received: rows={rows}")
    ragged = {name: feature for name, feature in features.items() if is_ragged(feature)}
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
        if isinstance(feature, tf.RaggedTensor) and None in feature.shape[1 : feature.ragged_rank].as_list():
            raise ValueError(
                f"`{name}` must be ragged in one axis, `(rows, length)` or `(rows, choices, length)`; see "
                f"`tf.RaggedTensor.from_uniform_row_length`. Received: {name}.shape={feature.shape}"
            )
        lengths.append(longest_sequences(feature))
    return np.max(lengths, axis=0)
