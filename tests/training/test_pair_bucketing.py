"""Batches of pairs: each pair once, within the budget, padded to lengths of its own."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.training.pair_bucketing import PairBatches  # noqa: E402

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
SOURCES = RNG.integers(1, 60, 700)
TARGETS = np.maximum(1, SOURCES + RNG.integers(-6, 7, 700))


def ragged(lengths, first):
    values = np.concatenate([first + row + np.zeros(length, "int32") for row, length in enumerate(lengths)])
    return tf.RaggedTensor.from_row_lengths(values.astype("int32"), lengths)


def make(**options):
    return PairBatches(ragged(SOURCES, 1000), ragged(TARGETS, 5000), ragged(TARGETS, 9000), **options)


def test_each_pair_once():
    batches = make(tokens_per_batch=600)
    seen, computed = [], 0
    for (inputs, labels, weights), rows in zip(
        batches.dataset(0).as_numpy_iterator(), batches.row_indices(0), strict=True
    ):
        sizes = [inputs[f"{side}_ids"].shape for side in ("source", "target")]
        assert max(count * length for count, length in sizes) <= 600
        computed += sum(count * length for count, length in sizes)
        np.testing.assert_array_equal(weights, rows >= 0)
        for place, row in enumerate(rows[rows >= 0]):
            for side, lengths, first in (("source", SOURCES, 1000), ("target", TARGETS, 5000)):
                wanted = np.r_[
                    np.full(lengths[row], first + row), np.zeros(inputs[f"{side}_ids"].shape[1] - lengths[row])
                ]
                np.testing.assert_array_equal(inputs[f"{side}_ids"][place], wanted)
                np.testing.assert_array_equal(inputs[f"{side}_mask"][place], wanted > 0)
            np.testing.assert_array_equal(labels[place][labels[place] >= 0], np.full(TARGETS[row], 9000 + row))
            assert (labels[place][TARGETS[row] :] == -1).all()
        seen += rows[rows >= 0].tolist()
    assert sorted(seen) == list(range(700))
    assert (batches.tokens, batches.computed) == (SOURCES.sum() + TARGETS.sum(), computed)
    assert make(tokens_per_batch=2000).computed <= 1.15 * batches.tokens


def test_epochs_and_resume():
    batches = make(tokens_per_batch=600)
    first, second = (list(batches.dataset(epoch).as_numpy_iterator()) for epoch in (0, 1))
    assert any(a[0]["source_ids"].shape != b[0]["source_ids"].shape for a, b in zip(first, second, strict=True))
    rest = list(make(tokens_per_batch=600).dataset(1, 5).as_numpy_iterator())
    keras.tree.map_structure(np.testing.assert_array_equal, second[5:], rest)


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    batches = PairBatches(ragged([3, 50], 10), ragged([4, 40], 10), tokens_per_batch=20)
    assert sorted(inputs["source_ids"].shape for inputs, _, _ in batches.dataset().as_numpy_iterator()) == [
        (1, 3),
        (1, 50),
    ]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (([3, 5], [4], None), "same number of rows, at least one. Received: rows={'sources': 2, 'targets': 1}"),
        (([], [], None), "at least one. Received: rows={'sources': 0, 'targets': 0}"),
        (([3, 5], [4, 2], [4, 3]), "`labels` must be as long as `targets`. Received: 3 labels for 2 targets in row 1"),
    ],
)
def test_sides_that_do_not_fit(sides, message):
    given = [
        None if lengths is None else tf.ragged.constant([[1] * n for n in lengths], tf.int32, 1) for lengths in sides
    ]
    with pytest.raises(ValueError, match=message):
        PairBatches(*given)
    with pytest.raises(ValueError, match="`sources` must be a `tf.RaggedTensor`"):
        PairBatches(np.ones((2, 3), "int32"), given[1])
