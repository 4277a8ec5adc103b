"""Batches of rows of similar length, to minimize padding."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.training.batch_plans import GroupPlan, LeftoverPlan, SamplePlan, even_batches, leftover_batches
from keras_bert.training.batch_source import BatchSource
from keras_bert.training.boundaries import MOST_BOUNDARIES, best_boundaries, fit_boundaries, used_boundaries
from keras_bert.training.padding import pad_rows, row_lengths, to_tensors

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
            boundaries = used_boundaries(boundaries, lengths)
        else:
            boundaries = self._fit(lengths) if grouped else self._fit_samples(lengths)
        self.boundaries, self._plan = boundaries, self._planned(boundaries, lengths)
        self.sequence_length = boundaries[-1]
        self.computed = int(self._plan.sizes @ self._plan.lengths(None if grouped else self._order(0)[0]))

    def _planned(self, boundaries, lengths):
        group = np.searchsorted(boundaries, lengths).astype(np.uint16)  # Sorting 16 bits takes linear time.
        if not self.grouped:
            return SamplePlan(boundaries, group, self.batch_size)
        counts = np.bincount(group, minlength=len(boundaries))
        if self.tokens_per_batch is not None:
            return GroupPlan(boundaries, group, *even_batches(counts, self.tokens_per_batch // np.array(boundaries)))
        return LeftoverPlan(boundaries, group, *leftover_batches(counts, self.batch_size))

    def _fit(self, lengths):
        fits = []
        for boundaries, _ in best_boundaries(lengths, MOST_BOUNDARIES):
            plan = self._planned(boundaries, lengths)
            computed = plan.sizes @ plan.lengths()
            fits.append((computed, boundaries))
            if computed <= _PADDING_RATIO * self.tokens:
                return boundaries
        return min(fits, key=lambda fit: fit[0])[1]

    def _fit_samples(self, lengths):
        """Returns boundaries for the longest rows of the batches of the first epoch."""
        self._plan = SamplePlan([0], lengths, self.batch_size)
        return fit_boundaries(self._plan.longest(lengths, self._order(0)[0]), ratio=1.02)

    @tf.autograph.experimental.do_not_convert
    def _batch(self, rows, start, size, length):
        rows = rows[start : start + size]
        rows.set_shape([self.batch_size])
        weights = tf.cast(rows >= 0, tf.float32)
        rows = tf.where(rows < 0, rows[0], rows)
        pad_targets = functools.partial(pad_rows, rows=rows, length=length, padding=-1)
        return self._inputs(rows, length), tf.nest.map_structure(pad_targets, self._features[1]), weights

    def _inputs(self, rows, length):
        """Returns the inputs of rows, padded to a length."""
        return tf.nest.map_structure(functools.partial(pad_rows, rows=rows, length=length), self._features[0])


def epoch_generator(batches, epoch):
    """Returns the random generator of an epoch, or `None` without shuffling."""
    check_count("epoch", epoch, 0)
    return np.random.Generator(np.random.PCG64([batches.seed, epoch])) if batches.shuffle else None


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


def token_batches(make, batch_size: int, grouped: bool = True):
    """Returns batches with equal numbers of tokens, for losses that are means over tokens.

    With equal numbers of rows, the tokens in batches of short rows would weigh more. `make` takes the options of
    `Batches` and returns the batches; `batch_size` is the mean number of rows. Batches that are not grouped have equal
    numbers of rows.
    """
    batches = make(batch_size=batch_size, grouped=grouped)
    if not grouped:
        return batches
    steps, budget = -(-batches.num_examples // batch_size), batch_size * batches.tokens / batches.num_examples
    for _ in range(3):
        batches = make(tokens_per_batch=math.ceil(budget))
        budget *= batches.steps / steps
    return batches
