"""Integrated gradients of functions whose integrals are known."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.answering.gradients import IntegratedGradients  # noqa: E402
from keras_bert.rewirings.from_vectors import VECTORS  # noqa: E402
from keras_bert.text import word_effects  # noqa: E402
from keras_bert.text.joins import EvidenceOfLogits, MeanOfLogits  # noqa: E402
from keras_bert.text.word_effects import Subject  # noqa: E402

WIDTH = 4
MASK = 1


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(2).normal(size=(10, WIDTH)).astype("float32")


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(3).normal(size=(WIDTH, 2)).astype("float32")


def linear(values):
    return 3 * values


def value_of(function, total):
    """Returns the value of a function of Keras' ops as a number."""
    return float(keras.ops.convert_to_numpy(function(keras.ops.array(total))))


def of_sum(function, weights):
    """Returns a model whose logits are a function of `sum_t v_t . w`."""
    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    vectors = keras.Input((None, WIDTH), name=VECTORS)
    dense = keras.layers.Dense(2, use_bias=False, name="logits")
    logits = function(keras.ops.sum(dense(vectors), 1))
    model = keras.Model(inputs | {VECTORS: vectors}, {"logits": logits})
    dense.set_weights([weights])
    return model


def subject():
    """Two sequences: the first with words of two and of one token, the second with a word, and padding."""
    ids = np.array([[2, 5, 6, 7, 3], [2, 8, 3, 0, 0]], "int32")
    mask = (ids != 0).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}
    number = np.array([[-1, 0, 0, 1, -1], [-1, 0, -1, -1, -1]], "int32")
    values = {name: tf.constant(value) for name, value in inputs.items()}
    return Subject(values, tf.constant(number), tf.range(2), tf.constant([[0], [1]]))


# Of the functions f(s) of the sum: their values, the integral of f' along the path is (f(s) - f(s0)) / (s - s0).
@pytest.mark.parametrize("function", [linear, keras.ops.square, keras.ops.tanh], ids=lambda each: each.__name__)
def test_closed_forms(table, weights, function):
    model = of_sum(function, weights)
    effects = IntegratedGradients(model, lambda ids: tf.gather(table, ids), "logits", MASK, MeanOfLogits())(subject())
    scores = {}
    parts = zip(effects.row.numpy(), effects.number.numpy(), effects.score.numpy(), strict=True)
    for sequence, number, score in parts:
        scores[sequence, number] = scores.get((sequence, number), 0) + score
    expected = {}
    for sequence, tokens, words in ((0, [2, 5, 6, 7, 3], {0: [5, 6], 1: [7]}), (1, [2, 8, 3], {0: [8]})):
        column = table.astype("float64") @ weights[:, sequence]
        full = column[tokens].sum()
        ways = {}
        for number, word in words.items():
            ways[number] = sum(column[token] - column[MASK] for token in word)
        empty = full - sum(ways.values())
        value = value_of(function, full)
        baseline = value_of(function, empty)
        np.testing.assert_allclose(effects.value[sequence], value, atol=1e-5)
        np.testing.assert_allclose(effects.baseline[sequence], baseline, atol=1e-5)
        for number, way in ways.items():
            expected[sequence, number] = way * (value - baseline) / (full - empty)
    assert scores.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(scores[key], value, atol=2e-5)


@pytest.mark.parametrize("join", [MeanOfLogits(), EvidenceOfLogits()])
def test_windows_of_one_text(table, weights, join):
    """Beside a sum over many points of the path, on which all windows are at once, with gradients by differences."""
    model = of_sum(keras.ops.tanh, weights)
    two = subject()._replace(row=tf.zeros([2], tf.int32), place=tf.constant([[0], [0]]))
    effects = IntegratedGradients(model, lambda ids: tf.gather(table, ids), "logits", MASK, join)(two)
    column = table.astype("float64") @ weights[:, 0]
    words = {(0, 1): 5, (0, 2): 6, (0, 3): 7, (1, 1): 8}

    def logit(sums):
        logits = np.tanh(sums)
        if isinstance(join, MeanOfLogits):
            return logits.mean()
        return np.log(np.exp(logits).mean())

    full = np.array([column[[2, 5, 6, 7, 3]].sum(), column[[2, 8, 3]].sum()])
    ways = {place: column[token] - column[MASK] for place, token in words.items()}
    way = np.zeros(2)
    for (window, _), value in ways.items():
        way[window] += value
    rates = np.zeros(2)
    count = 2000
    for point in (np.arange(count) + 0.5) / count:
        sums = full - (1 - point) * way
        for window, step in enumerate(1e-5 * np.eye(2)):
            rates[window] += (logit(sums + step) - logit(sums - step)) / 2e-5 / count
    assert effects.row.numpy().tolist() == [0] * 4
    expected = [rates[window] * value for (window, _), value in ways.items()]
    np.testing.assert_allclose(effects.score, expected, atol=2e-5)
    np.testing.assert_allclose(effects.value, [logit(full)], atol=1e-5)
    np.testing.assert_allclose(effects.baseline, [logit(full - way)], atol=1e-5)


def test_points_are_computed_in_parts(table, weights, monkeypatch):
    """Memory is limited by tokens: the scores do not depend on how many points are computed at once."""
    model = of_sum(keras.ops.tanh, weights)
    found = []
    for tokens in (8192, 40):
        monkeypatch.setattr(word_effects, "_TOKENS", tokens)
        gradients = IntegratedGradients(
            model, lambda ids: tf.gather(table, ids), "logits", MASK, MeanOfLogits(), n_steps=7
        )
        found.append(gradients(subject()).score.numpy())
    np.testing.assert_allclose(*found, atol=1e-6)
