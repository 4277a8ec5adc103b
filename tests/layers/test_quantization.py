"""Float tables of layers with LoRA or in few bits."""

import keras
import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy
from tests.layers.random_weights import randomize


@pytest.mark.tensorflow
@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.1)])
def test_float_tables_with_lora_match_the_layer(policy, tolerance):
    """Compared with the sum of table and update in NumPy; the float table is not rounded to bfloat16."""
    rng = np.random.default_rng(0)
    dense = layers.Dense(5, dtype=policy)
    table = layers.TokenEmbedding(7, 6, dtype=policy)
    dense.build((2, 3, 6))
    table.build()
    kernel = numpy(dense.kernel)
    rows = numpy(table.embeddings)
    for layer in (dense, table):
        layer.enable_lora(2, lora_alpha=3)
        randomize(layer, rng)
    kernel = kernel + 1.5 * numpy(dense.lora_kernel_a) @ numpy(dense.lora_kernel_b)
    rows = rows + 1.5 * numpy(table.lora_embeddings_a) @ numpy(table.lora_embeddings_b)
    np.testing.assert_allclose(numpy(dense.float_table()), kernel, atol=1e-6)
    np.testing.assert_allclose(numpy(table.float_table()), rows, atol=1e-6)
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    np.testing.assert_allclose(numpy(dense(x)), x @ kernel + numpy(dense.bias), atol=tolerance)
    np.testing.assert_allclose(numpy(table(np.arange(7))), rows, atol=tolerance)
    np.testing.assert_allclose(numpy(table(x, reverse=True)), x @ rows.T, atol=tolerance)


def quantizable_layers():
    """A dense layer and a token table with random weights."""
    dense = layers.Dense(6, use_bias=False)
    table = layers.TokenEmbedding(7, 8)
    dense.build((None, 8))
    table.build()
    randomize(dense, np.random.default_rng(0))
    return dense, table


def assert_same_tables(dense, table):
    """The layer maps an identity matrix to its kernel, up to the quantization of the inputs."""
    np.testing.assert_allclose(numpy(dense.float_table()), numpy(dense(np.eye(8, dtype="float32"))), atol=1e-6)
    np.testing.assert_allclose(numpy(table.float_table()), numpy(table(np.arange(7))), atol=1e-6)


def add_adapters(*adapted):
    for layer in adapted:
        layer.enable_lora(2)
        part_b = layer.trainable_variables[-1]
        part_b.assign(np.full(part_b.shape, 0.01, "float32"))


@pytest.mark.parametrize(("mode", "step"), [("int8", 1 / 127), ("int4", 1 / 7)])
def test_float_tables_with_quantization_match_the_layer(mode, step):
    dense, table = quantizable_layers()
    for layer in (dense, table):
        before = numpy(layer.float_table())
        layer.quantize(mode)
        error = np.abs(numpy(layer.float_table()) - before).max()
        assert error <= step * np.abs(before).max()
    assert_same_tables(dense, table)
    add_adapters(dense, table)
    assert_same_tables(dense, table)


def test_float_tables_with_quantization_in_groups_match_the_layer():
    """Keras clips groups whose values all have the same sign, so that the error is not that of a step."""
    dense, table = quantizable_layers()
    for layer in (dense, table):
        layer.quantize(config=keras.quantizers.Int4QuantizationConfig(block_size=4))
    assert_same_tables(dense, table)
    add_adapters(dense, table)
    assert_same_tables(dense, table)
