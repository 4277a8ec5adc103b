"""Multi-label classification: several labels may apply to a text, or none. Reading, and thresholds of predictions.

The labels of a row are a sorted tuple of class ids.
"""

import functools
import itertools
import math

import numpy as np

from keras_bert.data.sources import finite_number, source
from keras_bert.tasks.class_names import balance, class_name, discover_labels, some
from keras_bert.tasks.examples import read_examples
from keras_bert.text.answer_settings import THRESHOLD, cuts

SEPARATOR = "|"
_SMALLEST_GAP = 1e-6  # Between the probabilities on both sides of a threshold.
_BOOLEANS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


def read_multi_label(path, text_column, pair_column=None, label_columns=(), labels=None, skip_bad_rows=None):
    """Reads `Examples` of a source, see `read_table`. Ids are row numbers from 0.

    Each of several `label_columns` is a label, and contains 0 or 1, or true or false. One column contains the labels of
    a row: separated by `|` in CSV and TSV, where an empty field means no label; a list in JSONL. Without columns, the
    rows have no labels. `labels` are the classes by id; by default, `Examples.labels` contains tuples of names, for
    `discover`.
    """
    path = source(path)
    if len(label_columns) > 1:
        read = functools.partial(_flags, columns=label_columns)
    else:
        read = functools.partial(_listed, columns=label_columns, is_json=path.typed)
    return read_examples(path, text_column, pair_column, label_columns, read, labels, skip_bad_rows)


def _flags(place, record, columns):
    """Returns the names of the columns that contain 1 or true."""
    found = []
    for column in columns:
        value = record[column]
        if class_name(value).lower() not in _BOOLEANS:
            raise ValueError(f"{place}: column `{column}` must be 0 or 1, or true or false. Received: {value!r:.100}")
        if _BOOLEANS[class_name(value).lower()]:
            found.append(column)
    return tuple(found)


def _listed(row_place, record, columns, is_json):
    """Returns the labels in the column."""
    (column,) = columns
    place, value = f"{row_place}: column `{column}`", record[column]
    if is_json and (not isinstance(value, list) or not all(isinstance(name, str | int | float) for name in value)):
        raise ValueError(f"{place} must be a list of strings or numbers. Received: {value!r:.100}")
    if not is_json:
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            raise ValueError(f"{place} must be labels separated by `|`, without brackets. Received: {value!r:.100}")
        value = value.split(SEPARATOR) if value else []
    names = [class_name(finite_number(row_place, column, name) if isinstance(name, float) else name) for name in value]
    for name in names:
        if not name or SEPARATOR in name:
            wrong = f"the label {name!r}: `|` separates labels" if name else "an empty label"
            raise ValueError(f"{place} contains {wrong}. Received: {record[column]!r:.100}")
        if names.count(name) > 1:
            raise ValueError(f"{place} contains the label {name!r} twice. Received: {record[column]!r:.100}")
    return tuple(names)


def discover(label_columns, labels):
    """Returns the classes: the columns if there are several, or else the sorted names in `labels`, a list of tuples."""
    if len(label_columns) > 1:
        return [*label_columns]
    (column,) = label_columns
    found = discover_labels(itertools.chain.from_iterable(labels), fewest=1)
    if all(len(row) == 1 for row in labels) and all(name.lower() in _BOOLEANS for name in found):
        raise ValueError(
            f"`label_column` must be several columns of 0 and 1, or one column of lists of labels. The column "
            f"`{column}` alone contains only {', '.join(found)}: use `task=classification` for a single label"
        )
    return found


def check_columns(label_columns):
    """Raises an error if columns cannot be labels."""
    for column in label_columns:
        if not column or label_columns.count(column) > 1:
            raise ValueError(f"`label_column` must be different names. Received: {','.join(label_columns)}")
        if len(label_columns) > 1 and SEPARATOR in column:
            raise ValueError(f"`label_column`: `|` separates labels in predictions. Rename the column {column!r}")


def summary(labels, names):
    """Summarizes labels: rows and share of each label, labels per row, rows without a label."""
    counts = balance(list(itertools.chain.from_iterable(labels)), names, total=len(labels))
    mean, empty = sum(map(len, labels)) / len(labels), labels.count(())
    return f"{counts}; {mean:.2f} labels per row; rows without a label: {empty:,} ({empty / len(labels):.1%})"


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
