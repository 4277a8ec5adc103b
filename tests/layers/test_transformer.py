"""Blocks: recomputed activations change no gradient; attention of the decoder to the right and to padding."""

import keras
import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy


def block_model(remat):
    block = layers.TransformerBlock(8, 2, 16, "gelu", 0.1, 0.1, 0.2, remat=remat)
    hidden = keras.Input((5, 8))
    mask = keras.Input((1, 1, 5), dtype="bool")
    return keras.Model([hidden, mask], block(hidden, attention_mask=mask))


def fit(model, inputs, targets, jit):
    """Returns the losses of two epochs; eager on TensorFlow, where tracing takes longer than so short a run."""
    options = {"run_eagerly": keras.backend.backend() == "tensorflow"}
    if jit:  # XLA draws other masks, also without remat.
        options = {"jit_compile": True}
    model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    model.optimizer.build(model.trainable_variables)  # Creating variables in a graph causes a second trace.
    return model.fit(inputs, targets, epochs=2, verbose=0).history["loss"]


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_remat_keeps_the_gradients_with_dropout(jit):
    hidden, targets = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype("float32")
    lengths = [4, 3, 1]
    inputs = [hidden, np.tri(5)[lengths, None, None] > 0]
    losses = []
    weights = []
    for remat in (False, True):
        keras.utils.set_random_seed(5)
        model = block_model(remat)
        losses.append(fit(model, inputs, targets, jit))
        weights.append(model.get_weights())
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for found, expected in zip(weights[1], weights[0], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))
    # Dropout is active.
    first = to_numpy(model(inputs, training=True))
    second = to_numpy(model(inputs, training=True))
    assert np.abs(first - second).max() > 0.01


def test_computed_positions_are_those_of_all():
    """Queries at some positions alone, of which a position may stand twice."""
    block = layers.TransformerBlock(8, 2, 16)
    hidden = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
    positions = np.array([[0, 3], [2, 2]], "int32")
    everywhere = to_numpy(block(hidden))
    some = to_numpy(block(hidden, positions=positions))
    expected = np.take_along_axis(everywhere, positions[..., None], 1)
    np.testing.assert_allclose(some, expected, atol=1e-6)


def test_a_decoder_reads_neither_the_right_nor_padding_of_the_source():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(1, 4, 8)).astype("float32")
    memory = rng.normal(size=(1, 3, 8)).astype("float32")
    block = layers.DecoderBlock(8, 2, 16, initializer_range=0.5)
    masks = {
        "attention_mask": layers.AttentionMask(causal=True)(np.ones((1, 4))),
        "memory_mask": layers.AttentionMask()(np.array([[1, 1, 0]])),
    }
    before = to_numpy(block(hidden, memory, **masks))
    hidden[0, 3] += 1
    memory[0, 2] += 1  # Padding.
    after = to_numpy(block(hidden, memory, **masks))
    np.testing.assert_array_equal(after[0, :3], before[0, :3])
    assert np.abs(after[0, 3] - before[0, 3]).max() > 1e-3
