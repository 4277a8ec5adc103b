"""Packing, compared with Google's loops rewritten in plain Python."""

import itertools

import pytest

from keras_bert import Vocabulary

tf = pytest.importorskip("tensorflow")

from keras_bert.text import packing  # noqa: E402

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"])
CLS, SEP = 2, 3


def truncate(first, second, room):
    """Google's `_truncate_seq_pair`."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_truncation_equals_google():
    lengths = list(itertools.product(range(9), repeat=2))
    for room in range(9):
        found = packing.truncated_lengths(*(tf.constant(column) for column in zip(*lengths, strict=True)), room)
        expected = [tuple(map(len, truncate(range(a), range(b), room))) for a, b in lengths]
        assert list(zip(*(kept.numpy().tolist() for kept in found), strict=True)) == expected


def test_single_texts():
    packed = packing.pack(tf.ragged.constant([[4, 5, 6], [], [7]], dtype=tf.int32), None, 6, VOCABULARY)
    ids = [[CLS, 4, 5, 6, SEP, 0], [CLS, SEP, 0, 0, 0, 0], [CLS, 7, SEP, 0, 0, 0]]
    assert packed["token_ids"].numpy().tolist() == ids
    assert packed["padding_mask"].numpy().tolist() == [[int(piece > 0) for piece in row] for row in ids]
    assert packed["segment_ids"].numpy().tolist() == [[0] * 6] * 3
    assert {value.dtype for value in packed.values()} == {tf.int32}


def test_pairs():
    first = tf.ragged.constant([[4, 5], [], [7], []], dtype=tf.int32)
    second = tf.ragged.constant([[6], [8, 9], [], []], dtype=tf.int32)
    packed = packing.pack(first, second, 7, VOCABULARY)
    ids = [[CLS, 4, 5, SEP, 6, SEP, 0], [CLS, SEP, 8, 9, SEP, 0, 0], [CLS, 7, SEP, SEP, 0, 0, 0]]
    assert packed["token_ids"].numpy().tolist() == [*ids, [CLS, SEP, SEP, 0, 0, 0, 0]]
    segments = [[0, 0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0]]
    assert packed["segment_ids"].numpy().tolist() == segments
    assert packed["padding_mask"].numpy().sum(axis=1).tolist() == [6, 5, 4, 3]
    # No rows.
    assert packing.pack(first[:0], None, 4, VOCABULARY)["token_ids"].shape == (0, 4)


def test_cut():
    rows = tf.ragged.constant([[4, 5, 6], [], [7]], dtype=tf.int32)
    assert packing.cut(rows, tf.constant([2, 0, 1])).to_list() == [[4, 5], [], [7]]
    assert packing.cut(rows, 2).to_list() == [[4, 5], [], [7]]
