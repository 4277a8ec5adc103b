"""Sums over replicas, and values gathered from them."""

import tensorflow as tf
from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


def all_reduce(tensors):
    """Sums each tensor of a list over all replicas. Call in a replica context. The sum cannot be differentiated."""
    # `tf.distribute` registers a custom gradient for the sum in a global table, whose closure has the graph and with it
    # the model: without removing it, the memory of every finished run of a grid is kept until the process ends. It can
    # go once TensorFlow stores such gradients in the operation, or frees them with the graph.
    registry = ops.gradient_registry._registry
    before = {name for name in registry if name.startswith(_PREFIX)}
    try:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    finally:
        for name in [name for name in registry if name.startswith(_PREFIX) and name not in before]:
            registry.pop(name, None)  # Another replica may have removed it.


def gather_rows(tree):
    """Returns tensors `(rows, ...)` with the rows of all replicas, in order. Call in a replica context.

    Every replica must have the same number of rows. Gradients do not flow to other replicas.
    """
    replica = tf.distribute.get_replica_context()
    count, index = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
    if count == 1:
        return tree

    def placed(tensor):
        """Returns the rows at this replica's place among zeros."""
        padding = [[index, count - 1 - index], *([[0, 0]] * tensor.shape.rank)]
        return tf.pad(tensor[None], padding)

    def joined(tensor, total):
        return tf.reshape(tf.cast(total, tensor.dtype), tf.concat([[-1], tf.shape(tensor)[1:]], 0))

    tensors = tf.nest.flatten(tree)
    # A call takes tensors of one type, and a single one of int32.
    wide = [tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.int64) for tensor in tensors]
    sums = [None] * len(tensors)
    for dtype in sorted({tensor.dtype.name for tensor in wide}):
        places = [place for place, tensor in enumerate(wide) if tensor.dtype.name == dtype]
        for place, total in zip(places, all_reduce([placed(wide[place]) for place in places]), strict=True):
            sums[place] = joined(tensors[place], total)
    return tf.nest.pack_sequence_as(tree, sums)


def own_rows(tree):
    """Returns this replica's rows of tensors with the rows of all replicas. Call in a replica context."""
    replica = tf.distribute.get_replica_context()

    def own(tensor):
        rows = tf.shape(tensor)[0] // replica.num_replicas_in_sync
        start = replica.replica_id_in_sync_group * rows
        return tensor[start : start + rows]

    return tf.nest.map_structure(own, tree)


def sum_over_replicas(strategy, number):
    """Returns the sum over all replicas of one number per worker; workers wait for each other."""
    numbers = strategy.run(tf.constant, [float(number)])
    return float(strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None))
