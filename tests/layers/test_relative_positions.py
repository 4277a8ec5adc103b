"""Relative positions: buckets and bias by their definitions, and MPNet's model in all forms that a BERT has."""

import dataclasses
import math

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.layers import relative_positions
from keras_bert.layers.relative_positions import RelativeBias
from keras_bert.models.tuning import freeze_layers
from tests.conftest import HEADS, to_numpy

DISTANCES = np.arange(-600, 601)


def float_buckets(distances):
    """The buckets as MPNet's program computes them, in float32."""
    lengths = np.abs(distances)
    with np.errstate(divide="ignore"):
        logarithms = np.log(lengths.astype("float32") / np.float32(8))
    steps = np.maximum(logarithms, 0) / np.float32(math.log(128 / 8)) * np.float32(8)
    buckets = np.where(lengths < 8, lengths, np.minimum(8 + steps.astype("int64"), 15))
    return buckets + 16 * (distances > 0)


def test_buckets_are_those_of_the_logarithm():
    expected = float_buckets(DISTANCES)
    found = [relative_positions.bucket(distance) for distance in DISTANCES.tolist()]
    assert found == expected.tolist()
    assert {*expected} == {*range(32)} - {16}  # That of distance 0 on the right.


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bias(dtype):
    """A row of the table for each pair of a query and a key, also for distances that have no row of their own."""
    layer = RelativeBias(3, 0.5, dtype=dtype)
    bias = to_numpy(layer(np.zeros((2, 200), "int32"), np.ones((2, 200), "int32")))
    table = to_numpy(layer.table)
    assert bias.shape == (1, 3, 200, 200)
    assert table.shape == (32, 3)
    assert 0.3 < table.std() < 0.6
    places = np.arange(200)
    rows = float_buckets(places[None, :] - places[:, None])
    np.testing.assert_array_equal(bias[0], np.moveaxis(table[rows], 2, 0))
    assert keras.backend.standardize_dtype(layer.compute_dtype) == dtype


def test_config_and_declared_output():
    layer = RelativeBias(4, 0.3, dtype="mixed_bfloat16")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert copy.get_config() == layer.get_config()
    assert copy.num_heads == 4
    assert copy.initializer_range == 0.3
    declared = layer(keras.Input((None,), dtype="int32"))
    assert declared.shape == (1, 4, None, None)
    assert declared.dtype == "bfloat16"


@pytest.fixture
def make(config):
    """Builds a model of two blocks by the name of its head, with a bias that matters."""

    def built(head, **options):
        own = dataclasses.replace(config, num_hidden_layers=2, type_vocab_size=0, position_padding_id=1)
        encoder = keras_bert.build_encoder(own, positions="relative", **options)
        return HEADS[head].build(encoder)

    return built


def table_of(model):
    return keras_bert.describe(model).layers["position_bias"].table


def test_keras_files_and_frozen_layers(make, batch, tmp_path):
    model = make("classification")
    model.save(tmp_path / "model.keras")
    reopened = keras.saving.load_model(tmp_path / "model.keras")
    assert keras_bert.describe(reopened).positions == "relative"
    np.testing.assert_array_equal(to_numpy(table_of(reopened)), to_numpy(table_of(model)))
    np.testing.assert_allclose(to_numpy(reopened(batch)["logits"]), to_numpy(model(batch)["logits"]), atol=1e-6)
    freeze_layers(model, 0)
    assert not keras_bert.describe(model).layers["position_bias"].trainable


@pytest.mark.tensorflow
def test_gradients_of_compiled_and_trimmed_models(make, batch):
    import tensorflow as tf

    model = make("classification")
    trimmed = keras_bert.models.build_trimmed(model)
    table = table_of(model)

    def gradient(trained):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(trained(batch)["logits"] ** 2)
        return tf.convert_to_tensor(tape.gradient(loss, table.value))

    expected = to_numpy(gradient(model))
    assert np.abs(expected).max() > 1e-2
    compiled = tf.function(gradient, jit_compile=True, autograph=False)
    for found in (compiled(model), gradient(trimmed)):
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-4 * np.abs(expected).max())


def test_adapters_leave_the_bias(make, batch):
    model = make("classification")
    expected = to_numpy(model(batch)["logits"])
    keras_bert.enable_lora(model, 2)
    assert not table_of(model).trainable
    np.testing.assert_allclose(to_numpy(model(batch)["logits"]), expected, atol=1e-6)
    keras_bert.merge_lora(model)
    assert table_of(model).trainable


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a")
def test_int8(make, batch):
    model = make("encoder")
    expected = to_numpy(model(batch)["sequence_output"])
    table = to_numpy(table_of(model))
    model.quantize("int8")
    np.testing.assert_array_equal(to_numpy(table_of(model)), table)
    real = batch["padding_mask"].astype(bool)
    found = to_numpy(model(batch)["sequence_output"])
    assert np.abs(found - expected)[real].max() < 0.1 * np.abs(expected).max()
