"""Metrics, with scores derived by hand; those of several labels are in tests/tasks/classification."""

import math

import numpy as np
import pytest

from keras_bert.training.metrics import accuracy, f1, macro_f1, matthews_correlation, pearson, spearman

ALL = [accuracy, f1, macro_f1, matthews_correlation, pearson, spearman]


def test_metrics_of_classes():
    """Class 0 has precision 1 and recall 2/3, class 1 twice 1/2, class 2 precision 1/2 and recall 1; 3 is missing."""
    labels = [0, 0, 0, 1, 1, 2]
    predictions = [0, 0, 1, 1, 2, 2]
    assert accuracy(labels, predictions) == pytest.approx(4 / 6)
    scores = [f1(labels, predictions, positive) for positive in range(4)]
    assert scores == pytest.approx([0.8, 0.5, 2 / 3, 0])
    assert macro_f1(labels, predictions) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)
    # With the counts (3, 2, 1) and (2, 2, 2).
    expected = (6 * 4 - 12) / math.sqrt((36 - 14) * (36 - 12))
    assert matthews_correlation(labels, predictions) == pytest.approx(expected)


def test_correlations():
    """The deviations are (-1, 0, 1) and (-4, -1, 5) / 3; the ranks of the ties are 2.5."""
    expected = pytest.approx(3 / math.sqrt(2 * 42 / 9))
    assert pearson([1, 2, 3], [1, 2, 4]) == expected
    large = np.array([1, 2, 3]) * 1e200
    small = np.array([1, 2, 4]) * 1e-200
    assert pearson(large, small) == expected
    assert spearman([1, 2, 2, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_undefined_scores_are_0():
    for metric in (matthews_correlation, pearson, spearman):
        assert metric([1, 1, 1], [0, 1, 0]) == 0
        assert metric([0, 1, 0], [1, 1, 1]) == 0
        assert metric([1, 1], [1, 1]) == 0
        assert metric([1], [0]) == 0
    assert f1([0, 0], [0, 0]) == 0
    assert pearson([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0
    assert spearman([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize("metric", ALL)
def test_scores_are_plain_floats(metric):
    assert type(metric([0, 1, 1], [0, 1, 0])) is float


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("labels", "predictions", "message"),
    [
        ([0, 1], [0], "`predictions` and `labels` must have the same shape. Received: labels of shape "),
        ([], [], "`labels` must be a list of at least one number"),
        ([0, 1], [[0], [1]], r"`predictions` must be a list .* of shape \(2, 1\)"),
        ([0, 1], [0.5, math.nan], r"`predictions` must be finite. Received: predictions\[1\]=nan, 1 such values"),
        (["a", "b"], [0, 1], "`labels` must be numbers"),
    ],
)
def test_wrong_rows(metric, labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        metric(labels, predictions)
