"""Random numbers that are functions of keys: of the place of a text in the corpus, not of the order of drawing."""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # Of SplitMix64 (Steele et al., 2014).


def make_keys(*parts):
    """Returns a uint64 key for each combination of integers, which are broadcast: random, whatever their order."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = _mix(key ^ np.asarray(part, np.uint64))
    return key


def uniforms(keys, count, first=0, dtype=np.float64):
    """Returns `count` numbers in [0, 1) for each key, `(*keys, count)`, starting at index `first`."""
    indices = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    draws = _mix(keys[..., None] + indices * _GOLDEN)
    bits = np.finfo(dtype).nmant + 1
    return (draws >> np.uint64(64 - bits)).astype(dtype) * dtype(2.0**-bits)


def _mix(value):
    """Returns the next number of SplitMix64."""
    value = value + _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
