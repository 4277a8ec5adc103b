import keras
import numpy as np
import pytest

from keras_bert.layers import Dropout
from tests.conftest import to_numpy as numpy


def test_fraction_of_zeros_and_scale_of_the_rest():
    for shape in ((300, 300), (3, 5, 7), (1,), (101,)):
        for rate in (0.1, 0.5, 0.9):
            y = numpy(Dropout(rate, seed=3)(keras.ops.ones(shape), training=True))
            np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-4)
            assert abs((y == 0).mean() - rate) < 5 * (rate * (1 - rate) / y.size) ** 0.5


def test_neighboring_elements_are_independent():
    dropped = numpy(Dropout(0.5, seed=3)(keras.ops.ones((1000, 1000)), training=True)) == 0
    for shifted in (dropped[:, 1:] ^ dropped[:, :-1], dropped[1:] ^ dropped[:-1]):
        assert abs(shifted.mean() - 0.5) < 0.0025


def test_calls_differ_unless_a_seed_is_given():
    layer = Dropout(0.5, seed=7)
    twin = Dropout(0.5, seed=7)
    x = keras.ops.ones((64, 64))
    first, second = numpy(layer(x, training=True)), numpy(layer(x, training=True))
    assert (first != second).any()
    np.testing.assert_array_equal(numpy(twin(x, training=True)), first)
    seed = layer.next_seed()
    np.testing.assert_array_equal(numpy(layer(x, seed=seed, training=True)), numpy(layer(x, seed=seed, training=True)))


def test_identity_in_inference_and_at_rate_zero():
    x = keras.ops.ones((4, 4))
    assert Dropout(0.5)(x) is x
    assert Dropout(0.0)(x, training=True) is x
    assert not Dropout(0.0).variables


@pytest.mark.tensorflow
@pytest.mark.parametrize("jit", [False, True])
def test_unknown_shapes_in_a_graph_and_under_xla(jit):
    import tensorflow as tf

    layer = Dropout(0.25, seed=1)
    signature = [tf.TensorSpec([None, None])]
    drop = tf.function(lambda x: layer(x, training=True), jit_compile=jit, input_signature=signature)
    for shape in ((333, 101), (200, 50))[: 1 if jit else 2]:  # Each shape is compiled.
        assert abs((drop(tf.ones(shape)).numpy() == 0).mean() - 0.25) < 0.03
