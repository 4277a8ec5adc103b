"""Directories in Marian's layout, as others write them and as they are written here."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.translation import marian
from tests.translation.conftest import CONFIG


def _tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def test_marian_round_trip(model, golden, tmp_path):
    keras_bert.save(model, tmp_path / "ours", None)
    with pytest.raises(ValueError, match="ours is not a BERT: keras_bert.translation.load opens it"):
        keras_bert.load(tmp_path / "ours")
    again = keras_bert.translation.load(tmp_path / "ours")
    assert dataclasses.replace(again.config, initializer_range=None) == CONFIG
    for before, after in zip(model.get_weights(), again.model().get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    theirs = marian.read(golden / "marian" / "relu")
    keras_bert.save(theirs, tmp_path / "theirs", None)
    assert (tmp_path / "theirs" / "model.safetensors").stat().st_size > 0
    before = _tensors(golden / "marian" / "relu")
    after = _tensors(tmp_path / "theirs")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        np.testing.assert_array_equal(after[name], tensor)


POSITIONS = "model.encoder.embed_positions.weight"
OTHER = {"lm_head.weight": np.ones((23, 16), "float32"), POSITIONS: np.ones((12, 16), "float32")}
SIZES = {"vocab_size": 23, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 32}
SAME = {"vocab_size": "decoder_vocab_size", "encoder_ffn_dim": "decoder_ffn_dim"}
REFUSED = [  # A message, changes of the config (`...` for no such key), and further tensors.
    ("config.json: `scale_embedding` must be True. Received: scale_embedding=False", {"scale_embedding": ...}, {}),
    ("config.json: the key `d_model` is missing", {"d_model": ...}, {}),
    ("config.json: `tie_word_embeddings` must be True", {"tie_word_embeddings": False}, {}),
    ("`activation_function` must be one of .*on=\\['relu'\\]", {"activation_function": ["relu"]}, {}),
    ("config.json: `keras_bert` must be an object. Received: None", {"keras_bert": None}, {}),
    ("json: `output_bias` must be a bool. Received: output_bias='no'", {"keras_bert": {"output_bias": "no"}}, {}),
    ("config.json: `dropout` must be a number in \\[0, 1\\)", {"dropout": 2}, {}),
    ("encoder_ffn_dim` and `decoder_ffn_dim` must be equal. Received: 32 and 33", {"decoder_ffn_dim": 33}, {}),
    ("`decoder_vocab_size` and `vocab_size` must be equal. Received: 9 and 23", {"decoder_vocab_size": 9}, {}),
    ("unknown tensors more", {}, {"more": np.ones(2, "float32")}),
    ("`max_pos.* be 12, as in .*: max_position_embeddings=1000000000", {"max_position_embeddings": 10**9}, OTHER),
    ("hidden_size=17", {"d_model": 17, "encoder_attention_heads": 1, "decoder_attention_heads": 1}, {}),
]
for name, value in OTHER.items():
    REFUSED.append((f"{name} must be equal to", {}, {name: value}))
for name, right in SIZES.items():  # Before a model is built.
    message = f"`{name}` of its config must be {right}, .* Received: {name}=1000000000"
    REFUSED.append((message, {name: 10**9, SAME.get(name, name): 10**9}, {}))


def test_marian_directories_are_honoured_or_refused(model, tmp_path):
    """Each setting and each copy of a table, one by one."""
    keras_bert.save(model, tmp_path, None)
    good = json.loads((tmp_path / "config.json").read_text())
    tensors = _tensors(tmp_path)
    for message, changes, extra in REFUSED:
        changed = good | changes
        values = {name: value for name, value in changed.items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(values))
        safetensors.numpy.save_file(tensors | extra, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            keras_bert.translation.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(good))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        keras_bert.translation.load(tmp_path)
    weights.rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pytorch_model.bin: not a readable file of PyTorch"):
        keras_bert.translation.load(tmp_path)
