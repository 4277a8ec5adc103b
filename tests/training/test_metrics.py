"""Metrics against scikit-learn and SciPy."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert.training.metrics import accuracy, f1, macro_f1, matthews_correlation, pearson, spearman

ALL = [accuracy, f1, macro_f1, matthews_correlation, pearson, spearman]


@pytest.mark.parametrize("classes", [2, 7])
def test_metrics_of_classes(classes):
    rng = np.random.default_rng(classes)
    for size in (5, 60):
        labels, predictions = rng.integers(0, classes, (2, size))
        labels[:2], predictions[:2] = (0, 1), (1, 0)  # Neither is constant.
        assert accuracy(labels, predictions) == pytest.approx(np.mean(labels == predictions))
        expected = sklearn.metrics.f1_score(labels, predictions, average="macro")
        assert macro_f1(labels, predictions) == pytest.approx(expected)
        for kind in range(classes + 1):
            expected = sklearn.metrics.f1_score(labels == kind, predictions == kind, zero_division=0)
            assert f1(labels, predictions, kind) == pytest.approx(expected)
        expected = sklearn.metrics.matthews_corrcoef(labels, predictions)
        assert matthews_correlation(labels, predictions) == pytest.approx(expected)


def test_correlations():
    rng = np.random.default_rng(0)
    for size in (2, 3, 200):
        repeated = rng.integers(0, 6, (2, size)) + np.arange(size) % 2
        for labels, predictions in (*rng.normal(size=(3, 2, size)), repeated):
            expected = np.corrcoef(labels, predictions)[0, 1]
            assert pearson(labels, predictions) == pytest.approx(expected)
            assert pearson(labels * 1e200, predictions * 1e-200) == pytest.approx(expected)
            expected = scipy.stats.spearmanr(labels, predictions).statistic
            assert spearman(labels, predictions) == pytest.approx(expected)


def test_nothing_overflows():
    many = np.arange(400_000) % 2
    assert (matthews_correlation(many, many), matthews_correlation(many, 1 - many)) == pytest.approx((1, -1))


def test_undefined_scores_are_0():
    for metric in (matthews_correlation, pearson, spearman):
        assert metric([1, 1, 1], [0, 1, 0]) == metric([0, 1, 0], [1, 1, 1]) == metric([1, 1], [1, 1]) == 0
        assert metric([1], [0]) == 0
    assert f1([0, 0], [0, 0]) == 0
    assert pearson([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == spearman([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize("metric", ALL)
def test_plain_floats_and_errors(metric):
    assert type(metric([0, 1, 1], [0, 1, 0])) is float
    for labels, predictions, message in (
        ([0, 1], [0], "`predictions` and `labels` must have the same shape. Received: labels of shape "),
        ([], [], "`labels` must be a list of at least one number"),
        ([0, 1], [[0], [1]], r"`predictions` must be a list .* of shape \(2, 1\)"),
        ([0, 1], [0.5, math.nan], r"`predictions` must be finite. Received: predictions\[1\]=nan, 1 such values"),
        ([math.inf, 1], [0, 1], r"`labels` must be finite. Received: labels\[0\]=inf"),
        (["a", "b"], [0, 1], "`labels` must be numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            metric(labels, predictions)
