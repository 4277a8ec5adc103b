"""Conditions on tensors, eagerly and inside a graph."""

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.graph_checks import require  # noqa: E402


def positive(value):
    return require(value > 0, "`room` must be positive", room=value)


def test_a_value_that_is_right_is_returned():
    value = tf.constant([1, 2])
    assert positive(value).numpy().tolist() == [1, 2]
    assert tf.function(positive)(value).numpy().tolist() == [1, 2]


def test_a_value_that_is_wrong_is_named():
    """One wrong value among right ones is enough; in a graph, the error is TensorFlow's."""
    value = tf.constant([1, 0])
    with pytest.raises(ValueError, match=r"`room` must be positive. Received: room=\[1 0\]"):
        positive(value)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`room` must be positive. Received: room="):
        tf.function(positive)(value)
