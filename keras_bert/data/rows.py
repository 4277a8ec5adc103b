"""Rows of a source: their conversion, typed reads of their columns with one wording of errors, and what tasks keep."""

import contextlib
import dataclasses
import logging
import math

from keras_bert.files import fingerprint

_LOG = logging.getLogger("keras_bert")


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
        if count is None:
            return self
        columns = {name: getattr(self, name) for name in (*self.content, *self.places)}
        return dataclasses.replace(
            self, **{name: None if column is None else column[:count] for name, column in columns.items()}
        )

    def fingerprint(self):
        """Returns a hash of the rows, to recognize changed data."""
        return fingerprint([getattr(self, name) for name in self.content])


class TaskData:
    """Base class of dataclasses of the `Rows` of a task, with those to train on in `train`."""

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        return dataclasses.replace(self, train=self.train.first(count))


def converted(source, rows, convert, skip_bad_rows=None):
    """Converts the rows of a `Source`; returns a list of (line number, row number, result).

    `convert` is a function of the place of a row, for messages, and the row. Up to `skip_bad_rows` rows for which it
    raises a ValueError are skipped, with a warning.
    """
    if not rows:
        raise ValueError(f"{source}: no rows")
    results, errors = [], []
    for number, (line, row) in enumerate(rows):
        try:
            results.append((line, number, _result(source, line, row, convert)))
        except ValueError as error:
            if skip_bad_rows is None:
                raise
            errors.append(error)
    if not results:  # Probably a wrong column or another format.
        raise errors[0]
    if len(errors) > (skip_bad_rows or 0):
        raise ValueError(
            f"{errors[0]}. {len(errors):,} of {len(rows):,} row(s) are unreadable. Fix the file, or skip them with "
            f"`skip_bad_rows={len(errors)}`"
        ) from errors[0]
    if errors:
        _LOG.warning("%s: skipped %d unreadable row(s). The first: %s", source, len(errors), errors[0])
    return results


def readable(source, rows, convert):
    """Yields the line number and the result of the rows that `converted` does not skip."""
    for line, row in rows:
        with contextlib.suppress(ValueError):
            yield line, _result(source, line, row, convert)


def _result(source, line, row, convert):
    if isinstance(row, ValueError):
        raise row
    return convert(source.place(line), row)


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {text!r}{missing(text)}")
    if not text.strip():
        raise ValueError(f"{place}: column `{column}` is empty")
    return text


def missing(value):
    """Returns what to do about a missing value."""
    return "" if value is not None else ". Leave out or fill missing values"


def finite_number(place, column, value):
    """Converts a value to a finite float, or raises an error with its place in the file."""
    try:
        number = math.nan if "_" in str(value) else float(value)  # Only Python accepts 1_000.
    except (ValueError, TypeError, OverflowError):  # JSON has `null`, and integers that exceed the range of floats.
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{place}: column `{column}` must be a finite number. Received: {value!r:.80}")
    return number


def as_list(values):
    """Converts an array or another iterable to a list; arrays and tensors to Python numbers and strings."""
    if hasattr(values, "numpy"):
        values = values.to_list() if hasattr(values, "to_list") else values.numpy()
    return values if isinstance(values, list) else values.tolist() if hasattr(values, "tolist") else list(values)
