"""Compact features: the batches of the ragged tensors that they stand for, in a fifth of the bytes."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data import token_rows
from keras_bert.data.bucketing import Batches, token_batches
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.data.pair_bucketing import TowerBatches
from keras_bert.data.token_rows import Ids, Runs, compact, compact_parts, joined

pytestmark = pytest.mark.tensorflow


class Rows(NamedTuple):
    """Rows of two segments: ids, the length of the first segment, and the length of each row."""

    ids: list
    firsts: np.ndarray
    lengths: np.ndarray


def rows(count=60, highest=30000, longest=40, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    firsts = rng.integers(1, lengths + 1)
    ids = [rng.integers(2, highest, length) for length in lengths]
    return Rows(ids, firsts, lengths)


def features(rows):
    """Returns the model inputs of rows, ragged int32."""
    ids = np.concatenate(rows.ids).astype("int32")
    places = np.concatenate([np.arange(length) for length in rows.lengths])
    segments = (places >= np.repeat(rows.firsts, rows.lengths)).astype("int32")
    by_name = {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}
    return {name: tf.RaggedTensor.from_row_lengths(values, rows.lengths) for name, values in by_name.items()}


def compacted(features):
    return {name: compact(feature) for name, feature in features.items()}


def by_hand(rows, chosen, width):
    """Returns the model inputs of some rows, padded, by a loop."""
    token_ids = np.zeros((len(chosen), width), "int32")
    segment_ids = np.zeros_like(token_ids)
    padding_mask = np.zeros_like(token_ids)
    for place, row in enumerate(chosen):
        length = rows.lengths[row]
        token_ids[place, :length] = rows.ids[row]
        segment_ids[place, rows.firsts[row] : length] = 1
        padding_mask[place, :length] = 1
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}


def same(first, second):
    """Asserts that two trees of arrays are equal to the byte, in values, types and shapes."""
    first_arrays = tf.nest.flatten(first)
    second_arrays = tf.nest.flatten(second)
    assert len(first_arrays) == len(second_arrays)
    for one, other in zip(map(np.asarray, first_arrays), map(np.asarray, second_arrays), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def elements(batches, epoch=0):
    return list(batches.dataset(epoch).as_numpy_iterator())


@pytest.mark.parametrize("highest", [200, 30000, 2**16, 2**16 + 1])
@pytest.mark.parametrize("options", [{}, {"tokens_per_batch": 200}, {"grouped": False}, {"boundaries": [8, 16, 40]}])
def test_batches_are_those_of_a_loop(highest, options):
    some = rows(highest=highest)
    some.ids[7][0] = highest - 1
    batches = Batches(compacted(features(some)), np.arange(60), batch_size=8, **options)
    for (padded, targets, _), chosen in zip(batches.dataset(), batches.row_indices(), strict=True):
        filled = np.where(chosen < 0, chosen[0], chosen)
        same(targets, filled)
        same(padded, by_hand(some, filled, padded["token_ids"].shape[1]))


@pytest.mark.parametrize(
    "make",
    [
        lambda inputs, targets: Batches(inputs, targets["row"], batch_size=8),
        lambda inputs, targets: PackedBatches(inputs, targets["row"], batch_size=8),
        lambda inputs, targets: PackedBatches(inputs, targets["token"], batch_size=8),
        lambda inputs, targets: token_batches(lambda **options: Batches(inputs, targets["token"], **options), 8),
    ],
    ids=["rows", "packed", "packed tokens", "tokens"],
)
def test_batches_are_those_of_ragged_tensors(make):
    long = features(rows())
    short = compacted(long)
    assert type(short["token_ids"]) is Ids
    assert type(short["segment_ids"]) is Runs
    assert type(short["padding_mask"]) is Runs
    targets = {"row": np.arange(60), "token": long["token_ids"]}
    expected = make(long, targets)
    found = make(short, targets)
    same(expected.row_indices(1), found.row_indices(1))
    assert expected.dataset(1).element_spec == found.dataset(1).element_spec
    same(elements(expected, 1), elements(found, 1))


@pytest.fixture
def choices():
    """Three choices of each of 20 rows, one of them absent: ragged features, and compact ones."""
    some = rows()
    some.ids[5] = some.ids[5][:0]
    some.firsts[5] = 0
    some.lengths[5] = 0
    flat = features(some)
    long = {name: tf.RaggedTensor.from_uniform_row_length(feature, 3) for name, feature in flat.items()}
    short = {name: token_rows.uniform(feature, 3) for name, feature in compacted(flat).items()}
    return some, long, short


def test_choices(choices):
    some, long, short = choices
    for name, feature in long.items():
        found = compact(feature)
        assert type(found) is type(short[name])
        same(token_rows.sequence_lengths(found), some.lengths.reshape(20, 3))
        same(token_rows.sequence_lengths(feature), some.lengths.reshape(20, 3))
        assert short[name].ragged().to_list() == feature.to_list()
        assert found.ragged().to_list() == feature.to_list()


def two_towers(features):
    """Returns features of two towers that are the same."""
    first = {f"a_{name}": feature for name, feature in features.items()}
    second = {f"b_{name}": feature for name, feature in features.items()}
    return first | second


@pytest.mark.parametrize("make", [Batches, TowerBatches])
def test_batches_of_choices_in_towers(choices, make):
    _, long, short = choices
    same(elements(make(two_towers(long), batch_size=4)), elements(make(two_towers(short), batch_size=4)))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 0, 0, 1, 1, 2], Ids),
        ([0, 1, 1, 1, 0, 1, 1], Ids),
        ([0, 1, 1, 0, 0, 0, 1], Runs),
        ([-1, 1, 1, 0, 0, 0, 1], tf.RaggedTensor),
        ([2**31 - 1, 1, 1, 0, 0, 0, 1], tf.RaggedTensor),
    ],
)
def test_no_form_of_rows_loses_anything(values, kind):
    """Segments that are not two runs are ids; negative and large values are kept as they are."""
    feature = tf.RaggedTensor.from_row_splits(tf.constant(values, tf.int32), [0, 3, 3, 7])
    found = compact(feature)
    assert isinstance(found, kind)
    assert token_rows.as_tensor(found).to_list() == feature.to_list()
    assert token_rows.as_tensor(found).dtype == tf.int32
    taken = token_rows.take(found, [2, 0, 0])
    assert token_rows.as_tensor(taken).to_list() == tf.gather(feature, [2, 0, 0]).to_list()


@pytest.mark.parametrize(
    "feature",
    [
        tf.ragged.constant([[0.5], [1.0, 2.0]]),
        tf.RaggedTensor.from_row_lengths(tf.zeros([3, 4], tf.int32), [1, 2]),
        tf.ragged.constant([[[1], [2, 3]], [[4]]]),
    ],
    ids=["floats", "vectors", "nested"],
)
def test_other_features_are_kept(feature):
    assert compact(feature) is feature


@pytest.mark.parametrize(
    "parts",
    [
        ([[0, 1], [0]], [[0, 0, 1]]),
        ([[0, 1], [0]], [[5, 300]]),
        ([[0, 1], []], [[7]], [[70000]]),
        ([[0, 1]], [[-4]]),
        ([[3]], [[2**31 - 1, 0]]),
    ],
)
def test_parts_of_different_forms_are_joined(parts):
    ragged = []
    expected = []
    for part in parts:
        ragged.append(tf.ragged.constant(part, tf.int32))
        expected += part
    for found in (joined(map(compact, ragged)), compact_parts({"ids": part} for part in ragged)["ids"]):
        assert token_rows.as_tensor(found).to_list() == expected
        assert token_rows.as_tensor(found).dtype == tf.int32


def test_bytes_of_a_token():
    """Of 100,000 rows, as SQuAD has: two bytes a token, and the lengths of each row."""
    long = features(rows(count=2000, longest=384))
    tokens = int(long["token_ids"].flat_values.shape[0])
    short = compacted(long)
    assert short["token_ids"].nbytes == 2 * tokens + long["token_ids"].row_splits.numpy().nbytes
    before = 0
    after = 0
    for name, feature in long.items():
        before += feature.flat_values.numpy().nbytes + feature.row_splits.numpy().nbytes
        after += short[name].nbytes
    assert before > 12 * tokens
    assert after < before / 5
