"""Reads user data: CSV, TSV or JSONL with a text column, optionally a second one, and optionally labels.

CSV is quoted as in spreadsheets (RFC 4180), with commas, semicolons or tabs between columns. TSV has one line per row,
as in GLUE; only a field that is quoted as a whole is unquoted, all other quotes are literal. Text with tabs or line
breaks requires CSV or JSONL. The first line of CSV and TSV contains the column names.

Class names are the stripped labels of the files: JSON's `true` is "true", its numbers 1 and 1.0 are "1".
"""

import collections
import dataclasses
import functools
import math
import pathlib
import re
import unicodedata

import numpy as np

from keras_bert.files import fingerprint
from keras_bert.tasks.table_files import TableFile, valid_text

_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")  # Categories of Unicode.
_DECIMAL = re.compile(r"\+?(-?)0*([0-9]*?)(?:\.([0-9]*?)0*)?(?<=[0-9])")
# What word processors write for - and ', and the selectors of emoji and text.
_SIGNS = dict.fromkeys((0x2010, 0x2011, 0x2013, 0x2014, 0x2212), "-") | dict.fromkeys((0x2018, 0x2019), "'")
_SIGNS |= dict.fromkeys((0xFE0E, 0xFE0F))
_LARGEST = 1e15  # The loss of larger numbers, their square, leaves the range of float32.


class Rows:
    """Base class of dataclasses of rows. The fields in `content` and `places` have a value for each row, or are `None`.

    Attributes:
        content: tuple of the names of the fields with texts and labels, the first one never `None`.
        places: tuple of the names of the fields that tell where the rows are from.
    """

    content, places = (), ()

    def __len__(self):
        return len(getattr(self, self.content[0]))

    def first(self, count):
        """Returns the first `count` rows, or all rows for `None`."""
        if count is not None and count < 1:
            raise ValueError(f"`count` must be at least 1. Received: count={count}")
        columns = {name: getattr(self, name) for name in (*self.content, *self.places)}
        return dataclasses.replace(
            self, **{name: None if column is None else column[:count] for name, column in columns.items()}
        )

    def fingerprint(self):
        """Returns a hash of the rows, to recognize changed data."""
        return fingerprint([getattr(self, name) for name in self.content])


@dataclasses.dataclass(frozen=True)
class Examples(Rows):
    """The rows of a data set. Arrays are converted to lists.

    Args:
        text: list of strings.
        pair: list of strings, the second sentences, or `None` for single sentences.
        labels: list of class ids, tuples of them for multi-label classification, floats for regression, or strings if
            the classes are unknown; or `None`.
        ids: list of ints, the row ids.
        skipped: int, number of unreadable rows that were skipped. Defaults to 0.
    """

    text: list
    pair: list | None
    labels: list | None
    ids: list
    skipped: int = 0

    content, places = ("text", "pair", "labels"), ("ids",)

    def __post_init__(self):
        for name in (*self.content, *self.places):
            column = getattr(self, name)
            if column is not None:
                object.__setattr__(self, name, as_list(column))

    @property
    def columns(self):
        """The texts, or the two columns of pairs."""
        return [self.text] if self.pair is None else [self.text, self.pair]


def as_list(values):
    """Converts an array or another iterable to a list; arrays to Python numbers and strings."""
    return values if isinstance(values, list) else values.tolist() if hasattr(values, "tolist") else list(values)


def read_table(
    path, text_column, pair_column=None, label_column=None, labels=None, regression=False, skip_bad_rows=None
):
    """Reads a `.csv`, `.tsv` or `.jsonl` file in UTF-8.

    Args:
        path: the file.
        text_column, pair_column, label_column: the columns of the first sentence, the second one, and the label.
        labels: the classes by id. By default `Examples.labels` contains strings, for `discover_labels`.
        regression: bool, whether labels are numbers. Defaults to `False`.
        skip_bad_rows: int, maximum number of rows with missing text, label or columns to skip with a warning.
            Unknown labels are always an error. Defaults to `None`, any bad row is an error.

    Returns:
        `Examples`, with row numbers from 0 as ids.
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    read_label = functools.partial(_label, column=label_column, regression=regression)
    columns = [] if label_column is None else [label_column]
    return read_examples(path, text_column, pair_column, columns, read_label, labels, skip_bad_rows)


def read_examples(path, text_column, pair_column, label_columns, read_label, labels=None, skip_bad_rows=None):
    """Reads the texts of a table, and the labels of each row by a function.

    Args:
        path, text_column, pair_column, labels, skip_bad_rows: see `read_table`.
        label_columns: list of the columns that `read_label` reads; without any, the rows have no labels.
        read_label: function of place and row, a dict by column. Returns a label or a tuple of labels.

    Returns:
        `Examples`.
    """
    numbers = class_numbers(labels)
    flags = {text_column: "text_column", pair_column: "pair_column", **dict.fromkeys(label_columns, "label_column")}
    table = TableFile(pathlib.Path(path), {column: flag for column, flag in flags.items() if column is not None})

    def row(place, record):
        text, pair = (column and text_cell(place, record, column) for column in (text_column, pair_column))
        return place, text, pair, read_label(place, record) if label_columns else None

    _, ids, rows = zip(*table.convert(row, skip_bad_rows), strict=True)
    places, text, pair, found = zip(*rows, strict=True)
    if numbers is not None and label_columns:  # Unknown labels are an error, also if unreadable rows are skipped.
        found = [class_ids(place, label, numbers) for place, label in zip(places, found, strict=True)]
    return Examples(
        text, pair if pair_column else None, found if label_columns else None, ids, skipped=len(table) - len(ids)
    )


def class_numbers(labels):
    """Returns the ids of classes by name; `None` for `None`."""
    if labels is None:
        return None
    names = list(map(class_name, labels))
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        raise ValueError(f"`labels` must be unique. Received: {names}")
    return numbers


def class_name(label):
    """Returns the class name of a label given as a string, number or bool."""
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    return valid_text(str(label)).strip()


def discover_labels(labels, fewest=2):
    """Returns the unique labels, at least `fewest`, sorted numerically if all are integers, otherwise as strings."""
    found = set(map(class_name, labels))
    if len(found) < fewest:
        raise ValueError(
            f"`labels` must have at least {'two classes' if fewest > 1 else 'one class'}. Received: {sorted(found)}"
        )
    for label in sorted(found):
        whole, _, _ = label.partition(".")
        if whole in found and re.fullmatch(r"-?[0-9]+\.0+", label):
            raise ValueError(f"`labels` has the number {whole} also as {label}. Use one spelling per class")
    whole = all(re.fullmatch(r"-?[0-9]+", label) for label in found)
    return sorted(found, key=lambda label: (int(label) if whole else 0, label))


def alike(names):
    """Returns lists of names that look alike to a person, such as "1" and "01" or "x" with and without a space."""
    found = collections.defaultdict(list)
    for name in names:
        found[appearance(name)].append(name)
    return [group for group in found.values() if len(group) > 1]


def appearance(name):
    """Returns what a person sees of a name: no case, no white space, no invisible signs, no zeros around a number."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).translate(_SIGNS)
    text = "".join(sign for sign in text if unicodedata.category(sign) not in _INVISIBLE)
    number = _DECIMAL.fullmatch(text)
    return f"{number[1]}{number[2] or 0}.{number[3] or ''}" if number else text


def spelled(names):
    """Returns names in quotes; with the codes of their signs, if the names are hard to tell apart otherwise."""
    different = {unicodedata.normalize("NFC", name).translate(_SIGNS) for name in names}
    return list(map(repr if len(different) == len(names) else ascii, names))


def balance(labels, names=None, total=None):
    """Summarizes labels: count and share of the largest classes (of `names`), or the range of floats.

    Shares are of `total`, by default the number of labels.
    """
    labels, names = as_list(labels), as_list(() if names is None else names)
    if not labels:
        return "no labels"
    if all(isinstance(label, float) for label in labels):
        mean = math.fsum(labels) / len(labels)
        return f"{len(labels):,} numbers from {min(labels):g} to {max(labels):g}, mean {mean:.4g}"
    counts = collections.Counter(str(names[label] if names else label) for label in labels)
    # List classes without rows too.
    counts.update(dict.fromkeys(map(str, names), 0))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return some([f"{name}: {count:,} ({count / (total or len(labels)):.1%})" for name, count in ordered], most=10)


def some(texts, most=5):
    """Lists the first texts in one line, and the number of the others."""
    return ", ".join([*texts[:most], *([f"and {len(texts) - most:,} more"] if len(texts) > most else [])])


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {text!r}")
    if not text.strip():
        raise ValueError(f"{place}: column `{column}` is empty")
    return valid_text(text)


def _label(place, record, column, regression):
    label = record[column]
    if not isinstance(label, str | int | float) or (regression and isinstance(label, bool)):
        raise ValueError(f"{place}: column `{column}` must be a string or a number. Received: {label!r}")
    if regression or isinstance(label, float):
        label = finite_number(place, column, label)
    if regression:
        if abs(label) > _LARGEST:
            raise ValueError(
                f"{place}: column `{column}` must be between -{_LARGEST:g} and {_LARGEST:g}. Received: {label:g}"
            )
        return label
    if not class_name(label):
        raise ValueError(f"{place}: column `{column}` is empty")
    return class_name(label)


def class_ids(place, label, numbers):
    """Returns the id of a label by name, or the sorted ids of a tuple of labels."""
    if isinstance(label, tuple):
        return tuple(sorted(class_ids(place, name, numbers) for name in label))
    if label not in numbers:
        if similar := [name for name in numbers if appearance(name) == appearance(label)]:
            first, second = spelled([label, similar[0]])
            raise ValueError(f"{place}: unknown label {first}, which looks like {second}. Use one spelling per class")
        raise ValueError(f"{place}: unknown label {label!r}. Expected one of: {', '.join(map(repr, numbers))}")
    return numbers[label]


def finite_number(place, column, value):
    """Converts a value to a finite float, or raises an error with its place in the file."""
    try:
        number = math.nan if "_" in str(value) else float(value)  # Only Python accepts 1_000.
    except (ValueError, TypeError, OverflowError):  # JSON has `null`, and integers that exceed the range of floats.
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{place}: column `{column}` must be a finite number. Received: {value!r:.80}")
    return number
