"""Batches of rows of similar length, to minimize padding, each padded to one of a few lengths."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_plans import (
    GroupPlan,
    LeftoverPlan,
    SamplePlan,
    even_batches,
    first_within,
    leftover_batches,
)
from keras_bert.data.batch_source import BatchSource
from keras_bert.data.boundaries import MOST_BOUNDARIES, best_boundaries, fit_boundaries, used_boundaries
from keras_bert.data.features import pad_rows, row_lengths, to_tensors

_PADDING_RATIO = 1.05  # Target ratio of computed to real tokens; all lengths have one trace.
_SAMPLES_RATIO = 1.02  # The same of batches that are not grouped, whose longest rows decide.


class PlannedBatches(BatchSource):
    """Base class of batches of in-memory rows. Subclasses set `_plan` and define `_batch`."""

    @property
    def steps(self):
        return len(self._plan.sizes)

    def _order(self, plan, epoch):
        """Returns the arranged rows of all batches of a plan, and the order of the batches in an epoch."""
        rng = epoch_generator(self, epoch)
        rows = np.arange(len(plan.row_groups))
        steps = np.arange(len(plan.sizes))
        if rng is not None:
            rows = rng.permutation(rows)
            steps = rng.permutation(steps)
        return plan.arrange(rows), steps

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch in the order of `dataset`, a list of integer arrays; filler is -1."""
        rows, steps = self._order(self._plan, epoch)
        batches = np.split(rows, self._plan.starts[1:])
        return [batches[step] for step in steps]

    def dataset(self, epoch=0, start=0):
        rows, steps = self._order(self._plan, epoch)
        starts = self._plan.starts[steps]
        sizes = self._plan.sizes[steps]
        lengths = self._plan.lengths(rows)[steps]
        with tf.device("CPU:0"):
            batch = functools.partial(self._batch, tf.constant(rows))
        return planned_dataset(self, (starts, sizes, lengths), batch, start)


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
        self.shuffle = shuffle
        self.seed = seed
        self.grouped = grouped
        self._input_features = to_tensors(inputs)
        self._target_features = to_tensors(targets)
        lengths = row_lengths(self._input_features, self._target_features)
        self.num_examples = len(lengths)
        self.tokens = int(lengths.sum())
        if boundaries is not None:
            self._plan = self._planned(used_boundaries(boundaries, lengths), lengths)
        elif grouped:
            self._plan = self._fit(lengths)
        else:
            self._plan = self._fit_samples(lengths)
        self.boundaries = self._plan.boundaries.tolist()
        self.sequence_length = self.boundaries[-1]
        first_epoch = None
        if not grouped:
            first_epoch, _ = self._order(self._plan, 0)
        self.computed = self._plan.computed(first_epoch)

    def _planned(self, boundaries, lengths):
        """Returns the plan of rows of some lengths with given boundaries."""
        row_groups = np.searchsorted(boundaries, lengths).astype(np.uint16)  # Sorting 16 bits takes linear time.
        if not self.grouped:
            return SamplePlan(boundaries, row_groups, self.batch_size)
        counts = np.bincount(row_groups, minlength=len(boundaries))
        if self.tokens_per_batch is not None:
            most = self.tokens_per_batch // np.array(boundaries)
            sizes, batch_groups = even_batches(counts, most)
            return GroupPlan(boundaries, row_groups, sizes, batch_groups)
        sizes, batch_groups = leftover_batches(counts, self.batch_size)
        return LeftoverPlan(boundaries, row_groups, sizes, batch_groups)

    def _fit(self, lengths):
        """Returns the plan with the fewest boundaries that has little padding."""
        candidates = best_boundaries(lengths, MOST_BOUNDARIES)
        plans = (self._planned(boundaries, lengths) for boundaries, _ in candidates)
        return first_within(plans, _PADDING_RATIO * self.tokens)

    def _fit_samples(self, lengths):
        """Returns a plan whose boundaries fit the longest rows of the batches of the first epoch."""
        unpadded = SamplePlan([0], lengths, self.batch_size)
        first_epoch, _ = self._order(unpadded, 0)
        longest = unpadded.longest(lengths, first_epoch)
        return self._planned(fit_boundaries(longest, ratio=_SAMPLES_RATIO), lengths)

    @tf.function(autograph=False)  # Traced once for the datasets of all epochs.
    def _batch(self, all_rows, start, size, length):
        rows, weights = batch_rows(all_rows, start, size)
        rows.set_shape([self.batch_size])
        weights.set_shape([self.batch_size])
        pad_targets = functools.partial(pad_rows, rows=rows, length=length, padding=-1)
        targets = tf.nest.map_structure(pad_targets, self._target_features)
        return self._inputs(rows, length), targets, weights

    def _inputs(self, rows, length):
        """Returns the inputs of rows, padded to a length."""
        pad_inputs = functools.partial(pad_rows, rows=rows, length=length)
        return tf.nest.map_structure(pad_inputs, self._input_features)


def epoch_generator(batches, epoch):
    """Returns the random generator of an epoch, or `None` without shuffling."""
    check_count("epoch", epoch, 0)
    if not batches.shuffle:
        return None
    return np.random.Generator(np.random.PCG64([batches.seed, epoch]))


def batch_rows(rows, start, size):
    """Returns the rows of a batch, filler as copies of the first one, and their weights, 0 for filler."""
    of_batch = rows[start : start + size]
    weights = tf.cast(of_batch >= 0, tf.float32)
    return tf.where(of_batch < 0, of_batch[0], of_batch), weights


def planned_dataset(batches, plan, batch, start):
    """Returns the dataset of an epoch from step `start` on: `batch` of the slices of `plan`, a tuple or an array."""
    if not 0 <= start <= batches.steps:
        raise ValueError(f"`start` must be a step of the epoch, 0 to {batches.steps}. Received: start={start}")
    steps = tf.nest.map_structure(lambda values: values[start:], plan)
    dataset = tf.data.Dataset.from_tensor_slices(steps)
    dataset = dataset.map(batch, num_parallel_calls=tf.data.AUTOTUNE)
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
    steps = -(-batches.num_examples // batch_size)
    budget = batch_size * batches.tokens / batches.num_examples
    for _ in range(3):  # Whole batches have fewer tokens than the budget, which is raised until the steps are right.
        batches = make(tokens_per_batch=math.ceil(budget))
        budget *= batches.steps / steps
    return batches
