"""Logits of several models as one."""

import numpy as np


def mean_logits(logits):
    """Returns logits whose softmax is the mean of the models' probabilities; for regression, the mean logits.

    Args:
        logits: list of arrays `(rows, classes)`, one for each model.
    """
    logits = np.stack(logits).astype("float64")
    if logits.shape[-1] == 1:
        return logits.mean(0)
    logits -= np.logaddexp.reduce(logits, -1, keepdims=True)
    return np.logaddexp.reduce(logits, 0) - np.log(len(logits))


def mean_sigmoids(logits):
    """Returns logits whose sigmoid is the mean of the models' probabilities; for the arguments see `mean_logits`."""
    logits = np.stack(logits).astype("float64")
    present, absent = (np.logaddexp.reduce(-np.logaddexp(0, sign * logits), 0) for sign in (-1, 1))
    return present - absent
