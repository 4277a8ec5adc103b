"""The config and the model that a pre-training starts with."""

import json
import types

import pytest

from keras_bert.runs.pretraining_model import PretrainerBuilder, open_config


def test_a_named_size_has_the_tokens_of_the_vocabulary():
    config = open_config("L-2_H-128", vocabulary=["[PAD]", "[UNK]", "a"])
    assert config.hidden_size == 128
    assert config.num_hidden_layers == 2
    assert config.vocab_size == 3


def test_a_file_keeps_its_own_number_of_tokens(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_huggingface()))
    assert open_config(str(path), vocabulary=["a"]) == config


def test_another_model_makes_its_own_config():
    own = types.SimpleNamespace(config=lambda tokens: f"a config of {tokens} tokens")
    assert open_config(own, vocabulary=["a", "b"]) == "a config of 2 tokens"
    assert open_config(own) == "a config of 1 tokens"


def test_an_unknown_size_names_the_argument():
    with pytest.raises(ValueError, match="`config`"):
        open_config("L-2_H-127")


@pytest.mark.parametrize(("config", "model"), [(None, None), ("L-2_H-128", "bert-base-uncased")])
def test_weights_are_either_new_or_those_of_a_checkpoint(config, model):
    settings = types.SimpleNamespace(seed=1, config=config, model=model)
    with pytest.raises(ValueError, match="either `config` .* or `model`"):
        PretrainerBuilder(settings, ["a"], 16).build(teacher=None)
