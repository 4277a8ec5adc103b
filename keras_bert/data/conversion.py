"""Conversion of the rows of a source: each becomes what a task reads, and unreadable ones are counted or skipped."""

import logging
from typing import Any, NamedTuple

from keras_bert.data.sources import Place

_LOG = logging.getLogger("keras_bert")


class ConvertedRow(NamedTuple):
    """What a row was converted to."""

    line: int  # Number of its line in the file.
    number: int  # Its number among the rows, from 0.
    result: Any


def converted(source, rows, convert, skip_bad_rows=None):
    """Converts the rows of a `Source`; returns a list of `ConvertedRow`, see `convert_rows`."""
    results, _ = convert_rows(source, rows, convert, skip_bad_rows)
    return results


def convert_rows(source, rows, convert, skip_bad_rows=None):
    """Converts the rows of a `Source`, an iterable as `stream` returns it.

    `convert` is a function of the `Place` of a row, for messages, and the row. Up to `skip_bad_rows` rows for which it
    raises a ValueError are skipped, with a warning.

    Returns:
        A list of `ConvertedRow`, and the number of skipped rows.
    """
    results = []
    first_error = None
    count = 0
    for line, row in rows:
        try:
            results.append(ConvertedRow(line, count, _convert_row(source, line, row, convert)))
        except ValueError as error:
            if skip_bad_rows is None:
                raise
            if first_error is None:
                first_error = error
        count += 1
    if not count:
        raise ValueError(f"{source}: no rows")
    if not results:  # Probably a wrong column or another format.
        raise first_error
    skipped = count - len(results)
    if skipped > (skip_bad_rows or 0):
        raise ValueError(
            f"{first_error}. {skipped:,} of {count:,} row(s) are unreadable. Fix the file, or skip them with "
            f"`skip_bad_rows={skipped}`"
        ) from first_error
    if skipped:
        _LOG.warning("%s: skipped %d unreadable row(s). The first: %s", source, skipped, first_error)
    return results, skipped


def readable(source, rows, convert):
    """Yields the line number and the result of the rows that `converted` does not skip."""
    for line, row in rows:
        try:
            result = _convert_row(source, line, row, convert)
        except ValueError:
            continue
        yield line, result


def _convert_row(source, line, row, convert):
    """Returns what `convert` makes of a row; raises for one that could not be read."""
    if isinstance(row, ValueError):
        raise row
    return convert(Place(source, line), row)
