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


class Stream:
    """A `tf.data.Dataset` of batches as `Trainer` takes it: `(inputs, targets)` or `(inputs, targets, weights)`.

    Predictions need the inputs alone. The weights are those of the rows. A run reads one epoch after the other, each
    batch once. In a new process the dataset must give the same batches again, such as shuffled with a seed: a run that
    is resumed skips those that it has seen.

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
        return self._from(epoch, start).take(self.steps - start).map(_with_weights)

    def onwards(self, epoch=0, start=0):
        """The same with those of all epochs after it, without end."""
        return self._from(epoch, start).map(_with_weights)

    def _from(self, epoch, start):
        return self._dataset.skip(epoch * self.steps + start)


class _Once:
    """All batches of a dataset, however many."""

    def __init__(self, dataset):
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError(f"the dataset has no end. Expected `Stream(dataset, steps)`. Received: {dataset}")
        self._dataset = dataset

    def dataset(self, epoch=0, start=0):
        return self._dataset.map(_with_weights)


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


def for_training(batches):
    """What `Trainer.fit` was given, as something with `dataset(epoch, start)` and `steps`."""
    return Stream(batches) if isinstance(batches, tf.data.Dataset) else _checked(batches)


def for_inference(batches):
    """What `Trainer.evaluate` and `predict` were given, as something with `dataset(epoch, start)`."""
    return _Once(batches) if isinstance(batches, tf.data.Dataset) else _checked(batches)


def _checked(batches):
    if not hasattr(batches, "dataset") and not isinstance(batches, Phases):
        raise ValueError(
            "batches must be a `Batches`, a `Stream`, `Phases` or a `tf.data.Dataset`. "
            f"Received: {type(batches).__name__}"
        )
    return batches


def at(batches, step):
    """The same for any batches."""
    if isinstance(batches, Phases):
        return batches.at(step)
    epoch, start = divmod(step, batches.steps)
    return batches, epoch, start, batches.steps - start


def follows(before, place):
    """Whether what was read at a place of `at` goes on at another one: the next epoch of a `Stream`."""
    if before is None or not hasattr(place[0], "onwards"):
        return False
    return place[0] is before[0] and place[1:3] == (before[1] + 1, 0)


def shape(batches):
    """The rows of a batch and the greatest length, as far as the batches know them."""
    length = getattr(batches, "sequence_length", None) or max(getattr(batches, "boundaries", ()), default=None)
    fixed = getattr(batches, "tokens_per_batch", None) is None
    return {"batch_size": getattr(batches, "batch_size", None) if fixed else None, "length": length}


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
