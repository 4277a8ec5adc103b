"""Reads user data: CSV, TSV or JSONL with a text column, optionally a second one, and optionally labels.

CSV is quoted as in spreadsheets (RFC 4180), with commas, semicolons or tabs between columns. TSV has one line per row,
as in GLUE; only a field that is quoted as a whole is unquoted, all other quotes are literal. Text with tabs or line
breaks requires CSV or JSONL. The first line of CSV and TSV contains the column names.

Class names are the stripped labels of the files: JSON's `true` is "true", its numbers 1 and 1.0 are "1".
"""

import contextlib
import dataclasses
import functools
import logging
import math
import pathlib

from keras_bert.files import fingerprint
from keras_bert.tasks.class_names import as_list, class_ids, class_name, class_numbers
from keras_bert.tasks.table_files import read_rows

_LOG = logging.getLogger("keras_bert")
_LARGEST = 1e15  # The loss of larger numbers, their square, leaves the range of float32.


class Rows:
    """Base class of dataclasses of rows. The fields in `content` and `places` have a value for each row, or are `None`.

    Attributes:
        content: tuple of the names of the fields with texts and labels, the first one never `None`.
        places: tuple of the names of the fields that tell where the rows are from.
    """

    content: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

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


def converted(path, rows, convert, skip_bad_rows=None):
    """Converts rows. Skips up to `skip_bad_rows` rows that raise a ValueError, with a warning. Defaults to none.

    Args:
        path: the file.
        rows: list of (line number, row) as from `read_rows`.
        convert: function of the place of a row, for messages, and the row.

    Returns:
        A list of (line number, row number, result).
    """
    if not rows:
        raise ValueError(f"{path}: no rows")
    results, errors = [], []
    for number, (line, row) in enumerate(rows):
        try:
            results.append((line, number, _result(path, line, row, convert)))
        except ValueError as error:
            if skip_bad_rows is None:
                raise
            errors.append(error)
    if not results:  # Probably a wrong flag or another format.
        raise errors[0]
    if len(errors) > (skip_bad_rows or 0):
        raise ValueError(
            f"{errors[0]}. {len(errors):,} of {len(rows):,} row(s) are unreadable. Fix the file, or skip them with "
            f"--skip_bad_rows={len(errors)}"
        ) from errors[0]
    if errors:
        _LOG.warning("%s: skipped %d unreadable row(s). The first: %s", path, len(errors), errors[0])
    return results


def readable(path, rows, convert):
    """Yields the line number and the result of the rows that `converted` does not skip."""
    for line, row in rows:
        with contextlib.suppress(ValueError):
            yield line, _result(path, line, row, convert)


def _result(path, line, row, convert):
    if isinstance(row, ValueError):
        raise row
    return convert(f"{path}:{line}", row)


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
    path = pathlib.Path(path)
    rows = read_rows(path, {column: flag for column, flag in flags.items() if column is not None})

    def row(place, record):
        text, pair = (column and text_cell(place, record, column) for column in (text_column, pair_column))
        return place, text, pair, read_label(place, record) if label_columns else None

    _, ids, results = zip(*converted(path, rows, row, skip_bad_rows), strict=True)
    places, text, pair, found = zip(*results, strict=True)
    if numbers is not None and label_columns:  # Unknown labels are an error, also if unreadable rows are skipped.
        found = [class_ids(place, label, numbers) for place, label in zip(places, found, strict=True)]
    return Examples(
        text, pair if pair_column else None, found if label_columns else None, ids, skipped=len(rows) - len(ids)
    )


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {text!r}{_hint(text)}")
    if not text.strip():
        raise ValueError(f"{place}: column `{column}` is empty")
    return text


def _hint(value):
    return "" if value is not None else ". Leave out or fill missing values"


def _label(place, record, column, regression):
    label = record[column]
    if not isinstance(label, str | int | float) or (regression and isinstance(label, bool)):
        raise ValueError(f"{place}: column `{column}` must be a string or a number. Received: {label!r}{_hint(label)}")
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


def finite_number(place, column, value):
    """Converts a value to a finite float, or raises an error with its place in the file."""
    try:
        number = math.nan if "_" in str(value) else float(value)  # Only Python accepts 1_000.
    except (ValueError, TypeError, OverflowError):  # JSON has `null`, and integers that exceed the range of floats.
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{place}: column `{column}` must be a finite number. Received: {value!r:.80}")
    return number
