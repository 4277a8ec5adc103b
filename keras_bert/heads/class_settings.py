"""Settings of the classes of a model: their names, and the thresholds from which on they are answered."""

import numbers

import numpy as np

from keras_bert.checks import is_finite

THRESHOLD = 0.5


def checked_labels(labels, classes):
    """Returns the labels, `classes` different strings or numbers in the order of the logits, as strings; or `None`."""
    if labels is None:
        return None
    names = []
    if np.iterable(labels) and not isinstance(labels, str | bytes | dict):
        names = [_name_of_class(label) for label in labels]
    is_complete = len(names) == len(set(names)) == classes
    if None in names or not is_complete:
        raise ValueError(
            f"`labels` must be {classes} different names, in the order of the logits. Received: labels={labels!r:.200}"
        )
    return names


def _name_of_class(label):
    """Returns a label as a string, or `None` if it can be no name."""
    if isinstance(label, bytes):
        return label.decode()
    if isinstance(label, str | numbers.Number | np.generic):
        return str(label)
    return None


def placeholders(classes):
    """Returns the names of classes that have none, those of transformers."""
    return [f"LABEL_{index}" for index in range(classes)]


def checked_thresholds(thresholds, classes):
    """Returns the thresholds of a model as a float or a list of floats, or `None`.

    `thresholds` is a number between 0 and 1 for all labels, a list or array of one for each, or `None`; `classes` is
    the number of classes of a multi-label model, `None` for other models.
    """
    if thresholds is None:
        return None
    if classes is None:
        raise _refused_thresholds(thresholds, "None for a model that is not multi-label")
    expected = f"a number between 0 and 1, or a list of {classes}, one for each label"
    if _is_threshold(thresholds):
        return float(thresholds)
    if not np.iterable(thresholds):
        raise _refused_thresholds(thresholds, expected)
    values = list(thresholds)
    if len(values) != classes or not all(_is_threshold(value) for value in values):
        raise _refused_thresholds(thresholds, expected)
    return [float(value) for value in values]


def _is_threshold(value):
    return isinstance(value, numbers.Real) and 0 < value < 1


def _refused_thresholds(thresholds, expected):
    return ValueError(f"`thresholds` must be {expected}. Received: thresholds={thresholds!s:.200}")


def cuts(thresholds):
    """Returns the logits that belong to thresholds, as float64."""
    thresholds = np.asarray(thresholds, "float64")
    return np.log(thresholds) - np.log1p(-thresholds)


def checked_null_threshold(threshold):
    """Returns the threshold for no answer, a number or `None`, as a float."""
    if threshold is None:
        return None
    if not is_finite(threshold):
        raise ValueError(f"`null_threshold` must be a finite number or `None`. Received: null_threshold={threshold!r}")
    return float(threshold)
