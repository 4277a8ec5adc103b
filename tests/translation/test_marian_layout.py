"""What is written in Marian's layout, and what it has no place for."""

import dataclasses

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.translation import marian_layout
from keras_bert.translation.model import build_transformer
from tests.translation.conftest import CONFIG


def _tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def test_what_marian_has_no_place_for(tmp_path):
    model = build_transformer(dataclasses.replace(CONFIG, positions="learned"))
    with pytest.raises(ValueError, match="no place for positions='learned'"):
        keras_bert.save(model, tmp_path / "model", None)
    with pytest.raises(ValueError, match="is saved with format='huggingface'. Received: format='google'"):
        keras_bert.save(model, tmp_path / "model", None, format="google")


def test_save_honours_or_refuses_its_arguments(model, tmp_path):
    for name, value in {"labels": ["a"], "task": "x", "pair": True, "thresholds": 0.5, "sequence_length": 8}.items():
        with pytest.raises(ValueError, match=f"`{name}` has no meaning for a model with head='translation'"):
            keras_bert.save(model, tmp_path, None, **{name: value})
    pieces = ["[PAD]", "[UNK]", "[START]", "[END]"]
    with pytest.raises(ValueError, match="must have the same number of tokens. Received: 23 and 4"):
        keras_bert.save(model, tmp_path, pieces)
    keras_bert.save(model, tmp_path, None, weights_dtype="bfloat16")
    assert {str(tensor.dtype) for tensor in _tensors(tmp_path).values()} == {"bfloat16"}
    again = keras_bert.translation.load(tmp_path).model()
    for before, after in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(before.astype("bfloat16").astype("float32"), after)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("model.shared.weight", 1),
        ("model.decoder.layers.0.fc1.weight", 1),
        ("model.decoder.layers.0.fc2.weight", 0),
        ("model.encoder.layers.0.self_attn.out_proj.bias", 0),
        ("model.encoder.layers.0.fc1.bias", None),
    ],
)
def test_the_width_has_all_sines_then_all_cosines(name, axis):
    """And back: ours alternate. A bias of what is not as wide as the model stays."""
    array = np.arange(6) if name.endswith("bias") else np.arange(36).reshape(6, 6)
    theirs = marian_layout.reordered(name, array, (-1, 2))
    expected = array if axis is None else array.take([0, 2, 4, 1, 3, 5], axis)
    np.testing.assert_array_equal(theirs, expected)
    np.testing.assert_array_equal(marian_layout.reordered(name, theirs, (2, -1)), array)
