"""Distributes global batches to replicas; batch sources that wrap a `tf.data.Dataset`."""

import functools
import math

import tensorflow as tf

from keras_bert.training.batch_source import BatchSource, Segment


def replica_dataset(strategy, make_dataset, losses=(), micro_batches: int = 1):
    """Distributes a dataset of global batches over the replicas of a strategy.

    Each worker reads the whole dataset and takes its own rows of every batch, so batches do not depend on the number of
    workers. If rows cannot be divided evenly, copies of the last row are added with weight 0; a replica may receive
    only filler. The rows of a replica are a multiple of `micro_batches`.

    `make_dataset` returns a dataset of `(inputs, targets, weights)`, this function a distributed one of `(inputs,
    targets, weights, totals)`; `targets` is `()` if there are none, `totals` contains the total weight of each loss
    over the global batch.
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
        options = tf.data.Options()
        # The thread that tunes a pipeline sleeps for up to a minute, and the end of an iterator may wait for it: an
        # epoch of a few seconds could take a minute. The numbers of threads and of prefetched batches are set here
        # instead. It can go once the thread is woken when its iterator ends.
        options.autotune.enabled = False
        return dataset.prefetch(2 * here).with_options(options)

    return strategy.distribute_datasets_from_function(make)


@tf.autograph.experimental.do_not_convert
def _only(*batch):
    return tf.nest.map_structure(lambda value: value[0], batch)


def _divided(batch, replicas, micro_batches):
    """Reshapes each tensor `(rows, ...)` to `(replicas, rows per replica, ...)`; `batch[-1]` is the weights.

    Tensors may have a multiple of the rows of others: those of the texts of packed rows.
    """
    sizes = {value.shape[0] for value in tf.nest.flatten(batch)}
    rows = tf.shape(batch[-1])[0] if None in sizes else min(sizes)
    parts = replicas * micro_batches
    each = (rows + parts - 1) // parts * micro_batches
    place = tf.range(each * replicas)
    uneven = not isinstance(rows, int) or each * replicas != rows

    def divide(value, filler_value=None):
        texts = value.shape[0] // rows if isinstance(rows, int) else 1
        if uneven:
            value = tf.reshape(value, tf.concat([[rows, texts], tf.shape(value)[1:]], 0))
            value = tf.gather(value, tf.minimum(place, rows - 1))
            value = value if filler_value is None else tf.where((place < rows)[:, None], value, filler_value)
            value = tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], 0))
        return tf.reshape(value, tf.concat([[replicas, each * texts], tf.shape(value)[1:]], 0))

    return (*tf.nest.map_structure(divide, batch[:-1]), divide(batch[-1], 0.0))


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
        self._dataset = dataset if cardinality == tf.data.INFINITE_CARDINALITY else dataset.repeat()

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
            "the weights of a batch must have one value per row; for weights per token, use `weights` of a `Loss`. "
            f"Received: weights.shape={weights.shape}"
        )
    return inputs, targets, weights
