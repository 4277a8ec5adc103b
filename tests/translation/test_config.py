"""Configs that are refused."""

import dataclasses

import pytest

from tests.translation.conftest import CONFIG


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 15},
        {"dropout": 1},
        {"positions": "none"},
        {"hidden_act": "tan"},
        {"num_decoder_layers": 0},
        {"output_bias": "false"},
        {"layer_norm_eps": float("nan")},
        {"initializer_range": float("inf")},
    ],
)
def test_bad_configs(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        dataclasses.replace(CONFIG, **changes)
