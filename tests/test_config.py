"""Sizes and settings of encoders, and the two formats of `config.json`."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.config import NAMED_CONFIGS, BertConfig, named_config

GOOGLE = {"vocab_size": 21128, "hidden_size": 768, "hidden_act": "gelu", "pooler_type": "first_token_transform"}
BERT = {"model_type": "bert", "vocab_size": 100}


def parameters(config):
    """The number of weights of an encoder, from a formula."""
    width = config.hidden_size
    inner = config.intermediate_size
    norm = 2 * width
    embeddings = (config.vocab_size + config.max_position_embeddings + config.type_vocab_size) * width + norm
    block = 4 * (width * width + width) + norm + (width * inner + inner) + (inner * width + width) + norm
    return embeddings + config.num_hidden_layers * block + width * width + width


def test_parameter_counts(config):
    assert parameters(keras_bert.BERT_BASE) == 109_482_240
    assert parameters(keras_bert.BERT_LARGE) == 335_141_888
    assert keras_bert.build_encoder(config).count_params() == parameters(config)


def test_named_sizes():
    names = [name for name in NAMED_CONFIGS if name.startswith("L-") and "A-" not in name]
    assert len(names) == 24
    medium = named_config("L-8_H-512")
    assert medium.num_hidden_layers == 8
    assert medium.num_attention_heads == 8
    assert medium.intermediate_size == 2048
    assert medium == named_config("medium") == named_config("bert-medium")


def test_named_sizes_of_the_size_study_of_the_paper():
    config = named_config("L-6_H-768_A-3")
    assert config.num_hidden_layers == 6
    assert config.hidden_size == 768
    assert config.num_attention_heads == 3


def test_gelu_of_google_is_the_tanh_form(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(GOOGLE))
    config = BertConfig.from_json(path)
    assert config.hidden_act == "gelu_new"
    assert config.vocab_size == 21128
    assert config.to_google()["hidden_act"] == "gelu"
    assert BertConfig.from_dict(config.to_google()) == config


def test_gelu_of_hugging_face_is_the_erf_form():
    config = BertConfig.from_dict({**BERT, "hidden_act": "gelu", "layer_norm_eps": 1e-7})
    assert config.hidden_act == "gelu"
    assert BertConfig.from_dict(config.to_huggingface()) == config


def test_integers_of_numpy():
    config = BertConfig(hidden_size=np.int64(768), num_hidden_layers=np.uint8(2), initializer_range=np.float32(0.02))
    assert json.loads(json.dumps(config.to_huggingface()))["hidden_size"] == 768


def read(**values):
    return BertConfig.from_dict(values)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (BertConfig, {"hidden_size": 100}, "`hidden_size` must be a multiple of `num_attention_heads`"),
        (BertConfig, {"hidden_act": "mish"}, "`hidden_act` must be one of gelu"),
        (BertConfig, {"num_hidden_layers": 0}, "`num_hidden_layers` must be a positive integer. Received: num_hid.*=0"),
        (BertConfig, {"num_hidden_layers": True}, "`num_hidden_layers`"),
        (BertConfig, {"hidden_dropout_prob": 1.0}, r"`hidden_dropout_prob` must be a number in \[0, 1\)"),
        (BertConfig, {"layer_norm_eps": 0}, "`layer_norm_eps` must be a positive number"),
        (read, {"hidden_size": 64}, "`vocab_size` is missing"),
        (read, {**GOOGLE, "hiden_size": 64}, r"unknown key\(s\) hiden_size"),
        (read, {**GOOGLE, "hidden_act": "gelu_new"}, "`hidden_act` must be one of gelu, relu, tanh, linear"),
        (read, {**BERT, "model_type": "roberta"}, "`model_type` must be 'bert'"),
        (read, {**BERT, "position_embedding_type": "relative_key"}, "must be 'absolute'"),
        (read, {**BERT, "is_decoder": True}, "`is_decoder` must be False"),
        (read, {**BERT, "pruned_heads": {"0": [1]}}, "`pruned_heads` is not supported"),
        (named_config, {"name": "huge"}, "unknown size name 'huge'. Expected one of tiny, mini, small"),
        (BertConfig(hidden_act="gelu").to_google, {}, "Google's format has no name for `hidden_act`='gelu'"),
        (BertConfig(layer_norm_eps=1e-6).to_google, {}, "no key for `layer_norm_eps`"),
    ],
)
def test_bad_arguments(make, values, message):
    with pytest.raises(ValueError, match=message):
        make(**values)
