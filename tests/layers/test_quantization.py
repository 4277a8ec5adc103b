"""Float tables of layers with LoRA or in few bits."""

import keras
import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy
from tests.layers.random_weights import randomize


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_float_tables_with_lora_match_the_layer(policy):
    """Compared with the sum of table and update in NumPy; the float table is not rounded to bfloat16."""
    rng = np.random.default_rng(0)
    dense = layers.Dense(5, dtype=policy)
    table = layers.TokenEmbedding(7, 6, dtype=policy)
    dense.build((2, 3, 6))
    table.build()
    for layer in (dense, table):
        layer.enable_lora(2, lora_alpha=3)
        randomize(layer, rng)
    kernel = numpy(dense._kernel) + 1.5 * numpy(dense.lora_kernel_a) @ numpy(dense.lora_kernel_b)
    rows = numpy(table._embeddings) + 1.5 * numpy(table.lora_embeddings_a) @ numpy(table.lora_embeddings_b)
    np.testing.assert_allclose(numpy(dense.float_table()), kernel, atol=1e-6)
    np.testing.assert_allclose(numpy(table.float_table()), rows, atol=1e-6)
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    tolerance = 1e-5 if policy == "float32" else 0.1
    np.testing.assert_allclose(numpy(dense(x)), x @ kernel + numpy(dense.bias), atol=tolerance)
    np.testing.assert_allclose(numpy(table(np.arange(7))), rows, atol=tolerance)
    np.testing.assert_allclose(numpy(table(x, reverse=True)), x @ rows.T, atol=tolerance)


@pytest.mark.parametrize("mode", ["int8", "int4", "int4 in groups"])
def test_float_tables_with_quantization_match_the_layer(mode):
    """The layer maps an identity matrix to its kernel, up to the quantization of the inputs."""
    dense = layers.Dense(6, use_bias=False)
    table = layers.TokenEmbedding(7, 8)
    dense.build((None, 8))
    table.build()
    randomize(dense, np.random.default_rng(0))
    before = [numpy(layer.float_table()) for layer in (dense, table)]
    for layer in (dense, table):
        if mode == "int4 in groups":
            layer.quantize(config=keras.quantizers.Int4QuantizationConfig(block_size=4))
        else:
            layer.quantize(mode)
    if mode != "int4 in groups":  # Keras clips groups whose values all have the same sign.
        step = {"int8": 1 / 127, "int4": 1 / 7}[mode]
        for layer, value in zip((dense, table), before, strict=True):
            assert np.abs(numpy(layer.float_table()) - value).max() <= step * np.abs(value).max()
    for lora in (False, True):
        for layer in (dense, table) if lora else ():
            layer.enable_lora(2)
            layer.trainable_variables[-1].assign(np.full(layer.trainable_variables[-1].shape, 0.01, "float32"))
        np.testing.assert_allclose(numpy(dense.float_table()), numpy(dense(np.eye(8, dtype="float32"))), atol=1e-6)
        np.testing.assert_allclose(numpy(table.float_table()), numpy(table(np.arange(7))), atol=1e-6)
