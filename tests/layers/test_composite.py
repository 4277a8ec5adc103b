"""Dense layers against NumPy."""

import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dense_gradient_equals_numpy(dtype):
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, upstream = rng.normal(size=(2, 5, 8)).astype("float32"), rng.normal(size=(2, 5, 3)).astype("float32")
    layer = layers.Dense(3, dtype=dtype)
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, "float32") * upstream)
    kernel, bias = tape.gradient(loss, layer.trainable_variables)
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    np.testing.assert_allclose(numpy(y), x @ numpy(layer.kernel) + numpy(layer.bias), atol=tolerance * 3)
    np.testing.assert_allclose(numpy(kernel), x.reshape(-1, 8).T @ upstream.reshape(-1, 3), atol=tolerance * 8)
    np.testing.assert_allclose(numpy(bias), upstream.sum((0, 1)), atol=tolerance * 4)
