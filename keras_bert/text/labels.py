"""Names of the classes of a model, and thresholds of their probabilities."""

import numbers

import numpy as np

from keras_bert.checks import is_finite

THRESHOLD = 0.5


def checked_labels(labels, classes):
    """Returns the labels, `classes` different strings or numbers in the order of the logits, as strings; or `None`."""
    if labels is None:
        return None
    given = list(labels) if np.iterable(labels) and not isinstance(labels, str | bytes | dict) else []
    names = [label.decode() if isinstance(label, bytes) else str(label) for label in given]
    are_names = all(isinstance(label, str | bytes | numbers.Number | np.generic) for label in given)
    if not are_names or not len(names) == len(set(names)) == classes:
        raise ValueError(
            f"`labels` must be {classes} different names, in the order of the logits. Received: labels={labels!r:.200}"
        )
    return names


def placeholders(classes):
    """Returns the names of classes that have none, those of transformers."""
    return [f"LABEL_{index}" for index in range(classes)]


def cuts(thresholds):
    """Returns the logits that belong to thresholds, as float64."""
    thresholds = np.asarray(thresholds, "float64")
    return np.log(thresholds) - np.log1p(-thresholds)


def checked_thresholds(thresholds, classes):
    """Returns the thresholds of a model as a float or a list of floats, or `None`.

    `thresholds` is a number between 0 and 1 for all labels, a list or array of one for each, or `None`; `classes` is
    the number of classes of a multi-label model, `None` for other models.
    """
    if thresholds is None:
        return None
    is_number = isinstance(thresholds, numbers.Real)
    values = [thresholds] if is_number else list(thresholds) if np.iterable(thresholds) else [None]
    valid = all(isinstance(value, numbers.Real) and 0 < value < 1 for value in values)
    if classes is None or not valid or not (is_number or len(values) == classes):
        expected = f"a number between 0 and 1, or a list of {classes}, one for each label"
        expected = expected if classes else "None for a model that is not multi-label"
        raise ValueError(f"`thresholds` must be {expected}. Received: thresholds={thresholds!s:.200}")
    return float(thresholds) if is_number else [float(value) for value in values]


def checked_null_threshold(threshold):
    """Returns the threshold for no answer, a number or `None`, as a float."""
    if threshold is not None and not is_finite(threshold):
        raise ValueError(f"`null_threshold` must be a finite number or `None`. Received: null_threshold={threshold!r}")
    return None if threshold is None else float(threshold)
