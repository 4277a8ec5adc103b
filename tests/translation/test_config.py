"""Configs that are refused."""

import dataclasses

import pytest

from tests.translation.conftest import CONFIG


def test_bad_configs():
    changes = {"hidden_size": 15, "dropout": 1, "positions": "none", "hidden_act": "tan", "num_decoder_layers": 0}
    changes |= {"output_bias": "false", "layer_norm_eps": float("nan"), "initializer_range": float("inf")}
    for name, value in changes.items():
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            dataclasses.replace(CONFIG, **{name: value})
