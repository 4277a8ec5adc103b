"""Batches by length, against their rows."""

import functools
import itertools
from typing import NamedTuple
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data import bucketing
from keras_bert.data.boundaries import fit_boundaries
from keras_bert.data.bucketing import Batches, token_batches
from tests.data.test_boundaries import padded_sum


def ragged(lengths, dtype="int32"):
    """Row r has the values 1000 * r + 1, 1000 * r + 2, ..."""
    values = np.concatenate([1000 * row + 1 + np.arange(length) for row, length in enumerate(lengths)])
    return tf.RaggedTensor.from_row_lengths(values.astype(dtype), lengths)


def arrays(dataset):
    return list(dataset.as_numpy_iterator())


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


LENGTHS = np.random.default_rng(0).geometric(0.1, 230)
INPUTS = {"token_ids": ragged(LENGTHS), "row": np.arange(230)}


def test_empty_rows_get_a_boundary_of_at_least_one():
    batches = Batches(ragged([0, 0, 0]), batch_size=2)
    assert batches.boundaries == [1]
    assert batches.tokens == 0
    assert batches.computed == 4
    for inputs, _, _ in arrays(batches.dataset()):
        assert not inputs.any()


OPTIONS = {
    "rows": {},
    "tokens": {"tokens_per_batch": 100},
    "boundaries": {"boundaries": [5, 20, 99, 200], "shuffle": False},
    "ungrouped": {"grouped": False},
}


class Epoch(NamedTuple):
    """The batches of an epoch."""

    batches: Batches
    number: int
    rows: list
    elements: list


@pytest.fixture(scope="module")
def read_epoch():
    """Returns a function that reads the `Epoch` of some `OPTIONS`, once for all tests."""

    @functools.cache
    def read(name):
        batches = Batches(INPUTS, -np.arange(230), batch_size=8, **OPTIONS[name])
        # The lengths of ungrouped batches differ between epochs: `computed` is that of the first one.
        number = 0 if name == "ungrouped" else 3
        return Epoch(batches, number, batches.row_indices(number), arrays(batches.dataset(number)))

    return read


def padded_rows(rows, length):
    """Returns the token ids of rows, padded."""
    places = np.arange(length)
    return np.where(places < LENGTHS[rows, None], 1000 * rows[:, None] + 1 + places, 0)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_row_occurs_once_at_its_index(read_epoch, name):
    epoch = read_epoch(name)
    assert len(epoch.elements) == len(epoch.rows)
    for (inputs, targets, weights), numbers in zip(epoch.elements, epoch.rows, strict=True):
        assert numbers[0] >= 0
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights, numbers >= 0)
        filled = np.where(numbers < 0, numbers[0], numbers)
        np.testing.assert_array_equal(inputs["row"], filled)
        np.testing.assert_array_equal(targets, -filled)
        length = inputs["token_ids"].shape[1]
        np.testing.assert_array_equal(inputs["token_ids"], padded_rows(filled, length))
    seen = np.concatenate(epoch.rows)
    assert sorted(seen[seen >= 0]) == list(range(230))


@pytest.mark.parametrize("name", OPTIONS)
def test_shapes_of_batches(read_epoch, name):
    """A batch has the number of rows, or of tokens, that is asked for; at most one has filler for each shape."""
    epoch = read_epoch(name)
    batches = epoch.batches
    shapes = [inputs["token_ids"].shape for inputs, _, _ in epoch.elements]
    assert len(shapes) == batches.steps == len(batches.dataset(epoch.number))
    most_with_filler = 1
    if name == "tokens":
        most_with_filler = len(set(shapes))
    for size, length in shapes:
        assert length in batches.boundaries
        if name == "tokens":
            assert size <= max(1, 100 // length)
        else:
            assert size == 8
    assert sum((numbers < 0).any() for numbers in epoch.rows) <= most_with_filler
    assert len(set(shapes)) <= len(batches.boundaries) <= 12
    assert batches.boundaries[-1] <= 99  # No rows move up to an empty boundary.
    assert batches.tokens == LENGTHS.sum()
    assert batches.computed == sum(size * length for size, length in shapes)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_epoch_starts_at_any_step(read_epoch, name):
    epoch = read_epoch(name)
    assert_equal(arrays(epoch.batches.dataset(epoch.number, start=17)), epoch.elements[17:])


def test_one_trace_for_all_epochs():
    with mock.patch.object(bucketing, "pad_rows", wraps=bucketing.pad_rows) as traced:
        batches = Batches(INPUTS, np.arange(230), batch_size=8)
        firsts = [next(iter(batches.dataset(epoch)))[1].numpy().tolist() for epoch in range(3)]
    assert len(set(map(tuple, firsts))) == 3
    assert traced.call_count == 3  # One for each feature.


def test_ungrouped_batches():
    """Each has the lengths of the data, and is padded to the smallest boundary."""
    lengths = np.random.default_rng(0).integers(1, 60, 203)
    batches = Batches(ragged(lengths), np.arange(203), batch_size=16, seed=3, grouped=False)
    for inputs, rows, weights in arrays(batches.dataset()):
        smallest = np.searchsorted(batches.boundaries, lengths[rows].max())
        assert inputs.shape[1] == batches.boundaries[smallest]
        assert 15 < lengths[rows[weights > 0]].mean() < 45  # Grouped batches would range from 3 to 58.


def test_default_boundaries_count_leftovers_too():
    short = LENGTHS[LENGTHS < 15]
    inputs = ragged(np.tile(short, 40))
    batches = Batches(inputs)
    assert batches.computed <= 1.05 * batches.tokens
    fewer = fit_boundaries(short, len(batches.boundaries) - 1)
    assert padded_sum(short, fewer) < 1.05 * short.sum()
    assert Batches(inputs, boundaries=fewer).computed > 1.05 * batches.tokens


def test_the_fewest_boundaries_where_none_are_good():
    """3 rows in a batch of 4 compute 4 * 9 with any boundaries."""
    assert Batches(ragged([2, 5, 9]), batch_size=4).boundaries == [9]


def listed(arrays_of_batches):
    return [values.tolist() for values in arrays_of_batches]


def test_leftovers_move_up():
    """In batches of 2: of rows 1, 3, 5 (up to 2) the last moves up to rows 0, 4 (up to 4), then row 4 to row 2."""
    batches = Batches(ragged([4, 2, 7, 1, 3, 2]), batch_size=2, boundaries=[2, 4, 7], shuffle=False)
    assert listed(batches.row_indices()) == [[1, 3], [5, 0], [4, 2]]
    assert [inputs.shape for inputs, _, _ in arrays(batches.dataset())] == [(2, 2), (2, 4), (2, 7)]


def test_the_last_batch_is_filled_up():
    """Rows 1, 3, 4 are too few and move up to row 0. Row 2 is filled up with three copies of itself."""
    batches = Batches(ragged([4, 2, 7, 1, 2]), batch_size=4, boundaries=[2, 4, 7], shuffle=False)
    assert listed(batches.row_indices()) == [[1, 3, 4, 0], [2, -1, -1, -1]]
    assert [weights.tolist() for _, _, weights in arrays(batches.dataset())] == [[1, 1, 1, 1], [1, 0, 0, 0]]


def test_rows_that_are_not_shuffled_keep_their_order():
    batches = Batches(INPUTS, batch_size=8, boundaries=[10, 99], shuffle=False)
    expected = np.argsort(LENGTHS > 10, kind="stable")
    np.testing.assert_array_equal(np.concatenate(batches.row_indices())[:230], expected)


def test_token_budget():
    """At most 8 // 2 = 4 rows of up to 2: two batches of 3; 2 rows of up to 4; one of 9, which exceeds the budget."""
    lengths = [1, 2, 2, 1, 2, 3, 9, 4]
    batches = Batches(ragged(lengths), tokens_per_batch=8, boundaries=[2, 4, 9], shuffle=False, batch_size=99)
    assert listed(batches.row_indices()) == [[0, 1, 2], [3, 4, -1], [5, 7], [6]]
    assert [inputs.shape for inputs, _, _ in arrays(batches.dataset())] == [(3, 2), (3, 2), (2, 4), (1, 9)]
    assert batches.dataset().element_spec[0].shape == (None, None)


@pytest.mark.parametrize(("grouped", "expected"), [(True, {(20, 5), (5, 20)}), (False, {(8, 20)})])
def test_batches_of_as_many_tokens(grouped, expected):
    """Half of the rows have 5 tokens, half 20: batches of 8 rows have 100 tokens on average, 5 or 20 rows."""
    batches = token_batches(functools.partial(Batches, ragged([5, 20] * 100)), 8, grouped=grouped)
    assert {tuple(part.shape) for part, _, _ in arrays(batches.dataset())} == expected
    assert batches.steps == 25


def test_a_long_row_gets_a_batch_of_its_own():
    """It does not change the others much."""
    batches = token_batches(functools.partial(Batches, ragged([7] * 50 + [512])), 8)
    assert batches.steps in (6, 7, 8)
    sizes = {np.count_nonzero(rows >= 0) for rows in batches.row_indices()}
    assert sizes <= {1, *range(5, 12)}


def test_order_is_a_function_of_seed_and_epoch():
    def order(seed, epoch):
        return np.concatenate(Batches(INPUTS, batch_size=8, seed=seed).row_indices(epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    orders = [order(seed, epoch) for seed, epoch in itertools.product(range(3), repeat=2)]
    assert len(set(map(tuple, orders))) == 9


def test_lengths_are_not_sorted():
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
    assert wanted["tags"].dtype == np.float32
    assert batches.tokens == 7
    assert batches.computed == 8


def test_choices_and_vectors():
    choices = tf.RaggedTensor.from_uniform_row_length(ragged([2, 1, 1, 5]), 2)
    vectors = tf.RaggedTensor.from_row_lengths(np.ones([3, 6], "float32"), [3, 0])
    batches = Batches({"choices": choices, "vectors": vectors}, batch_size=2, shuffle=False)
    spec = batches.dataset().element_spec[0]
    assert spec["choices"].shape.as_list() == [2, 2, None]
    assert spec["vectors"].shape.as_list() == [2, None, 6]
    ((found, _, _),) = arrays(batches.dataset())
    assert found["choices"].tolist() == [
        [[1, 2, 0, 0, 0], [1001, 0, 0, 0, 0]],
        [[2001, 0, 0, 0, 0], [3001, 3002, 3003, 3004, 3005]],
    ]
    assert found["vectors"].sum(axis=(1, 2)).tolist() == [18, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be a positive integer. Received: batch_size=0"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"tokens_per_batch": True}, "`tokens_per_batch` must be a positive integer"),
        ({"seed": -1}, "`seed` must be an integer of at least 0. Received: seed=-1"),
        ({"tokens_per_batch": 8, "grouped": False}, "`tokens_per_batch` needs rows of similar"),
        ({"boundaries": [2, 6]}, "`boundaries` must reach the longest row, row"),
        ({"boundaries": [4, 4]}, "`boundaries` must be increasing integers of at least 1"),
    ],
)
def test_arguments_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Batches(INPUTS, **options)


def test_steps_that_are_not_there():
    batches = Batches(INPUTS)
    with pytest.raises(ValueError, match="`epoch` must be an integer of at least 0. Received: epoch=-1"):
        batches.row_indices(-1)
    with pytest.raises(ValueError, match="`start` must be a step of the epoch, 0 to 8. Received: start=9"):
        batches.dataset(0, 9)
    with pytest.raises(ValueError, match="start"):
        batches.dataset(0, -1)
