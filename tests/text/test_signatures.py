"""Groups of rows of similar length."""

import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.signatures import in_groups, rows_of_call  # noqa: E402


def test_rows_of_similar_length_are_computed_together():
    """Rows keep their order and their content, and are padded only to the length of their group."""
    lengths = np.array([5, 2, 9, 2, 7, 3, 2])
    mask = np.arange(9) < lengths[:, None]
    ids = np.where(mask, np.arange(7)[:, None] + 1, 0)
    inputs = {"token_ids": tf.constant(ids, tf.int32), "padding_mask": tf.cast(mask, tf.int32)}
    seen = []

    def run(part):
        seen.append(part["token_ids"].shape.as_list())
        highest = tf.reduce_max(part["token_ids"], 1)
        tokens = tf.reduce_sum(part["padding_mask"], 1)
        return tf.cast(tf.stack([highest, tokens], 1), "float32")

    found = in_groups(run, inputs, [2], 3)
    np.testing.assert_array_equal(found, np.transpose([np.arange(7) + 1, lengths]))
    assert seen == [[3, 2], [3, 7], [1, 9]]
    np.testing.assert_array_equal(in_groups(run, inputs, [2], None), found)
    none = {name: value[:0] for name, value in inputs.items()}
    assert in_groups(run, none, [2], 3).shape == (0, 2)


def test_windows_are_never_computed_all_at_once():
    """A text has any number of them, whatever the number of texts of a call."""
    one_sequence = types.SimpleNamespace(reads_windows=False)
    assert rows_of_call(one_sequence, None) is None
    assert rows_of_call(one_sequence, 8) == 8
    windows = types.SimpleNamespace(reads_windows=True)
    assert rows_of_call(windows, None) == 256
    assert rows_of_call(windows, 8) == 8
