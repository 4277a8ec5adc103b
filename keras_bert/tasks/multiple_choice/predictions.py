"""Predictions of multiple choice: probabilities, scores, and the lines of a file."""

import numpy as np

from keras_bert.tasks.logits import finite, softmax
from keras_bert.training.metrics import accuracy


def predict(logits):
    """Returns the index of the likeliest choice of each row."""
    return finite(logits).argmax(-1)


def score(labels, logits):
    """Returns the accuracy, from 0 to 1, as a dict."""
    return {"accuracy": accuracy(labels, predict(logits))}


def table(logits, choices, keys):
    """Returns tab-separated lines with a header: predicted label, and the probability of each choice.

    `logits` are `(rows, choices)`, `keys` the labels of the choices; the cell of an absent choice is empty.
    """
    keys = keys[: np.shape(logits)[1]]
    lines = ["\t".join(["label", *keys])]
    for best, shares, row in zip(predict(logits), softmax(logits), choices, strict=True):
        present = [bool(choice) for choice in row] + [False] * (len(keys) - len(row))
        cells = [f"{share:.4f}" if real else "" for share, real in zip(shares, present, strict=True)]
        lines.append("\t".join([keys[best], *cells]))
    return lines
