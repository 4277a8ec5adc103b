"""What every head promises. A new one brings a row of `HEADS` in `tests/conftest.py`, and tests of its own."""

import dataclasses
from unittest import mock

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import google
from keras_bert.checkpoints.tensors import slots
from keras_bert.heads import registry
from keras_bert.models.description import is_encoder_layer
from tests.conftest import HEADS, to_numpy

# The heads of several rows of `HEADS`.
VARIANTS = {"mlm": "pretraining", "untied": "pretraining", "projection": "embedding"}
VARIANTS |= dict.fromkeys(("regression", "multi_label"), "classification")


def assert_same(model, expected, **changes):
    """Compares weights and descriptions, which specify the whole graph."""
    described, other = (keras_bert.describe(each) for each in (model, expected))
    described.options.pop("sequence_length", None)  # By default that of `save`.
    other.options.pop("sequence_length", None)
    assert dataclasses.replace(described, layers={}) == dataclasses.replace(other, layers={}, **changes)
    assert list(described.layers) == list(other.layers)
    for weight, same in zip(model.weights, expected.weights, strict=True):
        if "seed_generator" not in weight.path:
            np.testing.assert_array_equal(to_numpy(weight), to_numpy(same), err_msg=weight.path)


# One block has one share; the same number added to the scores of all choices changes no probability.
WITHOUT_GRADIENT = ("weighted_sum/weighting", "choice_scorer/bias")


@pytest.mark.parametrize("name", HEADS)
def test_each_head(build, task, pieces, tmp_path, name):
    """Its outputs, a step of training, and all files of it."""
    inputs, targets, losses = task(name)
    options = {"hidden_states": True, "attention_scores": True, "remat": True, "name": "tower"}
    options["causal"] = not HEADS[name].google  # Google's format has no place for it.
    model = build(name, dtype="mixed_bfloat16", **options)
    outputs = model(inputs)
    shapes = HEADS[name].outputs
    assert {key: tuple(outputs[key].shape) for key in shapes} == shapes
    assert {model.output[key].dtype for key in shapes} == {"bfloat16" if name == "encoder" else "float32"}
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.trainable_weights} == {"float32"}
    assert keras.config.dtype_policy().name == "float32", "the global dtype policy must not change"
    described = keras_bert.describe(model)
    assert (described.head, described.layers["block_0"].name) == (VARIANTS.get(name, name), "tower_block_0")

    if targets is not None:
        model.compile(keras.optimizers.SGD(0.1), losses, run_eagerly=True)
        before = [to_numpy(weight) for weight in model.trainable_weights]
        assert np.isfinite(model.train_on_batch(inputs, targets)).all()
        for weight, old in zip(model.trainable_weights, before, strict=True):
            changed = (to_numpy(weight) != old).reshape(len(old), -1).any(1)
            assert np.isfinite(to_numpy(weight)).all(), weight.path
            assert changed.any() or weight.path in WITHOUT_GRADIENT, weight.path
            if "token_embedding" in weight.path:  # A tied table also learns tokens that are not in the inputs.
                assert changed.all() == (name in ("pretraining", "mlm"))

    keras_bert.save(model, tmp_path / "ours", pieces)
    bert = keras_bert.load(tmp_path / "ours")
    assert (bert.head, bert.vocabulary.pieces, bert.lowercase) == (described.head, tuple(pieces), True)
    assert_same(bert.model(), model, dtype="float32")
    assert bert.left_out(bert.model()) == []
    keras_bert.save(model, tmp_path / "file", pieces, format="keras")
    same = keras.saving.load_model(tmp_path / "file" / "model.keras", compile=False)
    assert_same(same, model)
    with mock.patch.object(keras.saving, "load_model", return_value=same):
        assert_same(keras_bert.load(tmp_path / "file").model(), model, dtype="float32")
    if keras.backend.backend() == "tensorflow":
        check_googles_format(model, described, tmp_path / "google", HEADS[name].google)


def check_googles_format(model, description, folder, is_supported):
    if not is_supported:
        with pytest.raises(ValueError, match="Google's format (has (no names|no place|only a tied)|can only)"):
            keras_bert.save(model, folder, None, format="google")
        assert not folder.exists()
        return
    keras_bert.save(model, folder, None, format="google")
    checkpoint = google.read_weights(folder)
    assert checkpoint.metadata.head == (None if description.head == "encoder" else description.head)
    for slot in slots(description):
        np.testing.assert_array_equal(checkpoint.tensors.pop(slot.name).read(), slot.value())
    assert not checkpoint.tensors


def test_the_layers_of_our_heads(build):
    """`register_head` refuses their names; it knows all that models have beside those of the encoder."""
    known = {registry.HEAD_DROPOUT}.union(*(head.layer_names() for head in registry.HEADS))
    for name in HEADS:
        added = {layer for layer in keras_bert.describe(build(name)).layers if not is_encoder_layer(layer)}
        assert added <= known, name


def test_every_row_is_tested():
    own = [row for row in registry.HEADS if type(row).__module__.startswith("keras_bert.")]  # Research has more.
    assert {VARIANTS.get(name, name) for name in HEADS} == {row.name for row in own}
    with pytest.raises(ValueError, match="`head` must be one of encoder, embedding, .*Received: head='none'"):
        registry.head_named("none")
