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
    """Each row repeats its number, counted from `first`."""
    values = np.repeat(first + np.arange(len(lengths)), lengths)
    return tf.RaggedTensor.from_row_lengths(values.astype("int32"), lengths)


def padded(rows, lengths, first, width, padding=0):
    """Returns rows of `ragged`, padded."""
    is_there = np.arange(width) < lengths[rows, None]
    return np.where(is_there, first + rows[:, None], padding)


@pytest.fixture(scope="module")
def batches():
    sides = ragged(SOURCES, 1000), ragged(TARGETS, 5000), ragged(TARGETS, 9000)
    return PairBatches(*sides, tokens_per_batch=600)


@pytest.fixture(scope="module")
def elements(batches):
    """The batches of the second epoch."""
    return list(batches.dataset(1).as_numpy_iterator())


def test_each_pair_once(batches, elements):
    seen = []
    for (inputs, labels, weights), rows in zip(elements, batches.row_indices(1), strict=True):
        np.testing.assert_array_equal(weights, rows >= 0)
        rows = rows[rows >= 0]
        count = len(rows)
        sources = padded(rows, SOURCES, 1000, inputs["source_ids"].shape[1])
        targets = padded(rows, TARGETS, 5000, inputs["target_ids"].shape[1])
        np.testing.assert_array_equal(inputs["source_ids"][:count], sources)
        np.testing.assert_array_equal(inputs["source_mask"][:count], sources > 0)
        np.testing.assert_array_equal(inputs["target_ids"][:count], targets)
        np.testing.assert_array_equal(inputs["target_mask"][:count], targets > 0)
        np.testing.assert_array_equal(labels[:count], padded(rows, TARGETS, 9000, labels.shape[1], padding=-1))
        seen += rows.tolist()
    assert sorted(seen) == list(range(700))


def test_tokens_are_within_the_budget(batches, elements):
    computed = 0
    for inputs, _, _ in elements:
        assert inputs["source_ids"].size <= 600
        assert inputs["target_ids"].size <= 600
        computed += inputs["source_ids"].size + inputs["target_ids"].size
    assert batches.tokens == SOURCES.sum() + TARGETS.sum()
    assert batches.computed == computed


def test_larger_batches_have_little_padding():
    sides = ragged(SOURCES, 1000), ragged(TARGETS, 5000), ragged(TARGETS, 9000)
    batches = PairBatches(*sides, tokens_per_batch=2000)
    assert batches.computed <= 1.15 * batches.tokens


def test_an_epoch_starts_at_any_step(batches, elements):
    rest = list(batches.dataset(1, 5).as_numpy_iterator())
    keras.tree.map_structure(np.testing.assert_array_equal, elements[5:], rest)


def test_pairs_meet_others_in_the_next_epoch(batches):
    epochs = [np.concatenate(batches.row_indices(epoch)).tolist() for epoch in (0, 1)]
    assert epochs[0] != epochs[1]


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    batches = PairBatches(ragged([3, 50], 10), ragged([4, 40], 10), tokens_per_batch=20)
    shapes = [inputs["source_ids"].shape for inputs, _, _ in batches.dataset().as_numpy_iterator()]
    assert sorted(shapes) == [(1, 3), (1, 50)]


def ones(lengths):
    return tf.ragged.constant([[1] * length for length in lengths], tf.int32, 1)


def test_sides_that_do_not_fit():
    with pytest.raises(ValueError, match="same number of rows, at least one. Received: rows={'sources': 2, 'target"):
        PairBatches(ones([3, 5]), ones([4]))
    with pytest.raises(ValueError, match="`labels` must be as long as `targets`. Received: 3 labels for 2 targets in"):
        PairBatches(ones([3, 5]), ones([4, 2]), ones([4, 3]))
    with pytest.raises(ValueError, match="`sources` must be a `tf.RaggedTensor`"):
        PairBatches(np.ones((2, 3), "int32"), ones([4]))


@pytest.mark.parametrize("grouped", [True, False])
def test_rows_are_padded_to_the_lengths_of_their_towers(grouped):
    """Token ids are the number of the row; with similar lengths, at most 1.2 tokens are computed per real token."""
    rng = np.random.default_rng(0)
    queries = 5 + rng.gamma(2, 4, 1000).astype(int)
    lengths = {"query": queries, "passage": queries + rng.integers(0, 3, 1000)}
    inputs = {f"{name}_token_ids": ragged(values, 1) for name, values in lengths.items()}
    batches = TowerBatches(inputs, np.arange(1000), batch_size=32, grouped=grouped)
    computed = 0
    seen = []
    for features, targets, weights in batches.dataset().as_numpy_iterator():
        for name, values in lengths.items():
            ids = features[f"{name}_token_ids"]
            np.testing.assert_array_equal(ids, padded(targets, values, 1, ids.shape[1]))
            computed += ids.size
        seen.extend(targets[weights > 0])
    assert sorted(seen) == list(range(1000))
    if grouped:
        assert computed < 1.2 * (lengths["query"].sum() + lengths["passage"].sum())


def documents(counts, lengths):
    """Returns documents: ids are the number of the document times 10 plus that of the window."""
    values = []
    for number, count in enumerate(counts):
        values += [10 * number + window for window in range(1, count + 1)]
    ids = tf.RaggedTensor.from_row_lengths(np.repeat(values, lengths).astype("int32"), lengths)
    return DocumentRows(ids, counts)


QUERIES = np.array([1, 4, 2, 1])  # Numbers of windows.
PASSAGES = np.array([3, 1, 1, 2, 1, 1, 6, 1])  # Two of each row.


@pytest.fixture
def towers():
    """Windows of queries have 3 tokens, those of passages 2; the second passage of the first row is absent."""
    lengths = np.full(PASSAGES.sum(), 2)
    lengths[3] = 0
    return documents(QUERIES, np.full(QUERIES.sum(), 3)), documents(PASSAGES, lengths)


def windows_of(padded_windows):
    """Returns the windows that have tokens, lists of their ids."""
    return [window[window > 0].tolist() for window in padded_windows if window.any()]


def test_documents_are_padded_to_the_windows_of_their_tower(towers):
    queries, passages = towers
    inputs = {"query_token_ids": queries, "passage_token_ids": passages.uniform(2)}
    expected_queries = queries.ragged().to_list()
    expected_passages = passages.ragged().to_list()
    expected_passages[1] = []
    batches = TowerBatches(inputs, np.arange(4), batch_size=2, shuffle=False)
    seen = []
    for features, rows, _ in batches.dataset().as_numpy_iterator():
        seen.extend(rows)
        found_queries = features["query_token_ids"]
        found_passages = features["passage_token_ids"]
        assert found_queries.shape[1:] == (QUERIES[rows].max(), 3)
        assert found_passages.shape[1:] == (2, PASSAGES.reshape(4, 2)[rows].max(), 2)
        for row, query, (first, second) in zip(rows, found_queries, found_passages, strict=True):
            assert windows_of(query) == expected_queries[row]
            assert windows_of(first) == expected_passages[2 * row]
            assert windows_of(second) == expected_passages[2 * row + 1]
    assert sorted(seen) == [0, 1, 2, 3]


def test_rows_of_several_documents_are_taken(towers):
    _, passages = towers
    expected = passages.ragged().to_list()
    taken = passages.uniform(2).take(np.array([2, 0]))
    assert taken.ragged().to_list() == [expected[4:6], expected[0:2]]
