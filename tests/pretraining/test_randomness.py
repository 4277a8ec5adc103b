"""Random numbers by key, compared with the generator in plain Python and its published numbers."""

import itertools

import numpy as np

from keras_bert.pretraining.sentence_pairs import make_keys, uniforms

WORD = 2**64
STEP, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def splitmix(seed):
    """Yields the integers of SplitMix64 (Vigna's C program)."""
    while True:
        seed = (seed + STEP) % WORD
        value = (seed ^ (seed >> 30)) * FIRST_FACTOR % WORD
        value = (value ^ (value >> 27)) * SECOND_FACTOR % WORD
        yield value ^ (value >> 31)


def test_published_numbers():
    # Seed 1234567, from rosettacode.org; a key's numbers start with the second.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    published += [16408922859458223821]
    assert list(itertools.islice(splitmix(1234567), 5)) == published
    expected = [(value >> 11) * 2.0**-53 for value in published[1:]]
    assert uniforms(np.uint64([1234567]), 4)[0].tolist() == expected
    assert uniforms(np.uint64([1234567]), 2, first=2)[0].tolist() == expected[2:]
    expected = np.float32([(value >> 40) * 2.0**-24 for value in published[1:]])
    np.testing.assert_array_equal(uniforms(np.uint64([1234567]), 4, dtype=np.float32)[0], expected)


def test_keys_chain_the_generator_over_parts():
    def key(*parts):
        found = 0
        for part in parts:
            found = next(splitmix(found ^ part))
        return found

    rows, columns = np.arange(5)[:, None], np.array([0, 1, 2**40])
    keys = make_keys(7, rows, columns)
    assert keys.tolist() == [[key(7, row, column) for column in columns.tolist()] for row in range(5)]
    assert keys.dtype == np.uint64
    assert make_keys(1, 2).tolist() == [key(1, 2)]


def test_numbers_are_in_unit_interval():
    # Keys whose first integer is all ones or all zeros: a key's numbers start with the generator's second.
    ones, none = 0x932B113CFBD6B596, 0xC3910C8D016B07D6
    assert [next(itertools.islice(splitmix(key), 1, None)) for key in (ones, none)] == [WORD - 1, 0]
    for dtype, bits in ((np.float64, 53), (np.float32, 24)):
        numbers = uniforms(np.uint64([ones, none]), 1, dtype=dtype)[:, 0]
        assert numbers.dtype == dtype
        assert numbers.tolist() == [1 - 2.0**-bits, 0]
