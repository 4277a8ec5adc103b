"""Tensors of a checkpoint and variables of a model."""

import ml_dtypes
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import huggingface
from keras_bert.checkpoints.folder import Folder
from keras_bert.checkpoints.tensors import Tensor, check_sizes, fill, head_of_tensors, listing, slots
from tests.checkpoints.conftest import rewrite, without


def test_a_wrong_shape_changes_no_variable(folder, build):
    rewrite(folder, lambda values: values | {"bert.pooler.dense.bias": np.zeros(3, "float32")})
    checkpoint = huggingface.read_model(Folder(folder))
    encoder = build("encoder")
    before = encoder.get_weights()
    with pytest.raises(ValueError, match=r"pooler.dense.bias \(3,\), expected \(32,\)"):
        fill(checkpoint, slots(keras_bert.describe(encoder)))
    for left, right in zip(encoder.get_weights(), before, strict=True):
        np.testing.assert_array_equal(left, right)


BIAS = "bert.encoder.layer.0.output.dense.bias"
TABLE = "bert.embeddings.word_embeddings.weight"
MORE = {"bert.x": np.zeros((3, 4), "float32")}
UNTIED = {"cls.predictions.decoder.weight": np.zeros((50, 32), "float32")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values | UNTIED, "cls.predictions.decoder.weight differs from bert.embeddings.word_emb"),
        (lambda values: values | MORE, r"1 tensor\(s\) do not fit .* bert.x \(3, 4\)"),
        (lambda values: values | {TABLE: np.zeros(50, "float32")}, r"lacks a table emb.*weight. Received: \(50,\)"),
        # 8-bit floats, which NumPy does not have.
        (lambda values: values | {BIAS: values[BIAS].astype(ml_dtypes.float8_e4m3fn)}, "Received: dtype=F8_E4M3"),
        (without(TABLE), "the checkpoint lacks a table embeddings.word_embeddings.weight. Received: none"),
        (without(BIAS), r"lacks 1 tensor\(s\): encoder.layer.0.output.dense.bias \(32"),
        (without("pooler.dense.bias"), r"lacks 1 tensor\(s\): pooler.dense.bias"),
    ],
)
def test_wrong_tensors(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder).model()


def of_shape(*shape):
    return Tensor("stored", shape, lambda: np.zeros(shape))


SMALL = {
    "embeddings.word_embeddings.weight": of_shape(7, 4),
    "encoder.layer.0.output.dense.weight": of_shape(4, 8),
    "encoder.layer.1.output.dense.weight": of_shape(4, 8),
}
SIZES = {
    "vocab_size": ("embeddings.word_embeddings.weight", 0),
    "hidden_size": ("embeddings.word_embeddings.weight", 1),
}
CONFIG = {"vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 2}


def test_sizes_of_a_config_are_those_of_the_tensors():
    check_sizes("mine", CONFIG, SMALL, sizes=SIZES)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("vocab_size", 8, r"^mine: `vocab_size` .* must be 7, as in embeddings.word_embeddings.weight \(7, 4\)"),
        ("hidden_size", 5, "`hidden_size` of its config must be 4"),
        ("num_hidden_layers", 3, "`num_hidden_layers` of its config must be 2, the number of layers of the tensors"),
    ],
)
def test_another_size_than_that_of_the_tensors(key, value, message):
    with pytest.raises(ValueError, match=message):
        check_sizes("mine", CONFIG | {key: value}, SMALL, sizes=SIZES)


def test_a_table_that_is_optional_may_be_missing():
    sizes = SIZES | {"type_vocab_size": ("segments", 0)}
    config = CONFIG | {"type_vocab_size": 2}
    check_sizes("mine", config, SMALL, sizes=sizes, optional="segments")
    check_sizes("mine", config | {"type_vocab_size": 0}, SMALL, sizes=sizes)
    with pytest.raises(ValueError, match="lacks a table segments. Received: none"):
        check_sizes("mine", config, SMALL, sizes=sizes)


@pytest.mark.parametrize(
    ("names", "head"),
    [
        ([], None),
        (["encoder.layer.0.output.dense.weight"], None),
        (["qa_outputs.weight"], "question_answering"),
        (["classifier.weight", "pooler.dense.weight"], "classification"),
        (["classifier.weight"], "token_classification"),
        (["cls.predictions.bias"], "pretraining"),
        (["cls.predictions.bias", "cls.seq_relationship.weight"], "pretraining"),
    ],
)
def test_the_head_of_tensors(names, head):
    assert head_of_tensors(dict.fromkeys(names)) == head


def test_long_listings_are_counted():
    assert listing(["a", "b"]) == "a, b"
    assert listing(list("abcde")) == "a, b, c, d, e"
    assert listing(list("abcdefg")) == "a, b, c, d, e and 2 more"
