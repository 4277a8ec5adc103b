"""Random numbers by key, compared with SplitMix64 in plain Python and with its published numbers."""

import itertools

import numpy as np

from keras_bert.pretraining.random_keys import make_keys, uniforms

WORD = 2**64
STEP = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
# Those of seed 1234567, from rosettacode.org.
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def splitmix(seed):
    """Yields the integers of SplitMix64 (Vigna's C program)."""
    while True:
        seed = (seed + STEP) % WORD
        value = (seed ^ (seed >> 30)) * FIRST_FACTOR % WORD
        value = (value ^ (value >> 27)) * SECOND_FACTOR % WORD
        yield value ^ (value >> 31)


def second_number(seed):
    """Returns the second number of the generator, with which the numbers of a key start."""
    numbers = splitmix(seed)
    next(numbers)
    return next(numbers)


def test_the_generator_of_these_tests_gives_the_published_numbers():
    assert list(itertools.islice(splitmix(1234567), 5)) == PUBLISHED


def test_numbers_of_a_key_are_the_published_ones_after_the_first():
    keys = np.uint64([1234567])
    expected = [(value >> 11) * 2.0**-53 for value in PUBLISHED[1:]]
    assert uniforms(keys, 4)[0].tolist() == expected
    assert uniforms(keys, 2, first=2)[0].tolist() == expected[2:]


def test_numbers_of_single_precision_have_24_bits():
    expected = [(value >> 40) * 2.0**-24 for value in PUBLISHED[1:]]
    found = uniforms(np.uint64([1234567]), 4, dtype=np.float32)[0]
    np.testing.assert_array_equal(found, np.float32(expected))


def test_numbers_are_at_least_0_and_less_than_1():
    """Also those of integers that are all ones or all zeros."""
    ones = 0x932B113CFBD6B596
    zeros = 0xC3910C8D016B07D6
    assert second_number(ones) == WORD - 1
    assert second_number(zeros) == 0
    for dtype, bits in ((np.float64, 53), (np.float32, 24)):
        numbers = uniforms(np.uint64([ones, zeros]), 1, dtype=dtype)[:, 0]
        assert numbers.dtype == dtype
        assert numbers.tolist() == [1 - 2.0**-bits, 0]


def chained(*parts):
    """Returns a key by chaining the generator over integers."""
    key = 0
    for part in parts:
        key = next(splitmix(key ^ part))
    return key


def test_keys_chain_the_generator_over_parts():
    columns = [0, 1, 2**40]
    keys = make_keys(7, np.arange(5)[:, None], np.array(columns))
    assert keys.dtype == np.uint64
    assert keys.shape == (5, 3)
    for row in range(5):
        assert keys[row].tolist() == [chained(7, row, column) for column in columns]
    assert make_keys(1, 2).tolist() == [chained(1, 2)]
