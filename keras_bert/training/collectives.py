"""Sums over replicas."""

import tensorflow as tf
from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


def all_reduce(tensors):
    """Sums each tensor of a list over all replicas. Call in a replica context.

    `tf.distribute` registers a custom gradient for the sum, which keeps the graph and the model alive forever. A
    training step does not differentiate the sum, so the registration is removed.
    """
    registry = ops.gradient_registry._registry
    before = {name for name in registry if name.startswith(_PREFIX)}
    try:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    finally:
        for name in [name for name in registry if name.startswith(_PREFIX) and name not in before]:
            registry.pop(name, None)  # Another replica may have removed it.


def sum_over_replicas(strategy, number):
    """Returns the sum over all replicas of one number per worker; workers wait for each other."""
    numbers = strategy.run(tf.constant, [float(number)])
    return float(strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None))
