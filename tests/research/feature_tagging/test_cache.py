"""Cached features: files, batches, training on them."""

import os
import shutil

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
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    layer = keras.layers.Dense(2, use_bias=False)
    features = layer(keras.ops.expand_dims(keras.ops.cast(inputs["token_ids"], "float32"), -1))
    layer.set_weights([np.array([[1.0, 2.0]])])
    return keras.Model(inputs, {"features": features})


def test_batches_from_a_file(tmp_path, inputs, model):
    cache = FeatureCache(tmp_path / "features" / "dev.npy", inputs, 2)
    assert str(cache) == "22 tokens x 2 x 2 bytes = 0.0 MB"
    cache.compute(model, batch_size=2)
    assert sorted(path.name for path in cache.path.parent.iterdir()) == ["dev.json", "dev.npy"]
    batches = FeatureBatches(cache, inputs["token_ids"], batch_size=2, seed=3)
    assert (batches.num_examples, batches.tokens, batches.sequence_length, batches.seed) == (5, 22, 7, 3)
    seen = []
    for (got, targets, weights), rows in zip(batches.dataset(epoch=1), batches.row_indices(epoch=1), strict=True):
        for features, mask, ids, weight, row in zip(
            got["features"].numpy(), got["padding_mask"].numpy(), targets.numpy(), weights.numpy(), rows, strict=True
        ):
            assert weight == (row >= 0)
            count = mask.sum()
            np.testing.assert_array_equal(features[:count], ids[:count, None] * [1, 2])
            assert (features[count:] == 0).all()
            seen += [(row, count)] if row >= 0 else []
    assert sorted(seen) == list(enumerate(LENGTHS))


@pytest.mark.usefixtures("eager")
def test_files_are_reused_only_if_all_is_the_same(tmp_path, inputs, model):
    def computes(inputs=inputs, dtype="float16", **key):
        """Returns whether the features are computed."""
        cache = FeatureCache(tmp_path / "dev.npy", inputs, 2, dtype, key)
        is_known = cache.metadata() is not None
        before = os.stat(cache.path).st_mtime_ns if cache.path.exists() else None
        cache.compute(model)
        assert is_known == (os.stat(cache.path).st_mtime_ns == before)
        return not is_known

    assert computes()
    assert not computes()
    assert computes(dtype="float32")
    changed = {**inputs, "token_ids": inputs["token_ids"] + 1}
    assert computes(changed, dtype="float32")
    fingerprints = [weights_fingerprint(model, features="last"), weights_fingerprint(model, features="first")]
    model.layers[-1].set_weights([np.array([[1.0, 3.0]])])
    fingerprints.append(weights_fingerprint(model, features="last"))
    assert len(set(fingerprints)) == 3
    assert all(computes(weights=value) for value in fingerprints)


@pytest.mark.usefixtures("eager")
def test_an_interrupted_computation_starts_again(tmp_path, inputs, model, monkeypatch):
    cache = FeatureCache(tmp_path / "dev.npy", inputs, 2)
    left = [None]

    def stopped(inputs, training):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return model(inputs, training=training)

    with pytest.raises(KeyboardInterrupt):
        cache.compute(stopped, batch_size=2)
    assert list(tmp_path.iterdir()) == []
    assert cache.metadata() is None
    (tmp_path / "dev.npy").write_bytes(b"a half")  # Killed between the two files.
    assert cache.metadata() is None
    cache.compute(model)
    np.testing.assert_array_equal(np.load(tmp_path / "dev.npy"), np.arange(22)[:, None] * [1, 2])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 80))
    with pytest.raises(ValueError, match=r"the features need 0.0 MB of disk space, 0.0 MB are free. Expected"):
        FeatureCache(tmp_path / "test.npy", inputs, 2).compute(model)
    (tmp_path / "test.npy").touch()
    model.layers[-1].set_weights([np.array([[1e6, 1.0]])])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="are not finite in float16. Expected finite features: use float32"):
        FeatureCache(tmp_path / "test.npy", inputs, 2).compute(model)
