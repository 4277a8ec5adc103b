"""Truncation, compared with Google's loop in plain Python. Packed rows are in test_preprocessor.py."""

import itertools

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text import packing  # noqa: E402


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
