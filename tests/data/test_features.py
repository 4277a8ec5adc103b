"""Features of rows: their lengths, some of them padded, and those that have no batches."""

import pytest
import tensorflow as tf

from keras_bert.data.features import is_ragged, longest_sequences, pad_rows, row_lengths, to_tensors
from keras_bert.data.token_rows import compact


def ragged(rows, dtype="int32"):
    return tf.ragged.constant(rows, dtype)


IDS = ragged([[1, 2, 3], [], [4]])


def test_features_become_tensors():
    """Compact ones and `None` stay as they are."""
    short = compact(IDS)
    found = to_tensors({"dense": [1, 2], "ragged": IDS, "compact": short, "none": None})
    assert found["dense"].numpy().tolist() == [1, 2]
    assert found["ragged"].to_list() == IDS.to_list()
    assert found["compact"] is short
    assert found["none"] is None


@pytest.mark.parametrize("feature", [IDS, compact(IDS)], ids=["ragged", "compact"])
def test_rows_are_padded(feature):
    rows = tf.constant([2, 0])
    assert pad_rows(feature, rows, tf.constant(4)).numpy().tolist() == [[4, 0, 0, 0], [1, 2, 3, 0]]
    assert pad_rows(feature, rows, tf.constant(3), -1).numpy().tolist() == [[4, -1, -1], [1, 2, 3]]
    assert is_ragged(feature)


def test_dense_rows_are_gathered():
    assert pad_rows(tf.constant([5, 6, 7]), tf.constant([2, 0]), None).numpy().tolist() == [7, 5]
    assert pad_rows(None, tf.constant([2, 0]), None) is None
    assert not is_ragged(tf.constant([5]))


def test_the_longest_sequence_of_a_row():
    """Of all features, and of all choices."""
    assert row_lengths({"token_ids": IDS, "dense": tf.zeros(3)}, ragged([[1], [1, 2], [1]])).tolist() == [3, 2, 1]
    choices = tf.RaggedTensor.from_uniform_row_length(ragged([[1], [2, 3], [], [4]]), 2)
    assert longest_sequences(choices).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (ragged([[1]])[:0], None, "at least one. Received: rows={'inputs': 0}"),
        (IDS, {"label": tf.constant([1, 2])}, "all features must have the same number of rows, at least one."),
        (ragged([[1]]), {"tags": ragged([[1]], "uint8")}, "`targets.tags` must be signed integers, as"),
        ({"token_ids": tf.ones([2, 3])}, tf.constant([1, 2]), "at least one feature must be a `tf.RaggedTensor`;"),
        ({"a": tf.ragged.constant([[[1], [2]], [[3]]])}, None, "`inputs.a` must be ragged in one axis"),
    ],
)
def test_features_that_have_no_batches(inputs, targets, message):
    with pytest.raises(ValueError, match=message):
        row_lengths(inputs, targets)
