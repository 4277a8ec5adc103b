"""Names of the classes of a model."""

import numbers

import numpy as np


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
