"""Batches of pairs: each pair once, within the budget, padded to lengths of its own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data.document_batches import DocumentRows
from keras_bert.data.pair_bucketing import PairBatches, TowerBatches

RNG = np.random.default_rng(0)
SOURCES = RNG.integers(1, 60, 700)
TARGETS = np.maximum(1, SOURCES + RNG.integers(-6, 7, 700))


def ragged(lengths, first):
    values = np.concatenate([first + row + np.zeros(length, "int32") for row, length in enumerate(lengths)])
    return tf.RaggedTensor.from_row_lengths(values.astype("int32"), lengths)


def make(**options):
    return PairBatches(ragged(SOURCES, 1000), ragged(TARGETS, 5000), ragged(TARGETS, 9000), **options)


def test_each_pair_once():
    """An epoch can start at any step; pairs meet others in the next."""
    batches = make(tokens_per_batch=600)
    seen, computed, elements = [], 0, list(batches.dataset(1).as_numpy_iterator())
    for (inputs, labels, weights), rows in zip(elements, batches.row_indices(1), strict=True):
        sizes = [inputs[f"{side}_ids"].shape for side in ("source", "target")]
        assert max(count * length for count, length in sizes) <= 600
        computed += sum(count * length for count, length in sizes)
        np.testing.assert_array_equal(weights, rows >= 0)
        for place, row in enumerate(rows[rows >= 0]):
            for side, lengths, first in (("source", SOURCES, 1000), ("target", TARGETS, 5000)):
                ids = inputs[f"{side}_ids"][place]
                wanted = np.where(np.arange(len(ids)) < lengths[row], first + row, 0)
                np.testing.assert_array_equal(ids, wanted)
                np.testing.assert_array_equal(inputs[f"{side}_mask"][place], wanted > 0)
            wanted = np.where(np.arange(len(labels[place])) < TARGETS[row], 9000 + row, -1)
            np.testing.assert_array_equal(labels[place], wanted)
        seen += rows[rows >= 0].tolist()
    assert sorted(seen) == list(range(700))
    assert (batches.tokens, batches.computed) == (SOURCES.sum() + TARGETS.sum(), computed)
    assert make(tokens_per_batch=2000).computed <= 1.15 * batches.tokens
    rest = list(make(tokens_per_batch=600).dataset(1, 5).as_numpy_iterator())
    keras.tree.map_structure(np.testing.assert_array_equal, elements[5:], rest)
    assert any(a.tolist() != b.tolist() for a, b in zip(*map(batches.row_indices, (0, 1)), strict=True))


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    batches = PairBatches(ragged([3, 50], 10), ragged([4, 40], 10), tokens_per_batch=20)
    shapes = [inputs["source_ids"].shape for inputs, _, _ in batches.dataset().as_numpy_iterator()]
    assert sorted(shapes) == [(1, 3), (1, 50)]


def test_sides_that_do_not_fit():
    def ones(lengths):
        return lengths and tf.ragged.constant([[1] * length for length in lengths], tf.int32, 1)

    for sides, message in (
        (([3, 5], [4]), "same number of rows, at least one. Received: rows={'sources': 2, 'targets': 1}"),
        (([3, 5], [4, 2], [4, 3]), "`labels` must be as long as `targets`. Received: 3 labels for 2 targets in row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            PairBatches(*map(ones, sides))
    with pytest.raises(ValueError, match="`sources` must be a `tf.RaggedTensor`"):
        PairBatches(np.ones((2, 3), "int32"), ones([4]))


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


def test_documents_are_padded_to_the_windows_of_their_tower():
    """Ids are the number of the document times 10 plus that of the window; two passages a row, one of them absent."""
    counts = {"query": np.array([1, 4, 2, 1]), "passage": np.array([3, 1, 1, 2, 1, 1, 6, 1])}
    lengths = {"query": 3, "passage": 2}
    inputs, expected = {}, {}
    for tower, windows in counts.items():
        values = np.concatenate([10 * number + np.arange(1, count + 1) for number, count in enumerate(windows)])
        sizes = np.full(len(values), lengths[tower])
        if tower == "passage":
            sizes[3] = 0  # The second passage of the first row.
        ids = tf.RaggedTensor.from_row_lengths(np.repeat(values, sizes).astype("int32"), sizes)
        rows = DocumentRows(ids, windows)
        inputs[f"{tower}_token_ids"] = rows if tower == "query" else rows.uniform(2)
        expected[tower] = rows.ragged().to_list()
    batches = TowerBatches(inputs, np.arange(4), batch_size=2, shuffle=False)
    seen = []
    for features, targets, _ in batches.dataset():
        rows = targets.numpy()
        seen.extend(rows)
        queries, passages = features["query_token_ids"].numpy(), features["passage_token_ids"].numpy()
        assert queries.shape[1:] == (counts["query"][rows].max(), 3)
        assert passages.shape[1:] == (2, counts["passage"].reshape(4, 2)[rows].max(), 2)
        for place, row in enumerate(rows):
            assert _real(queries[place]) == expected["query"][row]
            for number in range(2):
                document = [window for window in expected["passage"][2 * row + number] if window]
                assert _real(passages[place, number]) == document
    assert sorted(seen) == [0, 1, 2, 3]
    taken = inputs["passage_token_ids"].take(np.array([2, 0]))
    assert taken.ragged().to_list() == [expected["passage"][4:6], expected["passage"][0:2]]


def _real(windows):
    """Returns the windows that have tokens, lists of their ids."""
    return [window[window > 0].tolist() for window in windows if window.any()]
