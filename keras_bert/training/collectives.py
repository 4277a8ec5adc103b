"""Sums over replicas that leave nothing behind when a model is deleted."""

import tensorflow as tf
from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


def all_reduce(tensors):
    """Sums each of a list of tensors over the replicas; call it in a replica context.

    `tf.distribute` makes the sum differentiable by a custom gradient, which TensorFlow registers for ever, together
    with the graph and so with the model. A training step differentiates nothing after it: it needs no registration.
    """
    registry = ops.gradient_registry._registry
    before = {name for name in registry if name.startswith(_PREFIX)}
    try:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    finally:
        for name in [name for name in registry if name.startswith(_PREFIX) and name not in before]:
            registry.pop(name, None)  # Another replica may have been here.


def sum_over_replicas(strategy, number):
    """The sum over all replicas of a number that each worker has; workers wait for each other."""
    numbers = strategy.run(tf.constant, [float(number)])
    return float(strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None))
