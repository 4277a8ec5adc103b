"""Conditions on tensors that hold, eagerly and inside a graph."""

import tensorflow as tf


def require(condition, message, **received):
    """Returns the value of `received` if `condition` holds; otherwise raises a ValueError (in a graph, asserts)."""
    ((name, value),) = received.items()
    condition = tf.reduce_all(condition)
    if not tf.executing_eagerly():
        with tf.control_dependencies([tf.debugging.Assert(condition, [f"{message}. Received: {name}=", value])]):
            return tf.identity(value)
    if not condition:
        raise ValueError(f"{message}. Received: {name}={value}")
    return value
