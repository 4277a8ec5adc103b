"""Global batches to replicas: every row once, whatever the number of replicas, workers and micro-batches."""

import tensorflow as tf


def replica_dataset(strategy, make_dataset, losses=(), micro_batches=1):
    """Distributes a dataset of global batches over the replicas of a strategy.

    Each worker reads all of it and takes its own rows of every batch, so batches do not change with the number of
    workers. Where the rows cannot be divided, copies of the last one with weight 0 fill up; a replica may get those
    alone.

    Args:
        strategy: a `tf.distribute` strategy.
        make_dataset: a function that makes the dataset of `(inputs, targets, weights)`.
        losses: list of `Loss`.
        micro_batches: the rows of a replica are divided by it too.

    Returns:
        A distributed dataset of `(inputs, targets, weights, totals)`; `totals` are the sums of the weights of each
        loss over the whole global batch.
    """
    replicas = strategy.num_replicas_in_sync

    def make(context):
        here = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * here

        @tf.autograph.experimental.do_not_convert
        def split(inputs, targets, weights):
            totals = tf.stack([tf.reduce_sum(loss.row_weights(targets, weights)) for loss in losses] or [0.0])
            batch = _divided((inputs, targets, weights), replicas, micro_batches)
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


class Stream:
    """A `tf.data.Dataset` of batches as `Trainer` takes it: `(inputs, targets)` or `(inputs, targets, weights)`.

    It must give the same batches each time: a run that goes on skips those that it has seen. The weights are those of
    the rows.

    Args:
        dataset: the dataset.
        steps: how many batches are an epoch; by default all of the dataset, which must know how many it has.
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
        """The batches of an epoch, from one on."""
        dataset = self._dataset.skip(epoch * self.steps + start).take(self.steps - start)
        return dataset.map(_with_weights)


class Phases:
    """Batches of several sources, one after the other, in one run: the optimizer and its schedule go on.

    Args:
        phases: list of `(batches, steps)`: a `Batches`, a `Stream` or the like, and how many steps it is used.
    """

    def __init__(self, phases):
        self._phases = list(phases)
        self.steps = sum(steps for _, steps in self._phases)

    def at(self, step):
        """The batches that a step is of, its epoch of them, its step in that epoch, and how many steps follow there."""
        for batches, steps in self._phases:
            if step < steps:
                epoch, start = divmod(step, batches.steps)
                return batches, epoch, start, min(batches.steps - start, steps - step)
            step -= steps
        raise ValueError(f"`step` is behind the last phase. Received: step={step + self.steps}, steps={self.steps}")


def at(batches, step):
    """The same for any batches."""
    if isinstance(batches, Phases):
        return batches.at(step)
    epoch, start = divmod(step, batches.steps)
    return batches, epoch, start, batches.steps - start


@tf.autograph.experimental.do_not_convert
def _with_weights(inputs, targets, weights=None):
    rows = tf.shape(tf.nest.flatten(targets)[0])[0]
    return inputs, targets, tf.ones([rows]) if weights is None else tf.cast(weights, tf.float32)
