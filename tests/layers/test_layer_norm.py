"""LayerNorm against NumPy and automatic differentiation."""

import keras
import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy
from tests.layers.random_weights import randomize


def test_layer_norm_equals_numpy():
    x = np.random.default_rng(0).normal(3, 2, size=(2, 5, 16)).astype("float32")
    layer = layers.LayerNorm(epsilon=1e-3)
    layer.build(x.shape)
    randomize(layer, np.random.default_rng(1))
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    expected = expected * layer.gamma.numpy() + layer.beta.numpy()
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)


@pytest.mark.tensorflow
def test_layer_norm_gradient_equals_automatic_differentiation():
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(2, 5, 16)), "float32")
    weight = tf.constant(rng.normal(size=(2, 5, 16)), "float32")
    layer = layers.LayerNorm(epsilon=1e-12)
    layer.build(x.shape)
    randomize(layer, rng)
    gamma = tf.constant(layer.gamma.numpy())
    beta = tf.constant(layer.beta.numpy())
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, gamma, beta])
        ours = tf.reduce_sum(layer(x) * weight)
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        plain = tf.reduce_sum(((x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta) * weight)
    found = tape.gradient(ours, [x, layer.gamma.value, layer.beta.value])
    automatic = tape.gradient(plain, [x, gamma, beta])
    for gradient, expected in zip(found, automatic, strict=True):
        np.testing.assert_allclose(gradient, expected, atol=2e-5)


def test_layer_norm_keeps_its_weights_in_float32():
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    x = keras.ops.cast(np.random.default_rng(0).normal(size=(3, 64)), "bfloat16")
    layer.build(x.shape)
    layer.gamma.assign(np.full(64, 1.003, "float32"))  # bfloat16 would round this to 1
    layer.beta.assign(np.full(64, 100.0, "float32"))
    in_float32 = layers.LayerNorm()
    in_float32.build(x.shape)
    in_float32.set_weights(layer.get_weights())
    expected = in_float32(keras.ops.cast(x, "float32"))
    rounded = keras.ops.cast(expected, "bfloat16")
    np.testing.assert_array_equal(numpy(layer(x)), numpy(rounded))
