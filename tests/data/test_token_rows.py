"""Compact features: the batches of the ragged tensors that they stand for, in a fifth of the bytes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data import token_rows
from keras_bert.data.bucketing import Batches, token_batches
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.data.pair_bucketing import TowerBatches
from keras_bert.data.token_rows import Ids, Runs, compact, compact_parts, joined

pytestmark = pytest.mark.tensorflow


def rows(count=60, highest=30000, longest=40, seed=0):
    """Returns ids, the length of the first segment and the length of each row, lists."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    firsts = rng.integers(1, lengths + 1)
    return [rng.integers(2, highest, length) for length in lengths], firsts, lengths


def features(ids, firsts, lengths):
    """Returns the model inputs of rows, ragged int32."""
    segments = [np.arange(length) >= first for first, length in zip(firsts, lengths, strict=True)]
    by_name = {"token_ids": ids, "segment_ids": segments, "padding_mask": [np.ones(length) for length in lengths]}
    return {
        name: tf.RaggedTensor.from_row_lengths(np.concatenate(values).astype("int32"), lengths)
        for name, values in by_name.items()
    }


def by_hand(ids, firsts, lengths, chosen, width):
    """Returns the model inputs of some rows, padded, by a loop."""
    batch = {name: np.zeros((len(chosen), width), "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
    for place, row in enumerate(chosen):
        batch["token_ids"][place, : lengths[row]] = ids[row]
        batch["segment_ids"][place, firsts[row] : lengths[row]] = 1
        batch["padding_mask"][place, : lengths[row]] = 1
    return batch


def same(first, second):
    """Asserts that two trees of arrays are equal to the byte, in values, types and shapes."""
    first, second = tf.nest.flatten(first), tf.nest.flatten(second)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("highest", [200, 30000, 2**16, 2**16 + 1])
@pytest.mark.parametrize("options", [{}, {"tokens_per_batch": 200}, {"grouped": False}, {"boundaries": [8, 16, 40]}])
def test_batches_are_those_of_a_loop(highest, options):
    ids, firsts, lengths = rows(highest=highest)
    ids[7][0] = highest - 1
    inputs = {name: compact(feature) for name, feature in features(ids, firsts, lengths).items()}
    batches = Batches(inputs, np.arange(60), batch_size=8, **options)
    for (padded, targets, _), chosen in zip(batches.dataset(), batches.row_indices(), strict=True):
        chosen = np.where(chosen < 0, chosen[0], chosen)
        same(targets, chosen)
        same(padded, by_hand(ids, firsts, lengths, chosen, padded["token_ids"].shape[1]))


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
    long = features(*rows())
    targets = {"row": np.arange(60), "token": long["token_ids"]}
    short = {name: compact(feature) for name, feature in long.items()}
    assert [type(feature) for feature in short.values()] == [Ids, Runs, Runs]
    expected, found = make(long, targets), make(short, targets)
    same(expected.row_indices(1), found.row_indices(1))
    assert expected.dataset(1).element_spec == found.dataset(1).element_spec
    same(list(expected.dataset(1).as_numpy_iterator()), list(found.dataset(1).as_numpy_iterator()))


def test_choices_and_towers():
    ids, firsts, lengths = rows()
    lengths[5], firsts[5], ids[5] = 0, 0, ids[5][:0]  # An absent choice.
    flat = features(ids, firsts, lengths)
    long = {name: tf.RaggedTensor.from_uniform_row_length(feature, 3) for name, feature in flat.items()}
    short = {name: token_rows.uniform(compact(feature), 3) for name, feature in flat.items()}
    for name, feature in long.items():
        compacted = compact(feature)
        assert type(compacted) is type(short[name])
        same(token_rows.sequence_lengths(compacted), lengths.reshape(20, 3))
        same(token_rows.sequence_lengths(feature), lengths.reshape(20, 3))
        assert short[name].ragged().to_list() == compacted.ragged().to_list() == feature.to_list()
    for make in Batches, TowerBatches:
        parts = [
            make(
                {f"{tower}_{name}": feature[:20] for name, feature in part.items() for tower in ("a", "b")},
                batch_size=4,
            )
            for part in (long,)
        ]
        parts.append(make({f"{tower}_{name}": short[name] for name in short for tower in ("a", "b")}, batch_size=4))
        same(*(list(batches.dataset().as_numpy_iterator()) for batches in parts))


def test_rows_of_other_forms_are_kept():
    """Segments that are not two runs, negative or large values, and floats lose nothing."""
    splits = [0, 3, 3, 7]
    for values, kind in (
        ([0, 1, 0, 0, 1, 1, 2], Ids),
        ([0, 1, 1, 1, 0, 1, 1], Ids),
        ([0, 1, 1, 0, 0, 0, 1], Runs),
        ([-1, 1, 1, 0, 0, 0, 1], tf.RaggedTensor),
        ([2**31 - 1, 1, 1, 0, 0, 0, 1], tf.RaggedTensor),
    ):
        feature = tf.RaggedTensor.from_row_splits(tf.constant(values, tf.int32), splits)
        found = compact(feature)
        assert isinstance(found, kind)
        assert token_rows.as_tensor(found).to_list() == feature.to_list()
        assert token_rows.as_tensor(found).dtype == tf.int32
        taken = token_rows.take(found, [2, 0, 0])
        assert token_rows.as_tensor(taken).to_list() == tf.gather(feature, [2, 0, 0]).to_list()
    floats = tf.ragged.constant([[0.5], [1.0, 2.0]])
    assert compact(floats) is floats
    vectors = tf.RaggedTensor.from_row_lengths(tf.zeros([3, 4], tf.int32), [1, 2])
    assert compact(vectors) is vectors
    nested = tf.ragged.constant([[[1], [2, 3]], [[4]]])
    assert compact(nested) is nested


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
    for part in parts:
        values = tf.constant(np.concatenate(part), tf.int32)
        ragged.append(tf.RaggedTensor.from_row_lengths(values, list(map(len, part))))
    expected = [row for part in parts for row in part]
    for found in joined(map(compact, ragged)), compact_parts({"ids": part} for part in ragged)["ids"]:
        assert token_rows.as_tensor(found).to_list() == expected
        assert token_rows.as_tensor(found).dtype == tf.int32


def test_bytes_of_a_token():
    """Of 100,000 rows, as SQuAD has: two bytes a token, and the lengths of each row."""
    long = features(*rows(count=2000, longest=384))
    tokens = int(long["token_ids"].flat_values.shape[0])
    short = {name: compact(feature) for name, feature in long.items()}
    before = sum(part.numpy().nbytes for feature in long.values() for part in (feature.flat_values, feature.row_splits))
    ids, *others = short.values()
    tensors = [ids._ragged.flat_values, ids._ragged.row_splits]
    tensors += [tensor for feature in others for tensor in (feature._starts, feature._lengths)]
    after = sum(tensor.numpy().nbytes for tensor in tensors)
    assert ids._ragged.dtype == tf.uint16
    assert before > 12 * tokens
    assert after < before / 5
