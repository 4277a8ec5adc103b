"""A user's own data: CSV, TSV or JSONL with a column of text, optionally a second one, and optionally labels.

CSV is quoted as by spreadsheets (RFC 4180), with commas, semicolons or tabs between the columns. TSV has one line per
row, as in GLUE; quotes are literal, unless every field that begins with one is quoted as a whole. Text with tabs or
line breaks needs CSV or JSONL. The first line of CSV and TSV names the columns.

Class names are those of the files, stripped: JSON's `true` is "true", its numbers 1 and 1.0 are "1".
"""

import collections
import dataclasses
import functools
import math
import pathlib
import re

import numpy as np

from keras_bert.tasks.rows import good_rows, read_rows, valid_text


@dataclasses.dataclass(frozen=True)
class Examples:
    """The rows of a data set. Arrays become lists.

    Args:
        text: list of strings.
        pair: list of strings, the second sentences, or `None`.
        labels: list of class ids, of floats for regression, or of strings where the classes are unknown; or `None`.
        ids: list of ints, the ids of the rows.
    """

    text: list
    pair: list | None
    labels: list | None
    ids: list

    def __post_init__(self):
        for name in ("text", "pair", "labels", "ids"):
            column = getattr(self, name)
            if column is not None:
                object.__setattr__(self, name, as_list(column))

    def __len__(self):
        return len(self.text)

    def first(self, count):
        """The first `count` rows; all of them for `None`."""
        if count is not None and count < 1:
            raise ValueError(f"`count` must be at least 1. Received: count={count}")
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Examples(*(column and column[:count] for column in columns))


def as_list(values):
    """A list of Python's own numbers and strings out of an array, or of what else can be gone through."""
    return values if isinstance(values, list) else values.tolist() if hasattr(values, "tolist") else list(values)


def read_table(
    path, text_column, pair_column=None, label_column=None, labels=None, regression=False, skip_bad_rows=None
):
    """Reads a `.csv`, `.tsv` or `.jsonl` file in UTF-8.

    Args:
        path: the file.
        text_column, pair_column, label_column: the columns of the first sentence, the second one, and the label.
        labels: the classes by id. Without them `Examples.labels` has strings, for `discover_labels`.
        regression: bool, whether labels are numbers.
        skip_bad_rows: int, the number of rows without text, label or all columns that are skipped with a warning
            before it is an error. An unknown label is always an error. `None`: every row is needed.

    Returns:
        `Examples`; their ids are the row numbers from 0.
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    numbers = _numbers(labels)
    path, columns = pathlib.Path(path), (text_column, pair_column, label_column)
    raw_rows, parse = read_rows(path, [column for column in columns if column is not None])
    row = functools.partial(_row, path, parse, columns, regression)
    lines, ids, rows = zip(*good_rows(path, raw_rows, row, skip_bad_rows), strict=True)
    text, pair, found = map(list, zip(*rows, strict=True))
    if numbers is not None and label_column is not None:
        found = [class_number(path, line, label, numbers) for line, label in zip(lines, found, strict=True)]
    return Examples(text, pair if pair_column is not None else None, found if label_column is not None else None, ids)


def _row(path, parse, columns, regression, line, raw):
    """Text, pair and label of a row, `None` without a column."""
    (text, pair, label), record = columns, parse(line, raw)
    return (
        _text(path, line, record, text),
        None if pair is None else _text(path, line, record, pair),
        None if label is None else _label(path, line, record, label, regression),
    )


def _numbers(labels):
    """The number of each class by name."""
    if labels is None:
        return None
    names = list(map(class_name, labels))
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        raise ValueError(f"`labels` must have each name once. Received: {names}")
    return numbers


def class_name(label):
    """The name of a class that a file or a caller gives as a string, a number or a truth value."""
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    return valid_text(str(label)).strip()


def discover_labels(labels):
    """The different labels, sorted: as numbers if all are whole numbers, otherwise as strings."""
    found = set(map(class_name, labels))
    if len(found) < 2:
        raise ValueError(f"`labels` must have two classes at least. Received: {sorted(found)}")
    for label in sorted(found):
        whole, _, _ = label.partition(".")
        if whole in found and re.fullmatch(r"-?[0-9]+\.0+", label):
            raise ValueError(f"`labels` has the number {whole} also as {label}. Write it one way, for one class")
    whole = all(re.fullmatch(r"-?[0-9]+", label) for label in found)
    return sorted(found, key=lambda label: (int(label) if whole else 0, label))


def balance(labels, names=None):
    """A line about labels: each class (of `names`) with count and share, the largest first, or the range of floats."""
    labels, names = as_list(labels), as_list(() if names is None else names)
    if not labels:
        return "no labels"
    if all(isinstance(label, float) for label in labels):
        mean = math.fsum(labels) / len(labels)
        return f"{len(labels):,} numbers from {min(labels):g} to {max(labels):g}, mean {mean:.4g}"
    counts = collections.Counter(str(names[label] if names else label) for label in labels)
    # Classes without rows are listed too.
    counts.update(dict.fromkeys(map(str, names), 0))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name}: {count:,} ({count / len(labels):.1%})" for name, count in ordered)


def _text(path, line, record, column):
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{path}:{line}: column `{column}` must be a string. Received: {text!r}")
    if not text.strip():
        raise ValueError(f"{path}:{line}: column `{column}` is empty")
    return valid_text(text)


def _label(path, line, record, column, regression):
    label = record[column]
    if not isinstance(label, str | int | float) or (regression and isinstance(label, bool)):
        raise ValueError(f"{path}:{line}: column `{column}` must be a string or a number. Received: {label!r}")
    if regression or isinstance(label, float):
        label = finite_number(path, line, column, label)
    if regression:
        return label
    if not class_name(label):
        raise ValueError(f"{path}:{line}: column `{column}` is empty")
    return class_name(label)


def class_number(path, line, label, numbers):
    if label not in numbers:
        raise ValueError(f"{path}:{line}: unknown label {label!r}. Expected one of: {', '.join(map(repr, numbers))}")
    return numbers[label]


def finite_number(path, line, column, value):
    """A float, or an error that names the place in the file."""
    try:
        number = math.nan if "_" in str(value) else float(value)  # 1_000 is Python's spelling alone.
    except (ValueError, OverflowError):  # JSON may have an integer beyond all floats.
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{path}:{line}: column `{column}` must be a finite number. Received: {value!r:.80}")
    return number
