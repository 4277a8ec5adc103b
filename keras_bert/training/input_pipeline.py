"""Global batches to replicas, and the sources of batches around a `tf.data.Dataset`."""

import functools
import math

import tensorflow as tf

from keras_bert.training.batch_source import BatchSource, Segment


def replica_dataset(strategy, make_dataset, losses=(), micro_batches=1):
    """Distributes a dataset of global batches over the replicas of a strategy.

    Each worker reads the whole dataset and takes its own rows of every batch, so batches do not depend on the number of
    workers. Rows that cannot be divided evenly are filled up with copies of the last one, of weight 0; a replica may
    get nothing but filler.

    Args:
        strategy: a `tf.distribute` strategy.
        make_dataset: function that makes the dataset of `(inputs, targets, weights)`.
        losses: list of `Loss`.
        micro_batches: int, the rows of a replica are divisible by it.

    Returns:
        A distributed dataset of `(inputs, targets, weights, totals)`; `targets` are `()` where there are none, `totals`
        the sums of the weights of each loss over the whole global batch.
    """
    replicas = strategy.num_replicas_in_sync

    def make(context):
        here = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * here

        @tf.autograph.experimental.do_not_convert
        def split(inputs, targets, weights):
            totals = tf.stack([tf.reduce_sum(loss.row_weights(targets, weights)) for loss in losses] or [0.0])
            batch = _divided((inputs, () if targets is None else targets, weights), replicas, micro_batches)
            batch = tf.nest.map_structure(lambda value: value[first : first + here], batch)
            return *batch, tf.broadcast_to(totals, [here, len(losses) or 1])

        dataset = make_dataset().map(split, num_parallel_calls=2, deterministic=True)
        dataset = dataset.unbatch() if here > 1 else dataset.map(_only)
        return dataset.prefetch(2 * here)

    return strategy.distribute_datasets_from_function(make)


@tf.autograph.experimental.do_not_convert
def _only(*batch):
    return tf.nest.map_structure(lambda value: value[0], batch)


def _divided(batch, replicas, micro_batches):
    """Every tensor `(rows, ...)` as `(replicas, rows of a replica, ...)`; the last of the batch is the weights."""
    rows = batch[-1].shape[0] or tf.shape(batch[-1])[0]
    parts = replicas * micro_batches
    each = (rows + parts - 1) // parts * micro_batches
    if not isinstance(rows, int) or each * replicas != rows:
        place = tf.range(each * replicas)
        batch = tf.nest.map_structure(lambda value: tf.gather(value, tf.minimum(place, rows - 1)), batch)
        batch = (*batch[:-1], tf.where(place < rows, batch[-1], 0.0))
    return tf.nest.map_structure(
        lambda value: tf.reshape(value, tf.concat([[replicas, each], tf.shape(value)[1:]], 0)), batch
    )


class Stream(BatchSource):
    """A `tf.data.Dataset` of batches for `Trainer`: `(inputs, targets)` or `(inputs, targets, weights)`.

    Predictions need the inputs alone. Weights are those of the rows. A run reads one epoch after the other, each batch
    once. The dataset must give the same batches in a new process, for instance by shuffling with a seed: a resumed run
    skips those that it has seen.

    Args:
        dataset: the dataset.
        steps: int, batches of an epoch. Defaults to the length of the dataset, which must be known then.
    """

    def __init__(self, dataset, steps=None):
        cardinality = int(dataset.cardinality())
        if steps is None and cardinality < 1:
            raise ValueError(
                "`steps` is needed, the number of batches in an epoch: the dataset does not know it. "
                f"Received: steps=None, dataset={dataset}"
            )
        self.steps = steps or cardinality
        self._dataset = dataset if cardinality == tf.data.INFINITE_CARDINALITY else dataset.repeat()

    def dataset(self, epoch=0, start=0):
        return self._from(epoch * self.steps + start).take(self.steps - start)

    def segment(self, step):
        """All steps from `step` on: one iterator reads every epoch, so that no batch is read twice."""
        return Segment(self, functools.partial(self._from, step), math.inf)

    def _from(self, step):
        return self._dataset.skip(step).map(_with_weights)


class _Finite(BatchSource):
    """All batches of a dataset whose length need not be known: for evaluation."""

    def __init__(self, dataset):
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError(f"the dataset has no end. Expected `Stream(dataset, steps)`. Received: {dataset}")
        self._dataset = dataset

    def dataset(self, epoch=0, start=0):
        return self._dataset.map(_with_weights)


class Phases(BatchSource):
    """Several sources, one after the other, in one run; optimizer state and schedule carry over between phases.

    Args:
        phases: list of `(batches, steps)`: a `BatchSource` and how many steps it is used for.
    """

    def __init__(self, phases):
        self._phases = list(phases)
        self.steps = sum(steps for _, steps in self._phases)

    def segment(self, step):
        left = step
        for batches, steps in self._phases:
            if left < steps:
                segment = batches.segment(left)
                return segment._replace(steps=min(segment.steps, steps - left))
            left -= steps
        raise ValueError(f"`step` is behind the last phase. Received: step={step}, steps={self.steps}")


def as_source(batches, finite=False):
    """The argument of `Trainer.fit` or, `finite`, of `evaluate` and `predict` as a `BatchSource`."""
    if isinstance(batches, tf.data.Dataset):
        return _Finite(batches) if finite else Stream(batches)
    if not isinstance(batches, BatchSource):
        raise ValueError(
            "batches must be a `Batches`, a `Stream`, `Phases`, another `BatchSource` or a `tf.data.Dataset`. "
            f"Received: {type(batches).__name__}"
        )
    return batches


@tf.autograph.experimental.do_not_convert
def _with_weights(inputs, targets=None, weights=None):
    some = inputs if targets is None else targets
    rows = tf.shape(tf.nest.flatten(some)[0])[0]
    if weights is None:
        return inputs, targets, tf.ones([rows])
    weights = tf.cast(weights, tf.float32)
    if weights.shape.rank == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.shape.rank != 1:
        raise ValueError(
            "the weights of a batch must be one for each row; those of pieces are the `weights` of a `Loss`. "
            f"Received: weights.shape={weights.shape}"
        )
    return inputs, targets, weights
