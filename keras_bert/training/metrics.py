"""Scores of predictions, in NumPy alone. What is not defined is 0, as a scorer must give a number."""

import numpy as np


def accuracy(labels, predictions):
    """The share of predictions that equal their labels."""
    labels, predictions = _checked(labels, predictions)
    return float(np.mean(labels == predictions))


def f1(labels, predictions, positive=1):
    """Harmonic mean of precision and recall of the class `positive`; 0 if it is neither a label nor predicted."""
    labels, predictions = _checked(labels, predictions)
    found = np.sum((labels == positive) & (predictions == positive))
    total = np.sum(labels == positive) + np.sum(predictions == positive)
    return float(2 * found / total) if total else 0.0


def macro_f1(labels, predictions):
    """The mean of F1 over all classes that are a label or predicted."""
    labels, predictions = _checked(labels, predictions)
    return float(np.mean([f1(labels, predictions, kind) for kind in np.union1d(labels, predictions)]))


def matthews_correlation(labels, predictions):
    """Correlation of two classifications, -1 to 1, for any number of classes (Gorodkin, 2004).

    It is 0 if all labels or all predictions are of one class.
    """
    labels, predictions = _checked(labels, predictions)
    _, classes = np.unique(np.concatenate([labels, predictions]), return_inverse=True)
    size = len(labels)
    true = np.bincount(classes[:size], minlength=classes.max() + 1).astype("float64")
    predicted = np.bincount(classes[size:], minlength=classes.max() + 1).astype("float64")
    covariance = size * np.sum(labels == predictions) - true @ predicted
    # Counts are whole numbers: the variance of a single class is exactly 0.
    variances = size**2 - true @ true, size**2 - predicted @ predicted
    return float(covariance / np.sqrt(variances[0]) / np.sqrt(variances[1])) if all(variances) else 0.0


def pearson(labels, predictions):
    """Linear correlation, -1 to 1; 0 if all labels or all predictions are the same, where SciPy gives NaN."""
    labels, predictions = _checked(labels, predictions)
    if np.all(labels == labels[0]) or np.all(predictions == predictions[0]):
        return 0.0
    return float(np.clip(_unit(labels) @ _unit(predictions), -1, 1))


def spearman(labels, predictions):
    """The linear correlation of the ranks, equal values sharing their mean rank; 0 where `pearson` is."""
    labels, predictions = _checked(labels, predictions)
    return pearson(_ranks(labels), _ranks(predictions))


def _unit(values):
    """Centred, of length 1; scaled first, so that no square overflows or vanishes."""
    values = values / np.abs(values).max()
    values = values - values.mean()
    values = values / np.abs(values).max()
    return values / np.linalg.norm(values)


def _ranks(values):
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


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
