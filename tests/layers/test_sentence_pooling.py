"""Poolings against NumPy."""

import numpy as np

from keras_bert import layers
from tests.conftest import to_numpy as numpy

POOLED = {
    "cls": lambda tokens: tokens[0],
    "max": lambda tokens: tokens.max(0),
    "mean": lambda tokens: tokens.mean(0),
    "mean_sqrt_len_tokens": lambda tokens: tokens.sum(0) / len(tokens) ** 0.5,
    "weightedmean": lambda tokens: np.average(tokens, axis=0, weights=range(1, len(tokens) + 1)),
    "lasttoken": lambda tokens: tokens[-1],
}


def test_sentence_pooling():
    hidden = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    rows = [tokens[real == 1] for tokens, real in zip(hidden, mask, strict=True)]
    for normalize in (False, True):
        found = layers.SentencePooling(tuple(POOLED), normalize)(hidden, mask)
        expected = np.stack([np.concatenate([pool(tokens) for pool in POOLED.values()]) for tokens in rows])
        if normalize:
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(numpy(found), expected, atol=1e-6)
    (zeros,) = numpy(layers.SentencePooling("mean", True)(hidden[:1], mask[:1] * 0))
    np.testing.assert_array_equal(zeros, np.zeros(4))
