"""Rows of tables: CSV, quoted as in spreadsheets and with any usual delimiter, and TSV."""

import csv
import functools
import itertools
import logging
import re

from keras_bert.data import text_files
from keras_bert.data.sources import File, check_columns, value_or_error
from keras_bert.data.text_files import is_blank

_LOG = logging.getLogger("keras_bert")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_ROWS_AT_A_TIME = 256  # Of CSV, read with a larger limit of a field.
# Spreadsheets separate `.csv` by semicolons in locales with decimal commas.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


class Table(File):
    """Rows of CSV, quoted as in spreadsheets, or of TSV, where only a field that is quoted as a whole is unquoted.

    Blank lines are not rows. In a single column, lines of white space are texts, in TSV also empty lines.
    """

    typed = False

    def stream_values(self):
        return self.stream()

    def stream(self, wanted=(), header=None):
        rows = self._stream_fields(wanted)
        if header is None:
            line, names = next(rows)
            check_columns(self.place(line), names, wanted)
            header = _unique_names(names)
        for line, fields in rows:
            if len(fields) == len(header):
                yield line, dict(zip(header, fields, strict=True))
            else:
                yield line, value_or_error(table_row, self.place(line), header, fields)

    def names(self, wanted=()):
        _, header = next(self._stream_fields(wanted))
        return header

    def _stream_fields(self, wanted):
        """Yields (line number, fields) of each row, the header first."""
        if text_files.suffix(self.path) == ".csv":
            lines = _csv_rows(self.path, wanted)
        else:
            lines = _tsv_rows(self.path)
        header = _first_with_content(lines)
        if header is None:
            raise ValueError(f"{self}: the file is empty. Expected a first line with the names of the columns")
        yield header
        has_one_column = len(header[1]) == 1
        for line, fields in lines:
            if _is_row(fields, has_one_column):
                yield line, fields


def _first_with_content(lines):
    """Returns the next (line number, fields) that are not blank, or `None` at the end."""
    for line, fields in lines:
        if not is_blank(fields):
            return line, fields
    return None


def _is_row(fields, has_one_column):
    """Whether the fields of a line are a row. Only where there are several columns, white space is a blank line."""
    if len(fields) == 1:
        return has_one_column or bool(fields[0].strip())
    return len(fields) > 1


def _unique_names(names):
    """Returns the names of columns, those that repeat others with a number: `x`, `x.1`."""
    unique = {}  # A dict, since a table may have thousands of columns.
    for name in names:
        candidate = name
        number = 0
        while candidate in unique or (number and candidate in names):
            number += 1
            candidate = f"{name}.{number}"
        unique[candidate] = None
    return list(unique)


def table_row(place, header, fields):
    """Returns the fields of a row as a dict by column."""
    if len(fields) != len(header):
        raise ValueError(f"{place}: expected {len(header)} columns, got {len(fields)}")
    return dict(zip(header, fields, strict=True))


def _tsv_rows(path):
    """Yields (line number, fields) of each line."""
    for number, line in text_files.stream_lines(path):
        yield number, [_unquoted(field) for field in line.split("\t")]


def _unquoted(field):
    """Returns a field of TSV without its quotes, if it is quoted as a whole."""
    if _QUOTED.fullmatch(field):
        return field[1:-1].replace('""', '"')
    return field


def _csv_rows(path, wanted):
    """Yields (line number, fields) of each row of CSV; line ends within quotes stay as they are."""
    lines = _RereadLines(text_files.stream_text(path))
    delimiter = _delimiter(path, lines, wanted)
    # `strict`, since otherwise an unclosed quote silently consumes the rest of the file.
    reader = csv.reader(lines.all(), delimiter=delimiter, strict=True)
    while True:
        rows, problem = _next_rows(reader, _ROWS_AT_A_TIME)
        yield from rows
        if problem is not None:
            line, error = problem
            raise _csv_error(path, line, error)
        if not rows:
            return


def _next_rows(reader, count):
    """Returns the next rows, (line number, fields), and the line number and the error of one that cannot be read.

    `csv` limits fields to 131,072 characters for the whole process, but a text may be a whole document: the limit is
    raised for some rows at a time, since the caller's code runs between them.
    """
    rows = []
    before = csv.field_size_limit(text_files.LARGEST)
    first = reader.line_num + 1  # A quoted field may span several lines.
    try:
        for fields in itertools.islice(reader, count):
            rows.append((first, fields))
            first = reader.line_num + 1
    except (csv.Error, ValueError) as error:
        return rows, (first, error)
    finally:
        csv.field_size_limit(before)
    return rows, None


def _csv_error(path, line, error):
    """Returns an error of `csv` with its place; those of lines that cannot be read have theirs."""
    if isinstance(error, ValueError):
        return error
    problem = f"{error}. Expected CSV with doubled quotes inside quoted fields"
    if "new-line character" in str(error):
        problem = "a carriage return within a line. Save the file with consistent line ends, or quote the field"
    return ValueError(f"{path}:{line}: {problem}")


class _RereadLines:
    """The lines of a file, whose beginning is read several times to find its delimiter."""

    def __init__(self, lines):
        self._unread = lines
        self._kept = []

    def from_start(self):
        """Yields the lines from the first one on, and keeps those that it reads."""
        yield from list(self._kept)
        for line in self._unread:
            self._kept.append(line)
            yield line

    def all(self):
        """Returns an iterator of all lines, the last one: it keeps no more of them."""
        return itertools.chain(self._kept, self._unread)


def _delimiter(path, lines, wanted):
    """Returns the first of `_DELIMITERS` that gives a header with the wanted columns; without any, the most columns."""
    headers = {delimiter: _csv_header(lines, delimiter) for delimiter in _DELIMITERS}
    # If none fits, the error lists the columns of the most likely one.
    chosen = max(headers, key=lambda delimiter: len(headers[delimiter]))
    for delimiter, header in headers.items():
        if wanted and set(wanted).issubset(header):
            chosen = delimiter
            break
    if chosen != ",":
        _tell_delimiter(path, _DELIMITERS[chosen])
    return chosen


@functools.cache  # Once for each file.
def _tell_delimiter(path, delimiters):
    _LOG.info("%s: its columns are separated by %s", path, delimiters)


def _csv_header(lines, delimiter):
    """Returns the fields of the first row that is not blank, or none."""
    reader = csv.reader(lines.from_start(), delimiter=delimiter, strict=True)
    while True:
        rows, problem = _next_rows(reader, count=1)
        if problem is not None:
            _, error = problem
            if isinstance(error, ValueError):  # Of lines that cannot be read; CSV with errors has another delimiter.
                raise error
        if not rows:
            return []
        _, fields = rows[0]
        if not is_blank(fields):
            return fields
