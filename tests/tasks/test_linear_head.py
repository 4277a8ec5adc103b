"""Heads on fixed vectors equal those of scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from keras_bert.tasks.linear_head import PENALTY, fit_head


def vectors_of(rows, width=12, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, width)).astype("float32") * 3 + 1


def squared_scale(vectors):
    return ((vectors - vectors.mean(0)) ** 2).sum(1).mean()


@pytest.mark.parametrize("count", [2, 4])
def test_classes_as_scikit_learn(count):
    vectors = vectors_of(60)
    classes = np.arange(60) % count
    weights = np.linspace(0.5, 2, count)[classes]
    head = fit_head(vectors, classes, count, row_weights=weights, penalty=0.3)
    other = LogisticRegression(C=1 / (0.3 * squared_scale(vectors.astype("float64"))), tol=1e-9, max_iter=10_000)
    other.fit(vectors, classes, sample_weight=weights)
    kernel = head.kernel
    bias = head.bias
    expected_bias = other.intercept_
    if count == 2:  # It has the difference of the two logits.
        kernel = kernel[:, 1:] - kernel[:, :1]
        bias = bias[1:] - bias[:1]
    else:  # Equal numbers added to the logits of all classes change nothing.
        bias = bias - bias.mean()
        expected_bias = expected_bias - expected_bias.mean()
    np.testing.assert_allclose(kernel.T, other.coef_, atol=1e-3)
    np.testing.assert_allclose(bias, expected_bias, atol=1e-3)
    log_probabilities = other.predict_log_proba(vectors)[np.arange(60), classes]
    assert head.loss == pytest.approx(-(weights * log_probabilities).mean(), abs=1e-3)


def test_labels_and_numbers_as_scikit_learn():
    vectors = vectors_of(40)
    scale = squared_scale(vectors.astype("float64"))
    labels = (np.random.default_rng(1).random((40, 3)) < 0.4).astype(int)
    head = fit_head(vectors, labels, penalty=0.5)
    for label in range(3):
        other = LogisticRegression(C=1 / (0.5 * scale), tol=1e-9, max_iter=10_000).fit(vectors, labels[:, label])
        np.testing.assert_allclose(head.kernel[:, label], other.coef_[0], atol=1e-3)
        np.testing.assert_allclose(head.bias[label], other.intercept_[0], atol=1e-3)
    numbers = vectors[:, 0] * 2 + labels[:, 0]
    head = fit_head(vectors, numbers, penalty=0.5)
    other = Ridge(alpha=0.5 * scale).fit(vectors, numbers)
    np.testing.assert_allclose(head.kernel[:, 0], other.coef_, atol=1e-3)
    np.testing.assert_allclose(head.bias[0], other.intercept_, atol=1e-3)


def test_classes_without_rows_and_labels_of_all_rows_stay_finite():
    vectors = vectors_of(9)
    head = fit_head(vectors, np.array([0, 2, 3] * 3), 5)
    predicted = (vectors @ head.kernel + head.bias).argmax(1)
    assert np.isfinite(head.kernel).all()
    assert not set(predicted.tolist()) & {1, 4}
    labels = np.stack([np.ones(9), np.zeros(9), np.arange(9) % 2], 1)
    head = fit_head(vectors, labels)
    logits = vectors @ head.kernel + head.bias
    assert (logits[:, 0] > 0).all()
    assert (logits[:, 1] < 0).all()


def test_the_same_rows_give_the_same_head_on_vectors_of_any_scale():
    vectors = vectors_of(30)
    classes = np.arange(30) % 3
    head = fit_head(vectors, classes, 3)
    same = fit_head(vectors, classes, 3)
    np.testing.assert_array_equal(head.kernel, same.kernel)
    assert head.penalty == PENALTY
    scaled = fit_head(vectors * 100 - 7, classes, 3)
    logits = vectors @ head.kernel + head.bias
    np.testing.assert_allclose((vectors * 100 - 7) @ scaled.kernel + scaled.bias, logits, atol=1e-3)
