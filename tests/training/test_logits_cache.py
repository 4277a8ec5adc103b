"""Logits that are computed once and kept in a file."""

from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.evaluation import Evaluator, cached_logits

LENGTHS = [4, 1, 7, 3, 7]


def rows(first=0):
    ids = tf.RaggedTensor.from_row_lengths(np.arange(first, first + sum(LENGTHS), dtype="int32"), LENGTHS)
    return {"token_ids": ids, "padding_mask": tf.ones_like(ids)}


@pytest.fixture(scope="module")
def model():
    """Its logits are the sum of the tokens and their number."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    sums = [keras.ops.sum(keras.ops.cast(value, "float32"), axis=1) for value in inputs.values()]
    return keras.Model(inputs, {"logits": keras.ops.stack(sums, axis=1)})


@pytest.mark.usefixtures("eager")
def test_the_model_is_asked_once(tmp_path, model, caplog):
    path = tmp_path / "teacher" / "dev.npz"
    expected = [[ids.sum(), len(ids)] for ids in np.split(np.arange(22), np.cumsum(LENGTHS)[:-1])]
    caplog.set_level("INFO", "keras_bert")
    found = cached_logits(path, model, rows(), "key", batch_size=2)
    np.testing.assert_array_equal(found, expected)
    with mock.patch.object(Evaluator, "outputs", side_effect=AssertionError):
        np.testing.assert_array_equal(cached_logits(path, model, rows(), "key"), expected)
    assert [record.message for record in caplog.records] == [
        "  computing logits of dev: 5 rows",
        "  found logits of dev: 5 rows",
    ]
    assert [file.name for file in path.parent.iterdir()] == ["dev.npz"]


@pytest.mark.usefixtures("eager")
def test_other_and_damaged_files_are_replaced(tmp_path, model):
    path = tmp_path / "dev.npz"
    expected = cached_logits(path, model, rows(), "key")
    content = path.read_bytes()
    place = content.index(expected.tobytes())
    wrong = bytes([content[place] ^ 1])
    for damaged in (content[:-50], b"", content[:place] + wrong + content[place + 1 :]):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(cached_logits(path, model, rows(), "key"), expected)
        assert path.read_bytes() == content
    with mock.patch.object(Evaluator, "outputs", return_value=({"logits": expected + 1}, None, None)) as asked:
        cached_logits(path, model, rows(), "other model")
        cached_logits(path, model, rows(first=1), "other model")
        assert asked.call_count == 2
        asked.return_value = {"logits": expected * np.nan}, None, None
        with pytest.raises(ValueError, match="the logits of dev: 5 rows are not finite"):
            cached_logits(path, model, rows(), "key")
