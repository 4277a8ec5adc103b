"""Dropout by its statistics: which elements are zeros, and what calls share."""

import keras
import numpy as np
import pytest

from keras_bert.layers import Dropout
from tests.conftest import to_numpy as numpy


@pytest.mark.parametrize("shape", [(300, 300), (3, 5, 7), (1,), (101,)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_fraction_of_zeros_and_scale_of_the_rest(shape, rate):
    layer = Dropout(rate, seed=3)
    y = numpy(layer(keras.ops.ones(shape), training=True))
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-4)
    deviation = (rate * (1 - rate) / y.size) ** 0.5
    assert abs((y == 0).mean() - rate) < 5 * deviation


def test_neighboring_elements_are_independent():
    layer = Dropout(0.5, seed=3)
    dropped = numpy(layer(keras.ops.ones((1000, 1000)), training=True)) == 0
    in_rows = dropped[:, 1:] ^ dropped[:, :-1]
    in_columns = dropped[1:] ^ dropped[:-1]
    for differ in (in_rows, in_columns):
        assert abs(differ.mean() - 0.5) < 0.0025


def test_calls_differ_unless_a_seed_is_given():
    layer = Dropout(0.5, seed=7)
    twin = Dropout(0.5, seed=7)
    x = keras.ops.ones((64, 64))
    first = numpy(layer(x, training=True))
    second = numpy(layer(x, training=True))
    assert (first != second).any()
    np.testing.assert_array_equal(numpy(twin(x, training=True)), first)
    seed = layer.next_seed()
    drawn = numpy(layer(x, seed=seed, training=True))
    np.testing.assert_array_equal(numpy(layer(x, seed=seed, training=True)), drawn)


def test_identity_in_inference_and_at_rate_zero():
    x = keras.ops.ones((4, 4))
    assert Dropout(0.5)(x) is x
    assert Dropout(0.0)(x, training=True) is x
    assert not Dropout(0.0).variables


@pytest.mark.tensorflow
@pytest.mark.parametrize(("jit", "shapes"), [(False, [(333, 101), (200, 50)]), (True, [(333, 101)])])
def test_unknown_shapes_in_a_graph_and_under_xla(jit, shapes):
    """XLA compiles each shape."""
    import tensorflow as tf

    layer = Dropout(0.25, seed=1)
    signature = [tf.TensorSpec([None, None])]

    @tf.function(jit_compile=jit, input_signature=signature)
    def drop(x):
        return layer(x, training=True)

    for shape in shapes:
        y = drop(tf.ones(shape)).numpy()
        assert abs((y == 0).mean() - 0.25) < 0.03
