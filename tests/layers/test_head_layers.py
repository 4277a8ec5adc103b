"""Layers of the heads; poolings against NumPy."""

import numpy as np

from keras_bert import layers
from tests.conftest import to_numpy as numpy


def test_masked_positions_are_gathered():
    layer = layers.MaskedLMTransform(4, activation="linear")
    layer.build((None, None, 4))
    layer.dense.kernel.assign(np.eye(4, dtype="float32"))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    picked = np.stack([x[0, [2, 0]], x[1, [1, 1]]])
    expected = (picked - picked.mean(-1, keepdims=True)) / picked.std(-1, keepdims=True)
    np.testing.assert_allclose(numpy(layer(x, np.array([[2, 0], [1, 1]], "int32"))), expected, atol=1e-5)


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
        vectors = []
        for tokens in rows:
            pooled = [pool(tokens) for pool in POOLED.values()]
            vectors.append(np.concatenate(pooled))
        expected = np.stack(vectors)
        if normalize:
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(numpy(found), expected, atol=1e-6)
    (zeros,) = numpy(layers.SentencePooling("mean", True)(hidden[:1], mask[:1] * 0))
    np.testing.assert_array_equal(zeros, np.zeros(4))
