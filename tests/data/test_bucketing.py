"""Batches by length: boundaries against brute force, batches against their rows."""

import functools
import itertools
import re
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data import bucketing
from keras_bert.data.boundaries import fit_boundaries
from keras_bert.data.bucketing import Batches, token_batches


def ragged(lengths, dtype="int32"):
    """Row r has the values 1000 * r + 1, 1000 * r + 2, ..."""
    values = np.concatenate([1000 * row + 1 + np.arange(length) for row, length in enumerate(lengths)])
    return tf.RaggedTensor.from_row_lengths(values.astype(dtype), lengths)


def padded_sum(lengths, boundaries):
    return sum(min(boundary for boundary in boundaries if boundary >= length) for length in lengths)


def arrays(dataset):
    return list(dataset.as_numpy_iterator())


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


LENGTHS = np.random.default_rng(0).geometric(0.1, 230)
INPUTS = {"token_ids": ragged(LENGTHS), "row": np.arange(230)}


def test_empty_rows_get_a_boundary_of_at_least_one():
    assert fit_boundaries([0, 0, 3]) == [1, 3]
    batches = Batches(ragged([0, 0, 0]), batch_size=2)
    assert (batches.boundaries, batches.tokens, batches.computed) == ([1], 0, 4)
    assert all((inputs == 0).all() for inputs, _, _ in arrays(batches.dataset()))


@pytest.mark.parametrize(
    "options", [{}, {"tokens_per_batch": 100}, {"boundaries": [5, 20, 99, 200], "shuffle": False}, {"grouped": False}]
)
def test_every_row_occurs_once_at_its_index(options):
    """An epoch can start at any step."""
    batches = Batches(INPUTS, -np.arange(230), batch_size=8, **options)
    epoch = 0 if "grouped" in options else 3  # The lengths of ungrouped batches differ between epochs.
    elements, rows = arrays(batches.dataset(epoch)), batches.row_indices(epoch)
    assert len(elements) == len(rows) == batches.steps == len(batches.dataset(epoch))
    seen, computed, shapes = [], 0, set()
    for (inputs, targets, weights), numbers in zip(elements, rows, strict=True):
        size, length = inputs["token_ids"].shape
        assert length in batches.boundaries
        assert size <= max(1, 100 // length) if "tokens_per_batch" in options else size == 8
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights, numbers >= 0)
        seen += numbers[numbers >= 0].tolist()
        filled = np.where(numbers < 0, numbers[0], numbers)
        np.testing.assert_array_equal(inputs["row"], filled)
        np.testing.assert_array_equal(targets, -filled)
        for row, values in zip(filled, inputs["token_ids"], strict=True):
            assert values.tolist() == [1000 * row + 1 + i if i < LENGTHS[row] else 0 for i in range(length)]
        computed += size * length
        shapes.add((size, length))
    assert sorted(seen) == list(range(230))
    assert sum((numbers < 0).any() for numbers in rows) <= (len(shapes) if "tokens_per_batch" in options else 1)
    assert all(numbers[0] >= 0 for numbers in rows)
    assert len(shapes) <= len(batches.boundaries) <= 12
    assert (batches.tokens, batches.computed) == (LENGTHS.sum(), computed)
    assert batches.boundaries[-1] <= 99  # No rows move up to an empty boundary.
    assert_equal(arrays(batches.dataset(epoch, start=17)), elements[17:])


def test_one_trace_for_all_epochs():
    with mock.patch.object(bucketing, "pad_rows", wraps=bucketing.pad_rows) as traced:
        batches = Batches(INPUTS, np.arange(230), batch_size=8)
        assert len({next(iter(batches.dataset(epoch)))[1].numpy().tobytes() for epoch in range(3)}) == 3
    assert traced.call_count == 3  # One for each feature.


def test_ungrouped_batches():
    """Each has the lengths of the data, and is padded to the smallest boundary."""
    lengths = np.random.default_rng(0).integers(1, 60, 203)
    batches = Batches(ragged(lengths), np.arange(203), batch_size=16, seed=3, grouped=False)
    for inputs, rows, weights in arrays(batches.dataset()):
        assert inputs.shape[1] == min(boundary for boundary in batches.boundaries if boundary >= lengths[rows].max())
        assert 15 < lengths[rows[weights > 0]].mean() < 45  # Grouped batches would range from 3 to 58.


def test_default_boundaries_count_leftovers_too():
    short = LENGTHS[LENGTHS < 15]
    inputs = ragged(np.tile(short, 40))
    batches = Batches(inputs)
    assert batches.computed <= 1.05 * batches.tokens
    fewer = fit_boundaries(short, len(batches.boundaries) - 1)
    assert padded_sum(short, fewer) < 1.05 * short.sum()
    assert Batches(inputs, boundaries=fewer).computed > 1.05 * batches.tokens
    # Ratio out of reach: the fewest of the best. 3 rows in a batch of 4 compute 4 * 9 with any boundaries.
    assert Batches(ragged([2, 5, 9]), batch_size=4).boundaries == [9]


def test_leftovers_move_up():
    # In batches of 2: of rows 1, 3, 5 (up to 2) the last moves up to rows 0, 4 (up to 4), then row 4 to row 2.
    batches = Batches(ragged([4, 2, 7, 1, 3, 2]), batch_size=2, boundaries=[2, 4, 7], shuffle=False)
    assert [rows.tolist() for rows in batches.row_indices()] == [[1, 3], [5, 0], [4, 2]]
    assert [inputs.shape for inputs, _, _ in arrays(batches.dataset())] == [(2, 2), (2, 4), (2, 7)]
    # Rows 1, 3, 4 are too few and move up to row 0. Row 2 is filled up with three copies of itself.
    batches = Batches(ragged([4, 2, 7, 1, 2]), batch_size=4, boundaries=[2, 4, 7], shuffle=False)
    assert [rows.tolist() for rows in batches.row_indices()] == [[1, 3, 4, 0], [2, -1, -1, -1]]
    assert [weights.tolist() for _, _, weights in arrays(batches.dataset())] == [[1, 1, 1, 1], [1, 0, 0, 0]]
    batches = Batches(INPUTS, batch_size=8, boundaries=[10, 99], shuffle=False)
    expected = sorted(range(230), key=lambda row: (LENGTHS[row] > 10, row))
    assert np.concatenate(batches.row_indices())[:230].tolist() == expected


def test_token_budget():
    # At most 8 // 2 = 4 rows of up to 2: two batches of 3; 2 rows of up to 4; one of 9, which exceeds the budget.
    batches = Batches(
        ragged([1, 2, 2, 1, 2, 3, 9, 4]), tokens_per_batch=8, boundaries=[2, 4, 9], shuffle=False, batch_size=99
    )
    assert [rows.tolist() for rows in batches.row_indices()] == [[0, 1, 2], [3, 4, -1], [5, 7], [6]]
    assert [inputs.shape for inputs, _, _ in arrays(batches.dataset())] == [(3, 2), (3, 2), (2, 4), (1, 9)]
    assert batches.dataset().element_spec[0].shape == (None, None)


def test_batches_of_as_many_tokens():
    """Half of the rows have 5 tokens, half 20: batches of 8 rows have 100 tokens on average, 5 or 20 rows."""
    for grouped, expected in ((True, {(20, 5), (5, 20)}), (False, {(8, 20)})):
        batches = token_batches(functools.partial(Batches, ragged([5, 20] * 100)), 8, grouped=grouped)
        assert {tuple(part.shape) for part, _, _ in arrays(batches.dataset())} == expected
        assert batches.steps == 25
    # One long row gets a batch of its own, and does not change the others much.
    batches = token_batches(functools.partial(Batches, ragged([7] * 50 + [512])), 8)
    assert batches.steps in (6, 7, 8)
    assert {int((rows >= 0).sum()) for rows in batches.row_indices()} <= {1, *range(5, 12)}


def test_order_is_a_function_of_seed_and_epoch():
    def order(seed, epoch):
        return np.concatenate(Batches(INPUTS, batch_size=8, seed=seed).row_indices(epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    # Lengths are not sorted.
    batches = arrays(Batches(INPUTS, batch_size=8).dataset())
    changes = np.diff([inputs["token_ids"].shape[1] for inputs, _, _ in batches])
    assert 0.3 < np.mean(changes > 0) / np.mean(changes != 0) < 0.7


def test_ragged_targets_and_several_features():
    # The length of row 1 is that of its tags.
    inputs = {"token_ids": ragged([3, 1]), "other": ragged([2, 2], "int64"), "text": ["a", "b"]}
    targets = {"tags": ragged([1, 4], "float32"), "classes": ragged([2, 1], "int64"), "label": [7.0, 8.0]}
    batches = Batches(inputs, targets, batch_size=2, boundaries=[3, 4], shuffle=False)
    ((found, wanted, _),) = arrays(batches.dataset())
    assert found["token_ids"].tolist() == [[1, 2, 3, 0], [1001, 0, 0, 0]]
    assert found["other"].tolist() == [[1, 2, 0, 0], [1001, 1002, 0, 0]]
    assert found["text"].tolist() == [b"a", b"b"]
    assert wanted["tags"].tolist() == [[1, 0, 0, 0], [1001, 1002, 1003, 1004]]
    assert wanted["classes"].tolist() == [[1, 2, -1, -1], [1001, -1, -1, -1]]  # 0 would be a class.
    assert wanted["label"].tolist() == [7, 8]
    assert [value.dtype for value in found.values()] == [np.int32, np.int64, object]
    assert (wanted["tags"].dtype, batches.tokens, batches.computed) == (np.float32, 7, 8)


def test_choices_and_vectors():
    choices = tf.RaggedTensor.from_uniform_row_length(ragged([2, 1, 1, 5]), 2)
    vectors = tf.RaggedTensor.from_row_lengths(np.ones([3, 6], "float32"), [3, 0])
    batches = Batches({"choices": choices, "vectors": vectors}, batch_size=2, shuffle=False)
    spec = batches.dataset().element_spec[0]
    assert (spec["choices"].shape.as_list(), spec["vectors"].shape.as_list()) == ([2, 2, None], [2, None, 6])
    ((found, _, _),) = arrays(batches.dataset())
    assert found["choices"].tolist() == [
        [[1, 2, 0, 0, 0], [1001, 0, 0, 0, 0]],
        [[2001, 0, 0, 0, 0], [3001, 3002, 3003, 3004, 3005]],
    ]
    assert found["vectors"].sum(axis=(1, 2)).tolist() == [18, 0]


def test_errors():
    for call, message in (
        (lambda: Batches(INPUTS, batch_size=0), "`batch_size` must be a positive integer. Received: batch_size=0"),
        (lambda: Batches(INPUTS, batch_size=2.0), "Received: batch_size=2.0"),
        (lambda: Batches(INPUTS, tokens_per_batch=True), "`tokens_per_batch` must be a positive integer"),
        (lambda: Batches(INPUTS, seed=-1), "`seed` must be an integer of at least 0. Received: seed=-1"),
        (lambda: Batches(INPUTS).row_indices(-1), "`epoch` must be an integer of at least 0. Received: epoch=-1"),
        (lambda: Batches(INPUTS).dataset(0, 9), "`start` must be a step of the epoch, 0 to 8. Received: start=9"),
        (lambda: Batches(INPUTS).dataset(0, -1), "Received: start=-1"),
        (lambda: Batches(ragged([2])[:0]), "at least one. Received: rows={'inputs': 0}"),
        (lambda: Batches(INPUTS, {"label": [1, 2]}), "all features must have the same number of rows, at least one."),
        (lambda: Batches(ragged([2]), {"tags": ragged([2], "uint8")}), "`targets.tags` must be signed integers, as"),
        (lambda: Batches({"token_ids": np.ones([2, 3])}, [1, 2]), "at least one feature must be a `tf.RaggedTensor`;"),
        (lambda: Batches({"a": tf.ragged.constant([[[1], [2]], [[3]]])}), "`inputs.a` must be ragged in one axis"),
        (lambda: Batches(ragged([2]), tokens_per_batch=8, grouped=False), "`tokens_per_batch` needs rows of similar"),
        (lambda: Batches(ragged([2, 7, 7]), boundaries=[2, 6]), "`boundaries` must reach the longest row, row 1 of"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
    for boundaries in ([4, 4], [5, 3], [0, 4], [2.5], [], 4):
        message = f"`boundaries` must be increasing integers of at least 1. Received: boundaries={boundaries}"
        with pytest.raises(ValueError, match=re.escape(message)):
            Batches(ragged([2]), boundaries=boundaries)


@pytest.mark.parametrize("count", range(1, 8))
def test_boundaries_are_optimal(count):
    rng = np.random.default_rng(count)
    for _ in range(5):
        lengths = rng.choice(np.arange(1, 40), 7)[rng.integers(0, 7, 50)]
        sizes = np.unique(lengths)
        sets = itertools.chain.from_iterable(itertools.combinations(sizes, size) for size in range(1, count + 1))
        best = min(padded_sum(lengths, boundaries) for boundaries in sets if boundaries[-1] == sizes[-1])
        found = fit_boundaries(lengths, count)
        assert len(found) <= count
        assert padded_sum(lengths, found) == best


def test_fewest_boundaries_for_a_ratio():
    for ratio in (1.1, 1.15, 1.5):
        found = fit_boundaries(LENGTHS, 12, ratio)
        assert padded_sum(LENGTHS, found) <= ratio * LENGTHS.sum()
        assert padded_sum(LENGTHS, fit_boundaries(LENGTHS, len(found) - 1)) > ratio * LENGTHS.sum()
    assert len(fit_boundaries(LENGTHS, 2, 1.01)) == 2
    # Boundaries {1, 9} compute 1 + 1 + 9 + 9 tokens for 1 + 1 + 8 + 9.
    assert fit_boundaries([1, 9, 8, 1], ratio=20 / 19) == [1, 9]
    assert fit_boundaries([1, 9, 8, 1]) == [1, 8, 9]
