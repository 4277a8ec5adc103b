"""What is written in Marian's layout."""

import dataclasses

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.translation.model import build_transformer
from tests.translation.conftest import CONFIG


def test_what_marian_has_no_place_for(tmp_path):
    model = build_transformer(dataclasses.replace(CONFIG, positions="learned"))
    with pytest.raises(ValueError, match="no place for positions='learned'"):
        keras_bert.save(model, tmp_path / "model", None)
    with pytest.raises(
        ValueError, match="head='translation' is saved with format='huggingface'. Received: format='google'"
    ):
        keras_bert.save(model, tmp_path / "model", None, format="google")


def test_save_honours_or_refuses_its_arguments(model, tmp_path):
    for name, value in {"labels": ["a"], "task": "x", "pair": True, "thresholds": 0.5, "sequence_length": 8}.items():
        with pytest.raises(ValueError, match=f"`{name}` has no meaning for a model with head='translation'"):
            keras_bert.save(model, tmp_path, None, **{name: value})
    pieces = ["[PAD]", "[UNK]", "[START]", "[END]"]
    with pytest.raises(ValueError, match="must have the same number of tokens. Received: 23 and 4"):
        keras_bert.save(model, tmp_path, pieces)
    keras_bert.save(model, tmp_path, None, weights_dtype="bfloat16")
    assert {str(tensor.dtype) for tensor in safetensors.numpy.load_file(tmp_path / "model.safetensors").values()} == {
        "bfloat16"
    }
    again = keras_bert.translation.load(tmp_path).model()
    for before, after in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(before.astype("bfloat16").astype("float32"), after)
