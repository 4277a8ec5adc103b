"""Conditions on tensors that hold, eagerly and inside a graph."""

import tensorflow as tf


def require(condition, message, **received):
    """Returns the value of `received` if `condition` holds; otherwise raises a ValueError (in a graph, asserts)."""
    ((name, value),) = received.items()
    holds = tf.reduce_all(condition)
    if not tf.executing_eagerly():
        check = tf.debugging.Assert(holds, [f"{message}. Received: {name}=", value])
        with tf.control_dependencies([check]):
            return tf.identity(value)
    if not holds:
        raise ValueError(f"{message}. Received: {name}={value}")
    return value
