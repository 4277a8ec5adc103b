"""Settings of an encoder-decoder: files, sizes, and what is refused."""

import dataclasses
import json

import pytest

from keras_bert.translation.config import (
    TRANSFORMER_CONFIGS,
    TransformerConfig,
    TranslationSettings,
    open_config,
)
from tests.translation.conftest import CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 15),
        ("dropout", 1),
        ("positions", "none"),
        ("hidden_act", "tan"),
        ("num_decoder_layers", 0),
        ("output_bias", "false"),
        ("layer_norm_eps", float("nan")),
        ("initializer_range", float("inf")),
    ],
)
def test_bad_configs(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        dataclasses.replace(CONFIG, **{name: value})


def test_sizes_of_the_paper():
    """Vaswani et al., 2017, table 3."""
    base = TRANSFORMER_CONFIGS["base"]
    assert base == TransformerConfig()
    assert (base.hidden_size, base.intermediate_size, base.num_attention_heads, base.dropout) == (512, 2048, 8, 0.1)
    big = TRANSFORMER_CONFIGS["big"]
    assert (big.hidden_size, big.intermediate_size, big.num_attention_heads, big.dropout) == (1024, 4096, 16, 0.3)
    assert big.size == "6 + 6 layers of width 1024"


def test_the_deviation_follows_the_width():
    assert dataclasses.replace(CONFIG, hidden_size=64).deviation == 0.125
    assert dataclasses.replace(CONFIG, initializer_range=0.5).deviation == 0.5


def test_a_config_of_a_name_or_of_a_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"hidden_size": 64, "num_attention_heads": 4}))
    assert open_config(str(path)) == TransformerConfig(hidden_size=64, num_attention_heads=4)
    assert open_config("mini") == TRANSFORMER_CONFIGS["mini"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "an object with keys .* Received: list"),
        ('{"width": 3}', r"hidden_size.* Received: \['width'\]"),
        ('{"hidden_size": 15}', "hidden_size=15"),
        ("{", "config.json: "),
    ],
)
def test_a_file_that_is_no_config(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        open_config(str(path))
    assert str(error.value).startswith(f"{path}: ")


def test_names_that_are_no_config(tmp_path):
    with pytest.raises(ValueError, match=f"the folder {tmp_path}"):
        open_config(str(tmp_path))
    with pytest.raises(ValueError, match="no such file: none.json"):
        open_config("none.json")
    with pytest.raises(ValueError, match="one of tiny, mini, small, base, big.* Received: large"):
        open_config("large")


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"positions": "learned"}, "positions='learned'"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps=1e-06"),
        ({"hidden_act": "sigmoid"}, "hidden_act='sigmoid'"),
        ({"hidden_size": 3, "num_attention_heads": 1}, "hidden_size=3"),
    ],
)
def test_what_marian_has_no_place_for(changes, setting):
    config = TransformerConfig()
    config.check_huggingface()
    with pytest.raises(ValueError, match=setting):
        dataclasses.replace(config, **changes).check_huggingface()


def test_keys_of_hugging_face():
    values = dataclasses.replace(CONFIG, output_bias=True).to_huggingface()
    assert values["d_model"] == 16
    assert values["encoder_layers"] == 2
    assert values["decoder_layers"] == 1
    assert values["encoder_ffn_dim"] == values["decoder_ffn_dim"] == 32
    assert values["vocab_size"] == values["decoder_vocab_size"] == 23
    assert values["init_std"] == 0.25  # One by the square root of the width.
    assert values["keras_bert"] == {"output_bias": True}


def test_settings_are_plain_values():
    values = TranslationSettings(beam_size=2).to_dict()
    assert values["beam_size"] == 2
    assert json.loads(json.dumps(values)) == values
