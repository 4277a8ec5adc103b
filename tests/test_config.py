import dataclasses
import json

import pytest

import keras_bert
from keras_bert.config import NAMED_CONFIGS, BertConfig, named_config

GOOGLE = {"vocab_size": 21128, "hidden_size": 768, "hidden_act": "gelu", "pooler_type": "first_token_transform"}


def parameters(config):
    """The number of weights of an encoder, counted by hand."""
    width, inner = config.hidden_size, config.intermediate_size
    norm = 2 * width
    embeddings = (config.vocab_size + config.max_position_embeddings + config.type_vocab_size) * width + norm
    block = 4 * (width * width + width) + norm + (width * inner + inner) + (inner * width + width) + norm
    return embeddings + config.num_hidden_layers * block + width * width + width


def test_published_parameter_counts():
    assert parameters(keras_bert.BERT_BASE) == 109_482_240
    assert parameters(keras_bert.BERT_LARGE) == 335_141_888


@pytest.mark.parametrize("name", ["tiny", "mini", "L-6_H-768_A-3"])
def test_the_encoder_has_as_many(name):
    config = dataclasses.replace(named_config(name), vocab_size=100)
    assert keras_bert.build_encoder(config).count_params() == parameters(config)


def test_named_sizes():
    names = [name for name in NAMED_CONFIGS if name.startswith("L-") and "A-" not in name]
    assert len(names) == 24
    config = named_config("L-8_H-512")
    assert (config.num_hidden_layers, config.num_attention_heads, config.intermediate_size) == (8, 8, 2048)
    assert config == named_config("medium") == named_config("bert-medium")
    # The size study of the paper.
    config = named_config("L-6_H-768_A-3")
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (6, 768, 3)


def test_google_gelu_is_the_tanh_form(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(GOOGLE))
    config = BertConfig.from_json(path)
    assert (config.hidden_act, config.vocab_size) == ("gelu_new", 21128)
    assert config.to_google()["hidden_act"] == "gelu"
    assert BertConfig.from_dict(config.to_google()) == config


def test_hugging_face_gelu_is_the_erf_form():
    config = BertConfig.from_dict(
        {"model_type": "bert", "vocab_size": 100, "hidden_act": "gelu", "layer_norm_eps": 1e-7}
    )
    assert config.hidden_act == "gelu"
    assert BertConfig.from_dict(config.to_huggingface()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 100, "num_attention_heads": 12}, "`hidden_size` must be a multiple of `num_attention_heads`"),
        ({"hidden_act": "mish"}, "`hidden_act` must be one of gelu"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` must be a positive integer. Received: num_hidden_layers=0"),
        ({"num_hidden_layers": True}, "`num_hidden_layers` must be a positive integer"),
        ({"hidden_dropout_prob": 1.0}, r"`hidden_dropout_prob` must be a number in \[0, 1\)"),
        ({"layer_norm_eps": 0}, "`layer_norm_eps` must be a positive number"),
    ],
)
def test_bad_values(values, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 64}, "`vocab_size` is missing"),
        ({**GOOGLE, "hiden_size": 64}, r"unknown key\(s\) hiden_size"),
        ({**GOOGLE, "hidden_act": "gelu_new"}, "`hidden_act` must be one of gelu, relu, tanh, linear"),
        ({"model_type": "roberta", "vocab_size": 100}, "`model_type` must be 'bert'"),
        ({"model_type": "bert", "vocab_size": 100, "position_embedding_type": "relative_key"}, "must be 'absolute'"),
        ({"model_type": "bert", "vocab_size": 100, "is_decoder": True}, "`is_decoder` must be False"),
        ({"model_type": "bert", "vocab_size": 100, "pruned_heads": {"0": [1]}}, "`pruned_heads` is not supported"),
    ],
)
def test_bad_files(values, message):
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict(values)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_not_a_json_object(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ValueError, match=r"c.json: (not a JSON file|expected a JSON object)"):
        BertConfig.from_json(tmp_path / "c.json")


def test_unknown_size_name():
    with pytest.raises(ValueError, match="unknown size name 'huge'. Expected one of tiny, mini, small"):
        named_config("huge")


def test_what_googles_format_cannot_say():
    with pytest.raises(ValueError, match="Google's format has no name for `hidden_act`='gelu'"):
        dataclasses.replace(keras_bert.BERT_TINY, hidden_act="gelu").to_google()
    with pytest.raises(ValueError, match="no key for `layer_norm_eps`"):
        dataclasses.replace(keras_bert.BERT_TINY, layer_norm_eps=1e-6).to_google()
