"""Distributes global batches to replicas."""

import tensorflow as tf


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
