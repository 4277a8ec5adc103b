"""Cached features: files, batches, training on them."""

import os
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.runs import weights_fingerprint
from research.feature_tagging.cache import FeatureBatches, FeatureCache

LENGTHS = [4, 1, 7, 3, 7]


@pytest.fixture
def inputs():
    ids = tf.RaggedTensor.from_row_lengths(np.arange(sum(LENGTHS), dtype="int32"), LENGTHS)
    return {"token_ids": ids, "padding_mask": tf.ones_like(ids)}


@pytest.fixture
def model():
    """Its features of token n are n and 2 * n."""
    inputs = {
        "token_ids": keras.Input((None,), dtype="int32", name="token_ids"),
        "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
    }
    layer = keras.layers.Dense(2, use_bias=False)
    features = layer(keras.ops.expand_dims(keras.ops.cast(inputs["token_ids"], "float32"), -1))
    layer.set_weights([np.array([[1.0, 2.0]])])
    return keras.Model(inputs, {"features": features})


def test_batches_from_a_file(tmp_path, inputs, model):
    cache = FeatureCache(tmp_path / "features" / "dev.npy", inputs, 2)
    assert str(cache) == "22 tokens x 2 x 2 bytes = 0.0 MB"
    cache.compute(model, batch_size=2)
    files = sorted(path.name for path in cache.path.parent.iterdir())
    assert files == ["dev.json", "dev.npy"]
    batches = FeatureBatches(cache, inputs["token_ids"], batch_size=2, seed=3)
    assert batches.num_examples == 5
    assert batches.tokens == 22
    assert batches.sequence_length == 7
    assert batches.seed == 3
    lengths = {}
    for batch, rows in zip(batches.dataset(epoch=1), batches.row_indices(epoch=1), strict=True):
        lengths |= check_batch(batch, rows)
    assert lengths == dict(enumerate(LENGTHS))


def check_batch(batch, rows):
    """Asserts that the features of token n are n and 2 * n; returns the lengths of the rows."""
    inputs, targets, weights = batch
    lengths = {}
    for index, row in enumerate(rows):
        features = inputs["features"][index].numpy()
        ids = targets[index].numpy()
        length = int(inputs["padding_mask"][index].numpy().sum())
        np.testing.assert_array_equal(features[:length], ids[:length, None] * [1, 2])
        assert (features[length:] == 0).all()
        is_row = row >= 0  # Others fill the last batch.
        assert weights[index].numpy() == is_row
        if is_row:
            lengths[int(row)] = length
    return lengths


@pytest.fixture
def computes(tmp_path, inputs, model):
    """A function that computes features, if they are not there yet; returns whether it did."""

    def compute(inputs=inputs, dtype="float16", **key):
        cache = FeatureCache(tmp_path / "dev.npy", inputs, 2, dtype, key)
        is_known = cache.metadata() is not None
        before = written(cache.path)
        cache.compute(model)
        assert is_known == (written(cache.path) == before)
        return not is_known

    return compute


def written(path):
    """Returns the time at which a file was written."""
    return os.stat(path).st_mtime_ns if path.exists() else None


@pytest.mark.usefixtures("eager")
def test_features_of_the_same_inputs_are_computed_once(computes, inputs):
    assert computes()
    assert not computes()
    assert computes(dtype="float32")
    changed = inputs | {"token_ids": inputs["token_ids"] + 1}
    assert computes(changed, dtype="float32")


@pytest.mark.usefixtures("eager")
def test_other_weights_have_other_features(computes, model):
    last = weights_fingerprint(model, features="last")
    first = weights_fingerprint(model, features="first")
    model.layers[-1].set_weights([np.array([[1.0, 3.0]])])
    trained = weights_fingerprint(model, features="last")
    assert len({last, first, trained}) == 3
    assert computes(weights=last)
    assert computes(weights=first)
    assert computes(weights=trained)


@pytest.mark.usefixtures("eager")
def test_an_interrupted_computation_starts_again(tmp_path, inputs, model):
    cache = FeatureCache(tmp_path / "dev.npy", inputs, 2)
    calls = []

    def interrupted(inputs, training):
        if calls:
            raise KeyboardInterrupt
        calls.append(inputs)
        return model(inputs, training=training)

    with pytest.raises(KeyboardInterrupt):
        cache.compute(interrupted, batch_size=2)
    assert list(tmp_path.iterdir()) == []
    assert cache.metadata() is None
    cache.compute(model)
    expected = np.arange(22)[:, None] * [1, 2]
    np.testing.assert_array_equal(np.load(tmp_path / "dev.npy"), expected)


def test_features_without_their_facts_do_not_count(tmp_path, inputs):
    """The process was killed between the two files."""
    (tmp_path / "dev.npy").write_bytes(b"a half")
    assert FeatureCache(tmp_path / "dev.npy", inputs, 2).metadata() is None


def test_a_full_disk(tmp_path, inputs, model, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=80))
    cache = FeatureCache(tmp_path / "test.npy", inputs, 2)
    with pytest.raises(ValueError, match="the features need 0.0 MB of disk space, 0.0 MB are free"):
        cache.compute(model)


@pytest.mark.usefixtures("eager")
def test_features_that_are_too_large_for_their_type(tmp_path, inputs, model):
    model.layers[-1].set_weights([np.array([[1e6, 1.0]])])
    cache = FeatureCache(tmp_path / "test.npy", inputs, 2)
    with pytest.raises(ValueError, match="not finite in float16. .* use float32"):
        cache.compute(model)
