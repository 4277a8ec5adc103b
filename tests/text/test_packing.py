"""Truncation, compared with Google's loop in plain Python. Packed rows are in test_preprocessor.py."""

import itertools

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text import packing  # noqa: E402


def truncate(first, second, room):
    """Google's `_truncate_seq_pair`."""
    first = list(first)
    second = list(second)
    while len(first) + len(second) > room:
        if len(first) > len(second):
            first.pop()
        else:
            second.pop()
    return first, second


@pytest.mark.parametrize("room", range(9))
def test_truncation_equals_google(room):
    first_lengths = []
    second_lengths = []
    expected = []
    for first, second in itertools.product(range(9), repeat=2):
        first_lengths.append(first)
        second_lengths.append(second)
        kept_first, kept_second = truncate(range(first), range(second), room)
        expected.append((len(kept_first), len(kept_second)))
    first_kept, second_kept = packing.truncated_lengths(tf.constant(first_lengths), tf.constant(second_lengths), room)
    assert list(zip(first_kept.numpy(), second_kept.numpy(), strict=True)) == expected
