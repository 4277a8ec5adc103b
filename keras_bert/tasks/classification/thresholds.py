"""Thresholds of multi-label classification: their choice on dev, and predictions with them."""

import math

import numpy as np

from keras_bert.tasks.class_names import some
from keras_bert.text.answer_settings import THRESHOLD, cuts

_SMALLEST_GAP = 1e-6  # Between the probabilities on both sides of a threshold.


def choose_thresholds(choice, labels, logits):
    """Returns the thresholds with the highest F1: a float, or a list of floats for "per_label".

    They are 0.5 for labels that do not occur, and if no other threshold is better. `choice` is "shared", one threshold
    for all labels, by micro F1; "per_label", one for each, by its own F1; or the threshold as a number, or a list of
    those of all labels, which is returned. `labels` (0 and 1) and `logits` are arrays `(rows, classes)`.
    """
    labels, logits = np.asarray(labels, bool), np.asarray(logits, "float64")
    if choice == "per_label":
        return [_best_threshold(*column) for column in zip(labels.T, logits.T, strict=True)]
    if choice == "shared":
        return _best_threshold(labels.ravel(), logits.ravel())
    return choice if isinstance(choice, list) else float(choice)


def _best_threshold(labels, logits):
    """Returns a threshold between two probabilities, with as few decimals as possible."""
    order = np.argsort(-logits, kind="stable")
    sorted_probabilities, hits = probabilities(logits[order]), np.cumsum(labels[order])
    scores = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
    usual = np.count_nonzero(logits >= 0)  # Labels that 0.5 predicts.
    below = np.append(sorted_probabilities[1:], 0.0)
    possible = sorted_probabilities - below > _SMALLEST_GAP
    if not hits[-1] or not possible.any():
        return THRESHOLD
    best = np.where(possible, scores, -1.0).max()
    if usual and scores[usual - 1] >= best - 1e-12:
        return THRESHOLD
    ends = np.flatnonzero(possible & (scores >= best - 1e-12))
    end = ends[np.argmin(abs(ends + 1 - usual))]  # The closest to 0.5.
    return _shortest(below[end], sorted_probabilities[end])


def _shortest(low, high):
    """Returns the number between two probabilities with the fewest decimals, closest to their middle."""
    for digits in range(1, 9):
        number = round((low + high) / 2, digits)
        if low < number < high:
            return number
    return (low + high) / 2


def threshold_text(thresholds, names):
    """Formats thresholds in one line, those of many labels in part."""
    if np.ndim(thresholds) == 0:
        return f"{thresholds:g}"
    return some([f"{name} {value:g}" for name, value in zip(names, thresholds, strict=True)], most=20)


def parse_threshold(value):
    """Reads the flag `--threshold`: "shared", "per_label", or a number between 0 and 1."""
    if value in ("shared", "per_label"):
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < 1:
        raise ValueError(
            f"`threshold` must be shared, per_label, or a number between 0 and 1. Received: threshold={value}"
        )
    return number


def predicted(logits, thresholds):
    """Returns which labels are predicted, a bool array `(rows, labels)`."""
    return np.asarray(logits) >= cuts(thresholds)


def probabilities(logits):
    """Returns the sigmoids of logits, in float64."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(logits, "float64")))
