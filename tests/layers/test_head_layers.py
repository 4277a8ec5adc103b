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
    found = layer(x, np.array([[2, 0], [1, 1]], "int32"))
    np.testing.assert_allclose(numpy(found), expected, atol=1e-5)


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
    lengths = [5, 3, 1]
    mask = np.tri(5)[[4, 2, 0]]
    vectors = []
    for tokens, length in zip(hidden, lengths, strict=True):
        pooled = [pool(tokens[:length]) for pool in POOLED.values()]
        vectors.append(np.concatenate(pooled))
    expected = np.stack(vectors)
    found = layers.SentencePooling(tuple(POOLED))(hidden, mask)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-6)
    scaled = layers.SentencePooling(tuple(POOLED), normalize=True)(hidden, mask)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(numpy(scaled), expected, atol=1e-6)


def test_the_vector_of_no_tokens_is_zero():
    hidden = np.ones((1, 5, 4), "float32")
    vector = layers.SentencePooling("mean", normalize=True)(hidden, np.zeros((1, 5)))
    np.testing.assert_array_equal(numpy(vector), np.zeros((1, 4)))
