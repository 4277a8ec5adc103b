"""Names and configs of the models that BERT is compared with."""

import pytest

from research.rivals.config import explain_names, is_name, named_rival


def test_the_published_sizes():
    """Those of GLUE's baseline."""
    config = named_rival("bilstm", 7)
    assert config.kind == "bilstm"
    assert config.vocab_size == 7
    assert config.width == 1500
    assert config.num_layers == 2
    assert config.embedding_size == 300


def test_sizes_in_a_name():
    config = named_rival("bilstm_H-256_L-1_E-100", 7)
    assert (config.width, config.num_layers, config.embedding_size) == (256, 1, 100)


def test_the_token_table_is_as_wide_as_the_states_by_default():
    assert named_rival("bilm_H-8", 7).embedding_size == 8


@pytest.mark.parametrize("name", ["bilstm_", "bidaf_H256", "bert", "L-2_H-4"])
def test_other_names(name):
    assert named_rival(name, 7) is None
    assert not is_name(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bidaf_L-2", "bidaf_L-2: bidaf has no num_layers. Expected sizes H, E"),
        ("bilstm_H-4_H-8", "bilstm_H-4_H-8: each size must be given once. Received: H, H"),
    ],
)
def test_sizes_that_a_model_does_not_have(name, message):
    with pytest.raises(ValueError, match=message):
        named_rival(name, 7)


@pytest.mark.parametrize(
    ("name", "is_explained"),
    [("elmo", True), ("BiLSTM-256", True), ("gpt", True), ("gpt2", False), ("my/bilstm", False)],
)
def test_names_that_resemble_one(name, is_explained):
    assert ("named bilstm (classification)" in explain_names(name)) == is_explained


def test_titles_and_sizes():
    config = named_rival("bidaf_H-4_E-6", 7)
    assert config.title == "BiDAF"
    assert config.size == "1 layer, width 4 in each direction"
    assert config.hidden_size == 8
    assert config.to_huggingface()["model_type"] == "keras_bert_bidaf"
