"""Metrics of predictions, based on SciPy and scikit-learn. Undefined scores are 0."""

import numpy as np


def accuracy(labels, predictions):
    """The fraction of predictions that equal their labels."""
    labels, predictions = _checked(labels, predictions)
    return float(np.mean(labels == predictions))


def f1(labels, predictions, positive=1):
    """Harmonic mean of precision and recall of the class `positive`; 0 if it is neither a label nor predicted."""
    from sklearn.metrics import f1_score

    labels, predictions = _checked(labels, predictions)
    score = f1_score(
        labels,
        predictions,
        labels=[positive],
        average="macro",
        zero_division=0.0,
    )
    return float(score)


def macro_f1(labels, predictions):
    """The mean F1 over all classes that occur in the labels or predictions.

    For several labels per row, arrays of 0 and 1 `(rows, labels)`, the mean over all labels.
    """
    from sklearn.metrics import f1_score

    labels, predictions = _checked(labels, predictions, ranks=(1, 2))
    if labels.ndim == 2:
        right = (labels * predictions).sum(0)
        totals = (labels + predictions).sum(0)
        return float(np.mean(2 * right / np.maximum(totals, 1)))
    return float(f1_score(labels, predictions, average="macro"))


def micro_f1(labels, predictions):
    """F1 over all labels of all rows, arrays of 0 and 1 `(rows, labels)`; 0 if there are none."""
    labels, predictions = _checked(labels, predictions, ranks=(2,))
    right = (labels * predictions).sum()
    total = (labels + predictions).sum()
    return float(2 * right / max(total, 1))


def exact_match(labels, predictions):
    """The fraction of rows whose labels are all correct; both are arrays of 0 and 1 `(rows, labels)`."""
    labels, predictions = _checked(labels, predictions, ranks=(2,))
    return float((labels == predictions).all(-1).mean())


def matthews_correlation(labels, predictions):
    """Matthews correlation coefficient, -1 to 1, for any number of classes (Gorodkin, 2004).

    Returns 0 if all labels or all predictions are the same class.
    """
    from sklearn.metrics import matthews_corrcoef

    labels, predictions = _checked(labels, predictions)
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


def pearson(labels, predictions):
    """Pearson correlation, -1 to 1; 0 if all labels or all predictions are equal, where SciPy returns NaN."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, labels, predictions)


def spearman(labels, predictions):
    """Spearman correlation, with mean ranks for ties; 0 if all labels or all predictions are equal."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, labels, predictions)


def _correlation(function, labels, predictions):
    """Returns the statistic of a function of SciPy; 0 if it is not defined."""
    labels, predictions = _checked(labels, predictions)
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(function(labels, predictions).statistic)


def _is_constant(values):
    return bool(np.all(values == values[0]))


def _checked(labels, predictions, ranks=(1,)):
    """Returns both as float64, which represents class indices exactly."""
    labels = _as_numbers("labels", labels, ranks)
    predictions = _as_numbers("predictions", predictions, [labels.ndim])
    if labels.shape != predictions.shape:
        raise ValueError(
            "`predictions` and `labels` must have the same shape. "
            f"Received: labels of shape {labels.shape} and predictions of shape {predictions.shape}"
        )
    return labels, predictions


def _as_numbers(name, values, ranks):
    """Returns values as a float64 array of one of the ranks, without NaN and infinity."""
    values = np.asarray(values)
    if values.ndim not in ranks or not values.size:
        described = {1: "a list of at least one number", 2: "an array (rows, labels) of 0 and 1"}
        expected = " or ".join(described[rank] for rank in ranks)
        raise ValueError(f"`{name}` must be {expected}. Received: {name} of shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` must be numbers. Received: {name} of type {values.dtype}")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"`{name}` must be finite. Received: {name}[{bad[0]}]={values[bad[0]]}, {bad.size} such values"
        )
    return values.astype("float64")
