"""The settings of optimizers that are derived from a model; schedules, against their formulas."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert


@pytest.fixture(scope="module")
def config(config):
    """Two blocks."""
    return dataclasses.replace(config, num_hidden_layers=2)


@pytest.fixture(scope="module")
def bert(config):
    return keras_bert.build_pretrainer(keras_bert.build_encoder(config))


def test_weights_excluded_from_weight_decay(bert):
    in_block = """attention/query_key_value/bias attention/output/bias attention_norm/gamma attention_norm/beta
        feed_forward/intermediate/bias feed_forward/output/bias output_norm/gamma output_norm/beta"""
    in_blocks = []
    for block in ("block_0", "block_1"):
        in_blocks.extend(f"{block}/{name}" for name in in_block.split())
    assert keras_bert.create_optimizer(bert, 1e-4, 10).undecayed == [
        "embeddings/norm/gamma",
        "embeddings/norm/beta",
        *in_blocks,
        "mlm_transform/dense/bias",
        "mlm_transform/norm/gamma",
        "mlm_transform/norm/beta",
        "pooler/dense/bias",
        "mlm_bias/bias",
        "next_sentence/bias",
    ]


def test_layer_rates_and_fused_weights(bert, build):
    for model in (bert, build("multiple_choice")):
        optimizer = keras_bert.create_optimizer(model, 1e-4, 10, layer_decay=0.5, kind="lamb")
        bottom = {"token_embeddings": 0.125, "embeddings": 0.125, "block_0": 0.25, "block_1": 0.5}
        for path in (weight.path for weight in model.trainable_variables):
            expected = next((bottom[part] for part in path.split("/") if part in bottom), 1.0)
            assert optimizer.rates.get(path, 1.0) == expected, path
        paths = [weight.path for weight in model.trainable_variables if "query_key_value" in weight.path]
        assert (len(paths), sorted(optimizer.fused)) == (4, sorted(paths))


def test_bad_arguments(bert):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for arguments, message in (
        ({"kind": "adam"}, "`kind` must be 'adamw' or 'lamb'. Received: kind='adam'"),
        ({"layer_decay": 0}, "`layer_decay` must be above 0 and at most 1. Received: layer_decay=0"),
        ({"layer_decay": 0.9}, "`layer_decay` needs a model with Transformer blocks"),
        ({"total_steps": 0}, "`total_steps` must be a positive integer. Received: total_steps=0"),
        ({"total_steps": None}, "`total_steps` is required for a peak `learning_rate`. Received: total_steps=None"),
        ({"learning_rate": "1e-3"}, "`learning_rate` must be a number of at least 0. Received: learning_rate='1e-3'"),
        ({"learning_rate": lambda step, rate: rate}, "must be a number, or a function of the step that returns one"),
        ({"learning_rate": lambda step: None}, "must be a number, or a function of the step that returns one"),
        ({"learning_rate": abs, "warmup_steps": 2}, "`warmup_steps` must be 0 if .* is a schedule. Received: .*=2"),
        ({"warmup_steps": 11}, "`warmup_steps` must be between 0 and `total_steps`. Received: warmup_steps=11"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.create_optimizer(model, **{"learning_rate": 1e-3, "total_steps": 10, **arguments})
    optimizer = keras_bert.create_optimizer(bert, 1e-3, 10)
    with pytest.raises(ValueError, match="the optimizer was created for another model: '"):
        optimizer.build(model.trainable_variables)
    with pytest.raises(ValueError, match="`amsgrad` is not supported"):
        keras_bert.AdamW(1e-3, amsgrad=True)


def test_the_schedule_equals_googles():
    schedule = keras_bert.LinearSchedule(1.0, total_steps=10, warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0], atol=1e-6)
    assert float(keras_bert.LinearSchedule(2.0, 10)(0)) == 2.0
    assert keras_bert.LinearSchedule.from_config(schedule.get_config()).get_config() == schedule.get_config()


def test_the_schedule_of_the_transformer():
    """The formula of section 5.3, whose steps count from 1."""
    schedule = keras_bert.translation.InverseSquareRootSchedule((512 * 4000) ** -0.5)
    steps = np.array([1, 10, 3999, 4000, 4001, 100_000])
    expected = 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5)
    np.testing.assert_allclose([float(schedule(step - 1)) for step in steps], expected, rtol=1e-5)
    again = keras_bert.translation.InverseSquareRootSchedule.from_config(schedule.get_config())
    assert again.get_config() == schedule.get_config()
