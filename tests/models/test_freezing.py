"""Frozen layers."""

import dataclasses

import keras
import pytest

import keras_bert
from keras_bert.layers import TransformerBlock


@pytest.fixture(scope="session")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=2)


def test_trainable_weights_after_freezing(build):
    model = build("multiple_choice")
    before = {weight.path for weight in model.trainable_weights}
    for count, frozen in ((0, ("embedding",)), (1, ("embedding", "block_0"))):
        keras_bert.freeze_layers(model, count)
        expected = set(before)
        for name in frozen:
            expected = {path for path in expected if name not in path}
        assert {weight.path for weight in model.trainable_weights} == expected
        assert len(expected) < len(before)
        assert [path for path in expected if "block_1" in path]


def test_frozen_layers_stay_frozen(build, tmp_path):
    model = build("multiple_choice")
    keras_bert.freeze_layers(model, 1)
    keras_bert.describe(model).layers["block_1"].attention.trainable = False  # Only a sublayer.
    frozen = [weight.path for weight in model.non_trainable_weights]
    model.save(tmp_path / "model.keras")
    for copy in (keras.saving.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        assert [weight.path for weight in copy.non_trainable_weights] == frozen
        for layer in copy._flatten_layers():
            layer.trainable = True
        assert len(copy.trainable_weights) == len(model.weights)


def test_freezing_under_a_custom_head(config):
    first = keras_bert.build_encoder(config, name="first")
    second = keras_bert.build_encoder(config, name="second")
    both = [first.output["pooled_output"], second(first.input)["pooled_output"]]
    model = keras.Model(first.input, keras.layers.Dense(1, name="own")(keras.layers.Concatenate()(both)))
    keras_bert.freeze_layers(model, 1)
    paths = {weight.path for weight in model.trainable_weights}
    assert not [path for path in paths if "embedding" in path or "block_0" in path]
    assert {"first_block_1", "second_block_1", "first_pooler", "own"} <= {path.split("/")[0] for path in paths}


class Unwired(keras.Model):
    def __init__(self):
        super().__init__()
        self.block = TransformerBlock(8, 2, 16)


def test_models_that_cannot_be_frozen(build):
    stranger = keras.Sequential([keras.layers.Dense(1)], name="stranger")
    for model, count, message in (
        (stranger, 0, "`model` must contain an encoder from build_encoder. Received: model='stranger'"),
        (Unwired(), 0, "set its `trainable` instead"),
        (encoder := build("encoder"), -1, "`freeze_layers`: expected from 0 to 2, .* Received: -1"),
        (encoder, 3, "Received: 3"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.freeze_layers(model, count)
