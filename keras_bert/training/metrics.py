"""Metrics of predictions, by SciPy and scikit-learn. An undefined score is 0, as a scorer must give a number."""

import numpy as np


def accuracy(labels, predictions):
    """The share of predictions that equal their labels."""
    labels, predictions = _checked(labels, predictions)
    return float(np.mean(labels == predictions))


def f1(labels, predictions, positive=1):
    """Harmonic mean of precision and recall of the class `positive`; 0 if it is neither a label nor predicted."""
    from sklearn.metrics import f1_score

    labels, predictions = _checked(labels, predictions)
    return float(f1_score(labels, predictions, labels=[positive], average="macro", zero_division=0.0))


def macro_f1(labels, predictions):
    """The mean of F1 over all classes that are a label or predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(*_checked(labels, predictions), average="macro"))


def matthews_correlation(labels, predictions):
    """Correlation of two classifications, -1 to 1, for any number of classes (Gorodkin, 2004).

    It is 0 if all labels or all predictions are of one class.
    """
    from sklearn.metrics import matthews_corrcoef

    labels, predictions = _checked(labels, predictions)
    return 0.0 if _is_constant(labels) or _is_constant(predictions) else float(matthews_corrcoef(labels, predictions))


def pearson(labels, predictions):
    """Linear correlation, -1 to 1; 0 if all labels or all predictions are equal, where SciPy gives NaN."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, labels, predictions)


def spearman(labels, predictions):
    """The linear correlation of the ranks, equal values sharing their mean rank; 0 where `pearson` is."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, labels, predictions)


def _correlation(function, labels, predictions):
    labels, predictions = _checked(labels, predictions)
    return 0.0 if _is_constant(labels) or _is_constant(predictions) else float(function(labels, predictions).statistic)


def _is_constant(values):
    return bool(np.all(values == values[0]))


def _checked(labels, predictions):
    """Both as float64, which class numbers fit exactly."""
    labels, predictions = _numbers("labels", labels), _numbers("predictions", predictions)
    if len(labels) != len(predictions):
        raise ValueError(
            "`predictions` must be as many as `labels`. "
            f"Received: {len(labels)} labels and {len(predictions)} predictions"
        )
    return labels, predictions


def _numbers(name, values):
    values = np.asarray(values)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"`{name}` must be a list of at least one number. Received: {name} of shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` must be numbers. Received: {name} of type {values.dtype}")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"`{name}` must be finite. Received: {name}[{bad[0]}]={values[bad[0]]}, {bad.size} such values"
        )
    return values.astype("float64")
