"""Predictions of classes, labels or numbers: from logits, their scores, and their tables; thresholds of labels."""

import itertools

import numpy as np

from keras_bert.heads.class_settings import THRESHOLD, cuts
from keras_bert.tasks.class_names import some
from keras_bert.tasks.classification.data import SEPARATOR
from keras_bert.tasks.logits import finite, softmax

_SMALLEST_GAP = 1e-6  # Between the probabilities on both sides of a threshold.


def predict(task, logits, thresholds=THRESHOLD):
    """Converts `logits` `(rows, num_classes)` to class ids, or to scores for regression.

    For multi-label classification, returns a bool array `(rows, num_classes)`; `thresholds` are those of the
    probabilities, one for all labels or one for each.
    """
    logits = finite(logits)
    if logits.ndim != 2 or logits.shape[1] != task.num_classes:
        raise ValueError(f"`logits` must have shape (rows, {task.num_classes}). Received: shape {logits.shape}")
    if task.multi_label:
        return predicted(logits, thresholds)
    return logits.argmax(-1).tolist() if task.labels else logits[:, 0].tolist()


def same_prediction(task, logits, thresholds=THRESHOLD):
    """Returns the labels or the score that are predicted for every row; `None` if the predictions differ."""
    predictions = predict(task, logits, thresholds)
    if task.multi_label:
        names = [label for label, predicted in zip(task.labels, predictions[0], strict=True) if predicted]
        return None if (predictions != predictions[0]).any() else ", ".join(names) or "no label"
    first, *others = set(predictions)
    return None if others else str(task.labels[first] if task.labels else first)


def score(task, labels, logits, thresholds=THRESHOLD):
    """Computes the task's metrics by name, 0 to 1 (correlations from -1), main metric first.

    For multi-label classification, `labels` are tuples of class ids or an array of 0 and 1, `(rows, num_classes)`.
    """
    predictions = predict(task, logits, thresholds)
    if task.multi_label and not isinstance(labels, np.ndarray):
        labels = dense(labels, task.num_classes)
    return {metric.__name__: metric(labels, predictions) for metric in task.metrics}


def predictions_table(logits, labels, threshold=None):
    """Returns tab-separated lines with a header: predicted class and all probabilities, or the regression value.

    The class is empty where its probability is below the `threshold`.
    """
    if not len(labels):
        return ["value", *(f"{score:.6g}" for score in logits[:, 0])]
    probabilities = softmax(logits)
    answered = None if threshold is None else probabilities.max(-1) >= threshold
    return probabilities_table(probabilities, labels, answered)


def probabilities_table(probabilities, labels, answered=None):
    """Returns the lines of `predictions_table` for probabilities `(rows, classes)`; `answered` are bools or `None`."""
    chosen = [str(labels[row.argmax()]) for row in probabilities]
    if answered is not None:
        chosen = [name if is_answered else "" for name, is_answered in zip(chosen, answered, strict=True)]
    return _table("label", labels, chosen, probabilities)


def multi_label_table(predicted, labels, probabilities):
    """Returns lines of multi-label predictions: the predicted labels, joined by `|`, and the probabilities of all.

    `predicted`, bool, and `probabilities` are arrays `(rows, labels)`.
    """
    chosen = [
        SEPARATOR.join(str(label) for label, is_in in zip(labels, row, strict=True) if is_in) for row in predicted
    ]
    return _table("labels", labels, chosen, probabilities)


def _table(title, labels, chosen, probabilities):
    header = [title, *(quoted(str(label)) for label in labels)]
    rows = [[quoted(name), *(f"{value:.4f}" for value in row)] for name, row in zip(chosen, probabilities, strict=True)]
    return ["\t".join(row) for row in [header, *rows]]


def with_columns(lines, columns):
    """Appends columns of texts, by name, to the lines of a table with a header; `None` is no column."""
    columns = [[name, *texts] for name, texts in columns.items() if texts is not None]
    return ["\t".join([line, *map(quoted, row)]) for line, *row in zip(lines, *columns, strict=True)]


def quoted(field):
    """Quotes a field of a tab-separated table if necessary, readable by `csv` (`excel-tab`) and spreadsheets."""
    if field and field[0] != '"' and not any(char in field for char in "\t\n\r"):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def dense(labels, classes):
    """Returns tuples of class ids as an array of 0 and 1, `(rows, classes)`."""
    found = np.zeros([len(labels), classes], np.int32)
    rows = np.repeat(np.arange(len(labels)), list(map(len, labels)))
    found[rows, np.fromiter(itertools.chain.from_iterable(labels), int, len(rows))] = 1
    return found


def most_frequent(labels):
    """Returns the labels with the highest micro F1 if the same ones are predicted for every row: a tuple of ids."""
    ids, counts = np.unique(list(itertools.chain.from_iterable(labels)), return_counts=True)
    if not len(ids):
        return ()
    order = np.argsort(-counts, kind="stable")
    scores = 2 * np.cumsum(counts[order]) / (np.arange(1, len(ids) + 1) * len(labels) + counts.sum())
    return tuple(sorted(ids[order][: np.argmax(scores) + 1].astype(int).tolist()))


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


def predicted(logits, thresholds):
    """Returns which labels are predicted, a bool array `(rows, labels)`."""
    return np.asarray(logits) >= cuts(thresholds)


def probabilities(logits):
    """Returns the sigmoids of logits, in float64."""
    from scipy.special import expit  # Commands list their flags without it.

    return expit(np.asarray(logits, "float64"))


def balanced_weights(labels, classes):
    """Returns a weight for each class, `rows / (classes that occur * rows of the class)`, so that all count equally."""
    counts = np.bincount(labels, minlength=classes)
    return [float(len(labels) / (np.count_nonzero(counts) * count)) if count else 1.0 for count in counts]
