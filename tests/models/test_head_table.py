"""What every head promises. A new one brings a row of `HEADS` in `tests/conftest.py`, and tests of its own."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import google
from keras_bert.checkpoints.layout import slots
from keras_bert.models import head_table
from tests.conftest import HEADS, to_numpy


@pytest.fixture(scope="module")
def config(config):
    """One block, which is enough here."""
    return dataclasses.replace(config, num_hidden_layers=1)


def assert_same(model, expected):
    """Compares weights and descriptions, which specify the whole graph."""
    described, other = (keras_bert.describe(each) for each in (model, expected))
    assert dataclasses.replace(described, layers={}) == dataclasses.replace(other, layers={})
    assert list(described.layers) == list(other.layers)
    for weight, same in zip(model.weights, expected.weights, strict=True):
        if "seed_generator" not in weight.path:
            np.testing.assert_array_equal(to_numpy(weight), to_numpy(same), err_msg=weight.path)


@pytest.mark.parametrize("name", HEADS)
def test_each_head(build, task, pieces, tmp_path, name):
    """Its outputs, a step of training, and all files of it."""
    inputs, targets, losses = task(name)
    options = {"hidden_states": True, "attention_scores": True, "remat": True, "causal": True, "name": "tower"}
    model = build(name, dtype="mixed_bfloat16", **options)
    outputs, shapes = model(inputs), HEADS[name].outputs
    assert {key: tuple(outputs[key].shape) for key in shapes} == shapes
    assert {model.output[key].dtype for key in shapes} == {"bfloat16" if name == "encoder" else "float32"}
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.trainable_weights} == {"float32"}
    assert keras.config.dtype_policy().name == "float32", "the global dtype policy must not change"
    described = keras_bert.describe(model)
    assert described.layers["block_0"].name == "tower_block_0"
    model.save(tmp_path / "tower.keras")
    assert_same(keras.saving.load_model(tmp_path / "tower.keras"), model)

    model = build(name)
    if targets is not None:
        model.compile(keras.optimizers.SGD(0.1), losses, run_eagerly=True)
        before = model.get_weights()
        assert np.isfinite(model.train_on_batch(inputs, targets)).all()
        after = model.get_weights()
        assert all(np.isfinite(weight).all() for weight in after)
        assert any(np.any(old != new) for old, new in zip(before, after, strict=True))
    keras_bert.save(model, tmp_path / "ours", pieces)
    bert = keras_bert.load(tmp_path / "ours")
    assert (bert.head, bert.vocabulary.pieces, bert.lowercase) == (described.head, tuple(pieces), True)
    assert_same(bert.model(), model)
    assert bert.left_out(bert.model()) == []
    keras_bert.save(model, tmp_path / "file", pieces, format="keras")
    assert_same(keras_bert.load(tmp_path / "file").model(), model)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", HEADS)
def test_googles_format(build, tmp_path, name):
    model = build(name)
    if not HEADS[name].google:
        with pytest.raises(ValueError, match="Google's format has (no names for|no place for sig|only a tied)"):
            keras_bert.save(model, tmp_path / "bert", None, format="google")
        assert list(tmp_path.iterdir()) == []
        return
    keras_bert.save(model, tmp_path / "bert", None, format="google")
    checkpoint, description = google.read(tmp_path / "bert"), keras_bert.describe(model)
    assert checkpoint.metadata.head == (None if name == "encoder" else description.head)
    for slot in slots(description):
        np.testing.assert_array_equal(checkpoint.tensors.pop(slot.name).read(), slot.value())
    assert not checkpoint.tensors


def test_every_row_is_tested(build):
    tested = {keras_bert.describe(build(name)).head for name in HEADS}
    assert tested == {row.name for row in head_table.HEADS}
    with pytest.raises(ValueError, match="`head` must be one of encoder, embedding, .*Received: head='none'"):
        head_table.head_named("none")
