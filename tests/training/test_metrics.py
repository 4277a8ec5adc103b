"""Metrics beside SciPy's and scikit-learn's."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert.training.metrics import accuracy, f1, macro_f1, matthews_correlation, pearson, spearman

ALL = [accuracy, f1, macro_f1, matthews_correlation, pearson, spearman]


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 2, 5, 300])
def test_classes_as_scikit_learn(classes, size):
    rng = np.random.default_rng(classes * size)
    for _ in range(5):
        labels, predictions = rng.integers(0, classes, (2, size))
        assert accuracy(labels, predictions) == pytest.approx(sklearn.metrics.accuracy_score(labels, predictions))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of a single class.
            expected = sklearn.metrics.matthews_corrcoef(labels, predictions)
        assert matthews_correlation(labels, predictions) == pytest.approx(expected)
        expected = sklearn.metrics.f1_score(labels, predictions, average="macro")
        assert macro_f1(labels, predictions) == pytest.approx(expected)
        if classes == 2:
            for positive in (0, 1):
                expected = sklearn.metrics.f1_score(labels, predictions, pos_label=positive, zero_division=0)
                assert f1(labels, predictions, positive) == pytest.approx(expected)


@pytest.mark.parametrize("size", [2, 3, 200])
def test_correlations_as_scipy(size):
    rng = np.random.default_rng(size)
    for scale in (1, 1e-200, 1e200):
        labels, predictions = rng.normal(size=(2, size)) * scale
        assert pearson(labels, predictions) == pytest.approx(scipy.stats.pearsonr(labels, predictions).statistic)
        assert spearman(labels, predictions) == pytest.approx(scipy.stats.spearmanr(labels, predictions).statistic)


def test_ties_share_their_rank():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 6, 100), rng.integers(0, 4, 100) / 2
    assert spearman(labels, predictions) == pytest.approx(scipy.stats.spearmanr(labels, predictions).statistic)
    # Ranks 1.5, 1.5, 3 beside 1, 2, 3.
    assert spearman([0, 0, 9], [4, 5, 6]) == pytest.approx(math.sqrt(3) / 2)


def test_by_hand():
    # 2 true positives, 1 false positive, 1 false negative, 1 true negative.
    labels, predictions = [1, 1, 1, 0, 0], [1, 1, 0, 1, 0]
    assert accuracy(labels, predictions) == pytest.approx(3 / 5)
    assert f1(labels, predictions) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert matthews_correlation(labels, predictions) == pytest.approx((2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2))


def test_many_rows_do_not_overflow():
    labels = np.arange(400_000) % 2
    assert matthews_correlation(labels, labels) == pytest.approx(1)
    assert matthews_correlation(labels, 1 - labels) == pytest.approx(-1)


def test_what_is_not_defined_is_0():
    assert matthews_correlation([1, 1, 1], [0, 1, 0]) == 0
    assert matthews_correlation([0, 1, 0], [1, 1, 1]) == 0
    assert matthews_correlation([1, 1], [1, 1]) == 0
    assert f1([0, 0], [0, 0]) == 0
    for correlation in (pearson, spearman):
        assert correlation([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0
        assert correlation([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize("metric", ALL)
def test_plain_floats(metric):
    assert type(metric([0, 1, 1], [0, 1, 0])) is float


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("labels", "predictions", "message"),
    [
        ([0, 1], [0], "`predictions` must be as many as `labels`. Received: 2 labels and 1 predictions"),
        ([], [], "`labels` must be a list of at least one number"),
        ([0, 1], [[0], [1]], r"`predictions` must be a list .* of shape \(2, 1\)"),
        ([0, 1], [0.5, math.nan], r"`predictions` must be finite. Received: predictions\[1\]=nan, 1 such values"),
        ([math.inf, 1], [0, 1], r"`labels` must be finite. Received: labels\[0\]=inf"),
        (["a", "b"], [0, 1], "`labels` must be numbers"),
    ],
)
def test_errors(metric, labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        metric(labels, predictions)
