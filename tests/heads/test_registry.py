"""What every head promises. A new one brings a row of `HEADS` in `tests/conftest.py`, and tests of its own."""

import dataclasses

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
VARIANTS = {
    "mlm": "pretraining",
    "untied": "pretraining",
    "projection": "embedding",
    "regression": "classification",
    "multi_label": "classification",
}
# One block has one share; the same number added to the scores of all choices changes no probability.
WITHOUT_GRADIENT = ("weighted_sum/weighting", "choice_scorer/bias")


def comparable(model):
    """Describes a model without what differs between two that are the same."""
    description = keras_bert.describe(model)
    names = list(description.layers)
    options = dict(description.options)
    options.pop("sequence_length", None)  # By default that of `save`.
    return dataclasses.replace(description, layers={}, options=options), names


def assert_same(model, expected, **changes):
    """Compares weights and descriptions, which specify the whole graph."""
    description, names = comparable(model)
    expected_description, expected_names = comparable(expected)
    assert description == dataclasses.replace(expected_description, **changes)
    assert names == expected_names
    for weight, same in zip(model.weights, expected.weights, strict=True):
        if "seed_generator" not in weight.path:
            np.testing.assert_array_equal(to_numpy(weight), to_numpy(same), err_msg=weight.path)


@pytest.mark.parametrize("name", HEADS)
def test_each_head(build, task, pieces, tmp_path, monkeypatch, name):
    """Its outputs, a step of training, and all files of it."""
    head = HEADS[name]
    model = build(
        name,
        dtype="mixed_bfloat16",
        hidden_states=True,
        attention_scores=True,
        remat=True,
        name="tower",
        causal=not head.google,  # Google's format has no place for it.
    )
    data = task(name)
    check_outputs(model, data[0], name)
    description = keras_bert.describe(model)
    assert description.head == VARIANTS.get(name, name)
    assert description.layers["block_0"].name == "tower_block_0"
    if data[1] is not None:
        check_training(model, data, is_tied=name in ("pretraining", "mlm"))
    check_checkpoint(model, description, tmp_path / "ours", pieces)
    check_keras_file(model, tmp_path / "file", pieces, monkeypatch)
    if keras.backend.backend() == "tensorflow":
        check_googles_format(model, description, tmp_path / "google", head.google)


def check_outputs(model, inputs, name):
    outputs = model(inputs)
    for key, shape in HEADS[name].outputs.items():
        assert tuple(outputs[key].shape) == shape
        assert model.output[key].dtype == ("bfloat16" if name == "encoder" else "float32")
    for weight in model.trainable_weights:
        assert keras.backend.standardize_dtype(weight.dtype) == "float32"
    assert keras.config.dtype_policy().name == "float32", "the global dtype policy must not change"


def check_training(model, data, is_tied):
    """A step changes all weights, and of a tied table all rows: it also learns tokens that are not in the inputs."""
    inputs, targets, losses = data
    model.compile(keras.optimizers.SGD(0.1), losses, run_eagerly=True)
    before = [to_numpy(weight) for weight in model.trainable_weights]
    assert np.isfinite(model.train_on_batch(inputs, targets)).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        new = to_numpy(weight)
        changed_rows = (new != old).reshape(len(old), -1).any(1)
        assert np.isfinite(new).all(), weight.path
        assert changed_rows.any() or weight.path in WITHOUT_GRADIENT, weight.path
        if "token_embedding" in weight.path:
            assert changed_rows.all() == is_tied


def check_checkpoint(model, description, folder, pieces):
    keras_bert.save(model, folder, pieces)
    bert = keras_bert.load(folder)
    assert bert.head == description.head
    assert bert.vocabulary.pieces == tuple(pieces)
    assert bert.lowercase
    loaded = bert.model()
    assert_same(loaded, model, dtype="float32")
    assert bert.left_out(loaded) == []


def check_keras_file(model, folder, pieces, monkeypatch):
    """A file of Keras is opened by Keras, and by `load`, which gets the model that Keras has opened already."""
    keras_bert.save(model, folder, pieces, format="keras")
    opened = keras.saving.load_model(folder / "model.keras", compile=False)
    assert_same(opened, model)
    with monkeypatch.context() as changes:
        changes.setattr(keras.saving, "load_model", lambda *_, **__: opened)
        assert_same(keras_bert.load(folder).model(), model, dtype="float32")


def check_googles_format(model, description, folder, is_supported):
    if not is_supported:
        with pytest.raises(ValueError, match="Google's format (has (no names|no place|only a tied)|can only)"):
            keras_bert.save(model, folder, None, format="google")
        assert not folder.exists()
        return
    keras_bert.save(model, folder, None, format="google")
    checkpoint = google.read_weights(folder)
    expected_head = None if description.head == "encoder" else description.head
    assert checkpoint.metadata.head == expected_head
    for slot in slots(description):
        np.testing.assert_array_equal(checkpoint.tensors.pop(slot.name).read(), slot.value())
    assert not checkpoint.tensors


def test_the_layers_of_our_heads(build):
    """`register_head` refuses their names; it knows all that models have beside those of the encoder."""
    known = {registry.HEAD_DROPOUT}
    for head in registry.HEADS:
        known |= head.layer_names()
    for name in HEADS:
        layers = keras_bert.describe(build(name)).layers
        added = {layer for layer in layers if not is_encoder_layer(layer)}
        assert added <= known, name


def test_every_row_is_tested():
    names = set()
    for head in registry.HEADS:
        if type(head).__module__.startswith("keras_bert."):  # Research has more.
            names.add(head.name)
    assert {VARIANTS.get(name, name) for name in HEADS} == names


def test_unknown_heads_are_refused():
    with pytest.raises(ValueError, match="`head` must be one of encoder, embedding, .*Received: head='none'"):
        registry.head_named("none")
