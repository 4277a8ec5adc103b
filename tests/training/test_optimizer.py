"""The settings of optimizers that are derived from a model."""

import dataclasses

import keras
import pytest

import keras_bert


@pytest.fixture(scope="module")
def config(config):
    """Two blocks."""
    return dataclasses.replace(config, num_hidden_layers=2)


@pytest.fixture(scope="module")
def bert(config):
    return keras_bert.build_pretrainer(keras_bert.build_encoder(config))


# The weights of a block that are not decayed: biases, and those of LayerNorms.
UNDECAYED = [
    "attention/query_key_value/bias",
    "attention/output/bias",
    "attention_norm/gamma",
    "attention_norm/beta",
    "feed_forward/intermediate/bias",
    "feed_forward/output/bias",
    "output_norm/gamma",
    "output_norm/beta",
]


def test_weights_excluded_from_weight_decay(bert):
    assert keras_bert.create_optimizer(bert, 1e-4, 10).undecayed == [
        "embeddings/norm/gamma",
        "embeddings/norm/beta",
        *(f"block_0/{name}" for name in UNDECAYED),
        *(f"block_1/{name}" for name in UNDECAYED),
        "mlm_transform/dense/bias",
        "mlm_transform/norm/gamma",
        "mlm_transform/norm/beta",
        "pooler/dense/bias",
        "mlm_bias/bias",
        "next_sentence/bias",
    ]


# The shares of the rate of two blocks and of what is below; all other layers have the whole rate.
RATES = {"token_embeddings": 0.125, "embeddings": 0.125, "block_0": 0.25, "block_1": 0.5}


def rate_of(path):
    for part in path.split("/"):
        if part in RATES:
            return RATES[part]
    return 1.0


@pytest.mark.parametrize("head", ["pretraining", "multiple_choice"])
def test_layer_rates_and_fused_weights(build, head):
    model = build(head)
    optimizer = keras_bert.create_optimizer(model, 1e-4, 10, layer_decay=0.5, kind="lamb")
    fused = []
    for weight in model.trainable_variables:
        assert optimizer.rates.get(weight.path, 1.0) == rate_of(weight.path), weight.path
        if "query_key_value" in weight.path:
            fused.append(weight.path)
    assert len(fused) == 4
    assert sorted(optimizer.fused) == sorted(fused)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "adam"}, "`kind` must be 'adamw' or 'lamb'. Received: kind='adam'"),
        ({"layer_decay": 0}, "`layer_decay` must be above 0 and at most 1. Received: layer_decay=0"),
        ({"layer_decay": 0.9}, "`layer_decay` needs a model with Transformer blocks"),
        ({"total_steps": 0}, "`total_steps` must be a positive integer"),
        ({"total_steps": None}, "`total_steps` is required for a peak `learning_rate`"),
        ({"learning_rate": "1e-3"}, "`learning_rate` must be a number of at least 0"),
        ({"learning_rate": lambda step, rate: rate}, "must be a number, or a function of the step that returns one"),
        ({"learning_rate": lambda step: None}, "`learning_rate`"),
        ({"learning_rate": abs, "warmup_steps": 2}, "`warmup_steps` must be 0 if .* is a schedule"),
        ({"warmup_steps": 11}, "`warmup_steps`"),
    ],
)
def test_bad_arguments(arguments, message):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    settings = {"learning_rate": 1e-3, "total_steps": 10} | arguments
    with pytest.raises(ValueError, match=message):
        keras_bert.create_optimizer(model, **settings)


def test_an_optimizer_is_for_one_model(bert):
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = keras_bert.create_optimizer(bert, 1e-3, 10)
    with pytest.raises(ValueError, match="the optimizer was created for another model: '"):
        optimizer.build(other.trainable_variables)


def test_settings_of_keras_that_it_does_not_have():
    with pytest.raises(ValueError, match="`amsgrad`"):
        keras_bert.AdamW(1e-3, amsgrad=True)
