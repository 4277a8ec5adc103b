"""The batch sources that `Trainer` reads: their interface, and those that wrap a `tf.data.Dataset` or other sources."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class BatchSource:
    """Batches in epochs of a fixed number of steps; reading can start at any step of an epoch.

    Base class of `Batches`, `Stream`, `Phases` and `pretraining.dataset.Records`. Unknown attributes are `None`.

    Attributes:
        steps: int, batches per epoch.
        batch_size: int, rows per batch.
        sequence_length: int, maximum length of a row, or of a window of a document.
        windows: int, maximum number of windows of a row. Defaults to 1.
        num_examples: int, examples per epoch.
        tokens: int, tokens per epoch, without padding.
        seed: int, shuffle seed.
    """

    steps: Any = None
    batch_size: Any = None
    sequence_length: Any = None
    windows: int = 1
    num_examples: Any = None
    tokens: Any = None
    seed: Any = None

    @property
    def sources(self):
        """The sources that a run reads in sequence, only this one."""
        return [self]

    def longest(self, name):
        """Returns the maximum length of a row of an input, or of a window of a document."""
        return self.sequence_length

    def windows_of(self, name):
        """Returns the maximum number of windows of a row of an input."""
        return self.windows

    def dataset(self, epoch=0, start=0):
        """Returns the batches of an epoch, starting at step `start`.

        Returns:
            A `tf.data.Dataset` of `(inputs, targets, weights)`: `targets` may be `None`, `weights` is float32
            `(batch,)`, 0 for filler rows.
        """
        raise NotImplementedError

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch, integer arrays with -1 for filler; `None` if rows are in order."""
        return None

    def segment(self, step):
        """Returns the `Segment` of a run that starts at `step`, also in mid-epoch: the rest of the epoch."""
        epoch, start = divmod(step, self.steps)
        return Segment(self, functools.partial(self.dataset, epoch, start), self.steps - start)


class Segment(NamedTuple):
    """Steps of a run that are read by one iterator over one source."""

    source: BatchSource
    make_dataset: Callable
    steps: float  # Infinite for a stream.


class Stream(BatchSource):
    """A `tf.data.Dataset` of batches for `Trainer`: `(inputs, targets)` or `(inputs, targets, weights)`.

    Predictions only need the inputs. Each row has one weight. A run reads the epochs in sequence, each batch once. The
    dataset must return the same batches in a new process, for example by shuffling with a seed: a resumed run skips
    the batches that it has already seen.

    Args:
        dataset: the dataset.
        steps: int, batches per epoch. Defaults to the length of the dataset, if it is known.
    """

    def __init__(self, dataset: tf.data.Dataset, steps: int | None = None):
        cardinality = int(dataset.cardinality())
        if steps is None and cardinality < 1:
            raise ValueError(
                "`steps`, the number of batches per epoch, is required: the length of the dataset is unknown. "
                f"Received: steps=None, dataset={dataset}"
            )
        self.steps = steps or cardinality
        if cardinality != tf.data.INFINITE_CARDINALITY:
            dataset = dataset.repeat()
        self._dataset = dataset

    def dataset(self, epoch=0, start=0):
        return self._from(epoch * self.steps + start).take(self.steps - start)

    def segment(self, step):
        """Returns all steps from `step` on: one iterator reads every epoch, so that no batch is read twice."""
        return Segment(self, functools.partial(self._from, step), math.inf)

    def _from(self, step):
        return self._dataset.skip(step).map(_with_weights)


class _Finite(BatchSource):
    """All batches of a finite dataset, whose length may be unknown, for evaluation."""

    def __init__(self, dataset):
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError(f"the dataset is infinite. Expected `Stream(dataset, steps)`. Received: {dataset}")
        self._dataset = dataset

    def dataset(self, epoch=0, start=0):
        return self._dataset.map(_with_weights)


class Phases(BatchSource):
    """Several sources in sequence in one run; optimizer state and schedule carry over between phases.

    Args:
        phases: list of `(batches, steps)`: a `BatchSource` and its number of steps.
    """

    def __init__(self, phases):
        self._phases = list(phases)
        self.steps = sum(steps for _, steps in self._phases)

    @property
    def sources(self):
        return [batches for batches, _ in self._phases]

    def segment(self, step):
        left = step
        for batches, steps in self._phases:
            if left < steps:
                segment = batches.segment(left)
                return segment._replace(steps=min(segment.steps, steps - left))
            left -= steps
        raise ValueError(f"`step` is past the last phase. Received: step={step}, steps={self.steps}")


def as_source(batches, finite=False):
    """Converts the argument of `Trainer.fit` (or, if `finite`, of `evaluate` and `predict`) to a `BatchSource`."""
    if isinstance(batches, tf.data.Dataset):
        if finite:
            return _Finite(batches)
        return Stream(batches)
    if not isinstance(batches, BatchSource):
        raise ValueError(
            "batches must be a `Batches`, a `Stream`, `Phases`, another `BatchSource` or a `tf.data.Dataset`. "
            f"Received: {type(batches).__name__}"
        )
    return batches


@tf.autograph.experimental.do_not_convert
def _with_weights(inputs, targets=None, weights=None):
    """Returns a batch with its weights, float32 `(batch,)`, ones unless it has some.

    Only batches of a user's own dataset come here: those of other sources have weights, 0 or 1. A `map` of `tf.data`
    traces this once: shapes are checked then, for all batches. The values are not known before a step; a check of them
    would be an op of `tf.debugging` here, and its error one of TensorFlow at that step.
    """
    if weights is None:
        some = inputs if targets is None else targets
        rows = tf.shape(tf.nest.flatten(some)[0])[0]
        return inputs, targets, tf.ones([rows])
    row_weights = tf.cast(weights, tf.float32)
    if row_weights.shape.rank == 2 and row_weights.shape[1] == 1:
        row_weights = row_weights[:, 0]
    if row_weights.shape.rank != 1:
        raise ValueError(
            "the weights of a batch must have one value per row; for weights per token, use `weights` of a `Loss`. "
            f"Received: weights.shape={row_weights.shape}"
        )
    return inputs, targets, row_weights
