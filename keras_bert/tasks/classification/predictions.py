"""Predictions of classes, labels or numbers: from logits, their scores, and their tables; thresholds of labels."""

import itertools

import numpy as np

from keras_bert.heads.class_settings import THRESHOLD, cuts
from keras_bert.tasks.class_names import some
from keras_bert.tasks.classification.examples import SEPARATOR
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
    if task.labels:
        return logits.argmax(-1).tolist()
    return logits[:, 0].tolist()


def same_prediction(task, logits, thresholds=THRESHOLD):
    """Returns the labels or the score that are predicted for every row; `None` if the predictions differ."""
    predictions = predict(task, logits, thresholds)
    if task.multi_label:
        if (predictions != predictions[0]).any():
            return None
        return ", ".join(_chosen_labels(task.labels, predictions[0])) or "no label"
    first, *others = set(predictions)
    if others:
        return None
    return str(task.labels[first]) if task.labels else str(first)


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
    chosen = []
    for number, row in enumerate(probabilities):
        is_answered = answered is None or answered[number]
        chosen.append(str(labels[row.argmax()]) if is_answered else "")
    return _lines_of_table("label", labels, chosen, probabilities)


def multi_label_table(predicted, labels, probabilities):
    """Returns lines of multi-label predictions: the predicted labels, joined by `|`, and the probabilities of all.

    `predicted`, bool, and `probabilities` are arrays `(rows, labels)`.
    """
    chosen = [SEPARATOR.join(_chosen_labels(labels, row)) for row in predicted]
    return _lines_of_table("labels", labels, chosen, probabilities)


def _chosen_labels(labels, is_chosen):
    """Returns the names of the labels where `is_chosen`, bools for each label, is true."""
    return [str(label) for label, is_in in zip(labels, is_chosen, strict=True) if is_in]


def _lines_of_table(title, labels, chosen, probabilities):
    """Returns the header and a line for each row: its `chosen` name and the probabilities of all labels."""
    header = [title]
    for label in labels:
        header.append(quoted(str(label)))
    lines = ["\t".join(header)]
    for name, row in zip(chosen, probabilities, strict=True):
        cells = [quoted(name)]
        for value in row:
            cells.append(f"{value:.4f}")
        lines.append("\t".join(cells))
    return lines


def with_columns(lines, columns):
    """Appends columns of texts, by name, to the lines of a table with a header; `None` is no column."""
    cells = []
    for name, texts in columns.items():
        if texts is not None:
            cells.append([name, *texts])
    longer = []
    for line, *row in zip(lines, *cells, strict=True):
        longer.append("\t".join([line, *map(quoted, row)]))
    return longer


def quoted(field):
    """Quotes a field of a tab-separated table if necessary, readable by `csv` (`excel-tab`) and spreadsheets."""
    if field and field[0] != '"' and not any(char in field for char in "\t\n\r"):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def dense(labels, classes):
    """Returns tuples of class ids as an array of 0 and 1, `(rows, classes)`."""
    flags = np.zeros([len(labels), classes], np.int32)
    rows = np.repeat(np.arange(len(labels)), list(map(len, labels)))
    ids = np.fromiter(itertools.chain.from_iterable(labels), int, len(rows))
    flags[rows, ids] = 1
    return flags


def most_frequent(labels):
    """Returns the labels with the highest micro F1 if the same ones are predicted for every row: a tuple of ids."""
    ids, counts = np.unique(list(itertools.chain.from_iterable(labels)), return_counts=True)
    if not len(ids):
        return ()
    order = np.argsort(-counts, kind="stable")
    hits = np.cumsum(counts[order])  # If the first one, two, ... of the ids are predicted.
    predictions = np.arange(1, len(ids) + 1) * len(labels)
    scores = 2 * hits / (predictions + counts.sum())
    best = ids[order][: np.argmax(scores) + 1]
    return tuple(sorted(best.astype(int).tolist()))


def choose_thresholds(choice, labels, logits):
    """Returns the thresholds with the highest F1: a float, or a list of floats for "per_label".

    They are 0.5 for labels that do not occur, and if no other threshold is better. `choice` is "shared", one threshold
    for all labels, by micro F1; "per_label", one for each, by its own F1; or the threshold as a number, or a list of
    those of all labels, which is returned. `labels` (0 and 1) and `logits` are arrays `(rows, classes)`.
    """
    labels = np.asarray(labels, bool)
    logits = np.asarray(logits, "float64")
    if choice == "per_label":
        thresholds = []
        for column_labels, column_logits in zip(labels.T, logits.T, strict=True):
            thresholds.append(_best_threshold(column_labels, column_logits))
        return thresholds
    if choice == "shared":
        return _best_threshold(labels.ravel(), logits.ravel())
    return choice if isinstance(choice, list) else float(choice)


def _best_threshold(labels, logits):
    """Returns a threshold between two probabilities, with as few decimals as possible."""
    order = np.argsort(-logits, kind="stable")
    sorted_probabilities = probabilities(logits[order])
    hits = np.cumsum(labels[order])
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
    texts = [f"{name} {value:g}" for name, value in zip(names, thresholds, strict=True)]
    return some(texts, most=20)


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
    occurring = np.count_nonzero(counts)
    weights = []
    for count in counts:
        weights.append(float(len(labels) / (occurring * count)) if count else 1.0)
    return weights
