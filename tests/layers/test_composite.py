"""Dense layers against NumPy."""

import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy


@pytest.mark.tensorflow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_dense_gradient_equals_numpy(dtype, tolerance):
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    upstream = rng.normal(size=(2, 5, 3)).astype("float32")
    layer = layers.Dense(3, dtype=dtype)
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, "float32") * upstream)
    kernel, bias = tape.gradient(loss, layer.trainable_variables)
    of_kernel = x.reshape(-1, 8).T @ upstream.reshape(-1, 3)
    expected = x @ numpy(layer.kernel) + numpy(layer.bias)
    np.testing.assert_allclose(numpy(y), expected, atol=tolerance * 3)
    np.testing.assert_allclose(numpy(kernel), of_kernel, atol=tolerance * 8)
    np.testing.assert_allclose(numpy(bias), upstream.sum((0, 1)), atol=tolerance * 4)
