"""Logits of a task: of several models as one, as probabilities, and whether a training has diverged."""

import numpy as np


def mean_logits(logits):
    """Returns logits whose softmax is the mean of the models' probabilities; for regression, the mean logits."""
    logits = np.stack(logits).astype("float64")
    if logits.shape[-1] == 1:
        return logits.mean(0)
    logits -= np.logaddexp.reduce(logits, -1, keepdims=True)
    return np.logaddexp.reduce(logits, 0) - np.log(len(logits))


def mean_sigmoids(logits):
    """Returns logits whose sigmoid is the mean of the models' probabilities; for the arguments see `mean_logits`."""
    logits = np.stack(logits).astype("float64")
    # Sums of the probabilities of the models, as logarithms.
    present = np.logaddexp.reduce(-np.logaddexp(0, -logits), 0)
    absent = np.logaddexp.reduce(-np.logaddexp(0, logits), 0)
    return present - absent


def finite(logits):
    """Returns logits as an array, or raises a FloatingPointError if a training has diverged."""
    logits = np.asarray(logits)
    if not np.isfinite(logits).all():
        raise FloatingPointError("`logits` must be finite. Received: NaN or infinity: the training has diverged")
    return logits


def softmax(logits):
    """Returns the probabilities of the last axis, in float64."""
    logits = np.asarray(logits, "float64")
    return np.exp(logits - np.logaddexp.reduce(logits, -1, keepdims=True))
