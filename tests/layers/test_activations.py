"""Activations and their gradients against SciPy and NumPy."""

import keras
import numpy as np
import pytest
from scipy import special

from keras_bert.layers.activations import activate, gelu, gelu_tanh
from tests.conftest import to_numpy

X = np.linspace(-12, 12, 4001).astype("float32")


def normal_form(x):
    return x * special.ndtr(x)


def tanh_form(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(("name", "oracle"), [("gelu", normal_form), ("gelu_new", tanh_form)])
@pytest.mark.parametrize(("training", "tolerance"), [(False, 2e-6), (True, 1e-6)])
def test_values(name, oracle, training, tolerance):
    expected = oracle(X.astype("float64"))
    np.testing.assert_allclose(activate(X, name, training), expected, atol=tolerance)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("function", "oracle"), [(gelu, normal_form), (gelu_tanh, tanh_form)], ids=["erf", "tanh"])
def test_gradient_equals_a_finite_difference(function, oracle):
    """Also in a graph, compiled by XLA, since the only row is wide."""
    import tensorflow as tf

    def value_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    x = X.astype("float64")
    step = 1e-5
    expected = (oracle(x + step) - oracle(x - step)) / (2 * step)
    in_graph = tf.function(value_and_gradient, input_signature=[tf.TensorSpec((None, len(X)))])
    for compute in (value_and_gradient, in_graph):
        y, gradient = compute(tf.constant(X[None]))
        np.testing.assert_allclose(y[0], oracle(x), atol=2e-6)
        np.testing.assert_allclose(gradient[0], expected, atol=5e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", [gelu, gelu_tanh])
def test_large_values_in_low_precision_stay_finite(dtype, function):
    x = keras.ops.cast([-1e4, -300.0, 0.0, 300.0, 1e4], dtype)
    y = function(x)
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(y), np.maximum(to_numpy(x), 0))
