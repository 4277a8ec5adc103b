"""Batches of queries and passages."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.tower_bucketing import TowerBatches


@pytest.mark.parametrize("grouped", [True, False])
def test_rows_are_padded_to_the_lengths_of_their_towers(grouped):
    """Token ids are the number of the row; with similar lengths, at most 1.2 tokens are computed per real token."""
    rng = np.random.default_rng(0)
    queries = 5 + rng.gamma(2, 4, 1000).astype(int)
    lengths = {"query": queries, "passage": queries + rng.integers(0, 3, 1000)}
    inputs = {
        f"{name}_token_ids": tf.RaggedTensor.from_row_lengths(np.repeat(np.arange(1, 1001), values), values)
        for name, values in lengths.items()
    }
    batches = TowerBatches(inputs, np.arange(1000), batch_size=32, grouped=grouped)
    computed, seen = 0, []
    for features, targets, weights in batches.dataset():
        for name, values in lengths.items():
            ids, rows = features[f"{name}_token_ids"].numpy(), targets.numpy()
            expected = np.where(np.arange(ids.shape[1]) < values[rows, None], rows[:, None] + 1, 0)
            np.testing.assert_array_equal(ids, expected)
            computed += ids.size
        seen.extend(targets.numpy()[weights.numpy() > 0])
    assert sorted(seen) == list(range(1000))
    assert not grouped or computed < 1.2 * sum(values.sum() for values in lengths.values())
