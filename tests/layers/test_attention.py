"""Attention against NumPy."""

import numpy as np
import pytest
from scipy.special import softmax

from keras_bert import layers
from tests.conftest import to_numpy as numpy
from tests.layers.random_weights import randomize


def attention_oracle(query, memory, weights, heads, allowed):
    """Scaled dot-product attention, one head at a time, as in section 3.2 of the paper."""
    (wq, wk, wv, wo), (bq, bk, bv, bo) = weights
    queries = np.split(query @ wq + bq, heads, -1)
    keys = np.split(memory @ wk + bk, heads, -1)
    values = np.split(memory @ wv + bv, heads, -1)
    probabilities = []
    contexts = []
    for q, k, v in zip(queries, keys, values, strict=True):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        shares = softmax(np.where(allowed, scores, -np.inf), axis=-1)
        probabilities.append(shares)
        contexts.append(shares @ v)
    output = np.concatenate(contexts, -1) @ wo + bo
    return output, np.stack(probabilities, 1)


@pytest.mark.parametrize("cross", [False, True])
def test_attention_equals_numpy(cross):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 12)).astype("float32")
    memory = x
    options = {}
    if cross:
        memory = rng.normal(size=(2, 7, 12)).astype("float32")
        options["memory"] = memory
    layer = layers.MultiHeadAttention(12, 3, cross_attention=cross)
    layer.build((2, 5, 12))
    randomize(layer, rng)
    if cross:
        projections = [(layer.query, 1), (layer.key_value, 2), (layer.output_dense, 1)]
    else:
        projections = [(layer.query_key_value, 3), (layer.output_dense, 1)]
    kernels = []
    biases = []
    for dense, count in projections:
        kernels += np.split(numpy(dense.kernel), count, 1)
        biases += np.split(numpy(dense.bias), count)
    allowed = np.ones((2, 1, memory.shape[1]), bool)
    allowed[1, :, 4:] = False
    expected, probabilities = attention_oracle(x, memory, (kernels, biases), 3, allowed)
    options["attention_mask"] = allowed[:, None]
    output, scores = layer(x, **options)
    np.testing.assert_allclose(numpy(output), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(scores), probabilities, atol=1e-6)
    output, _ = layer(x, return_probabilities=False, **options)  # On JAX, by its own kernel.
    np.testing.assert_allclose(numpy(output), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float16"])
def test_a_fully_masked_row_stays_finite(dtype):
    layer = layers.MultiHeadAttention(8, 2, dtype=dtype)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    mask = np.array([[1, 1, 0], [0, 0, 0]], bool)[:, None, None]
    output, scores = layer(x, attention_mask=mask)
    assert np.isfinite(numpy(output)).all()
    np.testing.assert_allclose(numpy(scores)[1], 1 / 3, atol=1e-3)
    assert (numpy(scores)[0, ..., 2] == 0).all()
