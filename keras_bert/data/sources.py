"""Sources of rows, files and data in Python, which know the place of each row: `dev.csv:7`, `texts[7]`; typed reads.

What a file is follows from its content: JSON with a row in each line, a list of rows or an object with the rows under
`data`, Parquet, or else a table, CSV or TSV by its name. Each may be compressed by gzip.
"""

import contextlib
import csv
import dataclasses
import datetime
import decimal
import functools
import itertools
import json
import logging
import math
import pathlib
import re
from typing import Any

from keras_bert.checks import similar
from keras_bert.data import text_files
from keras_bert.data.text_files import is_blank, read_lines, split_tabs, valid_text
from keras_bert.files import fingerprint

_LOG = logging.getLogger("keras_bert")
_JSON = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv")
ROWS = (*_TABLES, *_JSON, ".parquet")  # Ends of the names of files with rows.
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_RETURN = "a carriage return within a line. Save the file with consistent line ends, or quote the field"
# Spreadsheets separate `.csv` by semicolons in locales with decimal commas.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


class Source:
    """Rows by number.

    Attributes:
        name: string, what short texts call it.
        typed: bool, whether values have the types of JSON; those of tables are strings.
        unit: string, what a number counts.
        document: the whole content, if it is one JSON object, or else `None`.
        values: list of the number and the value of each row, or a ValueError for one that cannot be read.
    """

    typed, unit, document = True, "line", None
    values: Any

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def place(self, number):
        """Returns how messages call a row."""
        return f"{self}:{number}"

    def rows(self, wanted=(), header=None):
        """Returns the number of each row, and the row: a dict by column, or a ValueError if it cannot be read.

        It needs the `wanted` columns, see `check_columns`, which also determine the delimiter of CSV. `header` are the
        names of the columns of a table without a row of names.
        """
        first = self.values[0][0] if self.values else None
        return [
            (number, _attempt(self.checked, number, value, wanted if number == first else list(wanted)))
            for number, value in self.values
        ]

    def written_names(self):
        """Returns the columns as they are before any conversion."""
        return self.names()

    def mapped(self, convert):
        """Returns the source of the rows that a function of the place of a row and the row, a dict, returns."""
        return Mapped(self, convert)

    def checked(self, number, value, wanted):
        """Returns a value that is a row with the wanted columns; raises for any other."""
        if isinstance(value, ValueError):
            raise value
        if not isinstance(value, dict):
            raise ValueError(
                f"{self.place(number)}: expected one JSON object per line. Received: {json.dumps(value):.50}"
            )
        check_columns(self.place(number), getattr(value, "names", list(value)), wanted)
        return value

    def names(self, wanted=()):
        """Returns the columns, of JSON those of the first object; `wanted` columns determine the delimiter of CSV."""
        return list(self.checked(*self.values[0], wanted)) if self.values else []


class Mapped(Source):
    """Rows of another source, which a function of the place of a row and the row converts."""

    def __init__(self, origin, convert):
        super().__init__(origin.name)
        self.unit, self._origin, self._convert = origin.unit, origin, convert

    def __str__(self):
        return str(self._origin)

    def place(self, number):
        return self._origin.place(number)

    def written_names(self):
        return self._origin.written_names()

    @functools.cached_property
    def values(self):
        return [
            (number, row if isinstance(row, ValueError) else _attempt(self._convert, self.place(number), row))
            for number, row in self._origin.rows()
        ]


class Memory(Source):
    """Rows of data in Python, dicts by column; `name` is the argument that they are."""

    unit = "row"

    def __init__(self, name, rows):
        super().__init__(name)
        self._rows = rows

    def place(self, number):
        return f"{self}[{number}]"

    @functools.cached_property
    def values(self):
        return [(number, json_like(self.place(number), row)) for number, row in enumerate(self._rows)]


class File(Source):
    """Rows of a file; `path` is its path."""

    def __init__(self, path):
        super().__init__(path.name)
        self.path = path

    def __str__(self):
        return str(self.path)


class Table(File):
    """Rows of CSV, quoted as in spreadsheets, or of TSV, where only a field that is quoted as a whole is unquoted.

    Blank lines are not rows. In a single column, lines of white space are texts, in TSV also empty lines.
    """

    typed = False

    def rows(self, wanted=(), header=None):
        rows = self._lines(wanted)
        if header is None:
            (line, header), *rows = rows
            check_columns(self.place(line), header, wanted)
            header = _unique(header)
        return [(line, _attempt(table_row, self.place(line), header, fields)) for line, fields in rows]

    def names(self, wanted=()):
        return self._lines(wanted)[0][1]

    def _lines(self, wanted):
        """Returns (line number, fields) of each row, header first."""
        is_csv = text_files.suffix(self.path) == ".csv"
        rows = _csv_rows(self.path, wanted) if is_csv else split_tabs(self.path, _unquoted)
        rows = list(itertools.dropwhile(lambda row: is_blank(row[1]), rows))
        if not rows:
            raise ValueError(f"{self}: the file is empty. Expected a first line with the names of the columns")
        has_one_column = len(rows[0][1]) == 1
        return [row for row in rows if (row[1] if has_one_column else not is_blank(row[1]))]


class JsonLines(File):
    """Rows of JSON, one in each line."""

    @functools.cached_property
    def values(self):
        return [(number, _attempt(_json_row, self.path, number, line)) for number, line in _json_lines(self.path)]


class Json(File):
    """A whole JSON value: a list of rows, an object with a list of rows under `data`, or one row."""

    def __init__(self, path, value):
        super().__init__(path)
        self.document = value if isinstance(value, dict) else None
        listed = value.get("data") if isinstance(value, dict) else value
        self.values = list(enumerate(listed if isinstance(listed, list) else [value], 1))


class Parquet(File):
    """Rows of Parquet. Numbers of classes become their names, if the file has them, as those of the hub do."""

    @functools.cached_property
    def values(self):
        import pyarrow.parquet

        return list(enumerate(arrow_rows(pyarrow.parquet.read_table(self.path)), 1))


def source(path):
    """Returns the source of a path; a source stays as it is."""
    if isinstance(path, Source):
        return path
    path = pathlib.Path(path)
    suffix = text_files.suffix(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    start = text_files.first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return Parquet(path)
    if suffix == ".parquet":
        raise ValueError(f"{path}: not Parquet, whose files start with PAR1. Received: {start[:20]!r}")
    if suffix in _TABLES:
        return Table(path)
    if suffix not in _JSON and start[:1] not in (b"{", b"["):
        raise ValueError(f"{path}: the name must end in {', '.join(ROWS)}")
    whole = _whole(path, suffix)
    return JsonLines(path) if whole is None else Json(path, whole)


def stream_rows(path, wanted):
    """Yields the line number and the row of a file, a dict by column; JSONL is not read as a whole."""
    suffixes = (*_TABLES, ".jsonl")
    if text_files.suffix(path) not in suffixes:
        raise ValueError(f"{path}: the name must end in {', '.join(suffixes)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if text_files.suffix(path) == ".jsonl":
        origin = JsonLines(path)
        lines = ((number, line) for number, line in text_files.stream_lines(path) if line.strip())
        rows = ((number, _parsed(path, number, line)) for number, line in lines)
    else:
        origin = Table(path)
        rows = iter(origin.rows(wanted))
    for number, row in rows:
        yield number, origin.checked(number, row, wanted if number == 1 else [*wanted])


def check_columns(place, names, wanted):
    """Raises an error if a header or record with columns `names` lacks a wanted column or has it twice.

    `wanted` is a list of columns, or a dict of the parameters that name them, or `None`, which the error mentions.
    """
    for column in wanted:
        if column not in names:
            parameter, found = wanted[column] if isinstance(wanted, dict) else None, similar(column, names)
            fix = f". Did you mean {f'`{parameter}={found}`' if parameter else found}?" if found else ""
            fix = f". Name another one with `{parameter}`" if parameter and not found else fix
            raise ValueError(f"{place}: no column `{column}`. It has: {', '.join(map(repr, names))}{fix}")
    for column in wanted:
        if names.count(column) > 1:
            raise ValueError(f"{place}: the column `{column}` appears twice")


def _attempt(function, *arguments):
    """Returns what a function returns, or the ValueError that it raises: whether it matters depends on the task."""
    try:
        return function(*arguments)
    except ValueError as error:
        return error


def _unique(names):
    """Returns the names of columns, those that repeat others with a number: `x`, `x.1`."""
    found = {}
    for name in names:
        free = (f"{name}.{number}" if number else name for number in itertools.count())
        found[next(each for each in free if each not in found and (each == name or each not in names))] = None
    return list(found)


def table_row(place, header, fields):
    """Returns the fields of a row as a dict by column."""
    if len(fields) != len(header):
        raise ValueError(f"{place}: expected {len(header)} columns, got {len(fields)}")
    return dict(zip(header, fields, strict=True))


def _csv_rows(path, wanted):
    lines, rows = [f"{line}\n" for _, line in read_lines(path)], []
    with _fields_up_to(sum(map(len, lines))):
        # `strict`, since otherwise an unclosed quote silently consumes the rest of the file.
        reader = csv.reader(lines, delimiter=_delimiter(path, lines, wanted), strict=True)
        while True:
            first = reader.line_num + 1  # A quoted field may span several lines.
            try:
                rows.append((first, next(reader)))
            except StopIteration:
                return rows
            except csv.Error as error:
                problem = f"{error}. Expected CSV with doubled quotes inside quoted fields"
                if "new-line character" in str(error):
                    problem = (
                        "a carriage return within a line. Save the file with consistent line ends, or quote the field"
                    )
                raise ValueError(f"{path}:{first}: {problem}") from error


@contextlib.contextmanager
def _fields_up_to(longest):
    """Raises the limit of `csv`, 131,072 characters per field, since a text may be a whole document."""
    before = csv.field_size_limit(max(longest, csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _delimiter(path, lines, wanted):
    """Returns the first of `_DELIMITERS` that gives a header with the wanted columns; without any, the most columns."""
    headers = {delimiter: _header(lines, delimiter) for delimiter in _DELIMITERS}
    fitting = [delimiter for delimiter, header in headers.items() if wanted and set(wanted).issubset(header)]
    # If none fits, the error lists the columns of the most likely one.
    chosen = fitting[0] if fitting else max(headers, key=lambda delimiter: len(headers[delimiter]))
    if chosen != ",":
        _tell(path, _DELIMITERS[chosen])
    return chosen


@functools.cache  # Once for each file.
def _tell(path, delimiters):
    _LOG.info("%s: its columns are separated by %s", path, delimiters)


def _header(lines, delimiter):
    try:
        return next((row for row in csv.reader(lines, delimiter=delimiter, strict=True) if not is_blank(row)), [])
    except csv.Error:
        return []


def _unquoted(field):
    return field[1:-1].replace('""', '"') if _QUOTED.fullmatch(field) else field


def _whole(path, suffix):
    """Returns the value of a JSON file that is not lines of JSON, or `None`."""
    lines, named_lines = _json_lines(path), suffix in (".jsonl", ".ndjson")
    if (named_lines and not lines) or (
        (named_lines or len(lines) > 1) and not isinstance(_attempt(_json_row, path, *lines[0]), ValueError)
    ):
        return None
    try:
        return _valid(json.loads("\n".join(line for _, line in lines), object_pairs_hook=_Object))
    except (ValueError, RecursionError) as error:
        if named_lines:  # Of lines, the errors name the line.
            return None
        raise ValueError(f"{path}: JSON that cannot be read: {error}") from None


def _json_lines(path):
    return [(number, line) for number, line in read_lines(path) if line.strip()]


def _json_row(path, line, text):
    return _valid(_parsed(path, line, text))


def _parsed(path, line, text):
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # Numbers with thousands of digits, or too deep nesting.
        raise ValueError(f"{path}:{line}: JSON that cannot be read: {error}") from error


class _Object(dict):
    """A JSON object that knows of names that occur twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.names = [name for name, _ in pairs]


def _valid(value):
    """Applies `valid_text` to all strings in a JSON value."""
    if isinstance(value, dict):
        for name, part in value.items():
            value[name] = _valid(part)
        return value
    if isinstance(value, list):
        return list(map(_valid, value))
    return valid_text(value) if isinstance(value, str) else value


def json_like(place, value):
    """Returns a value of Python with the types of JSON; raises for one that has none."""
    if isinstance(value, str):
        return valid_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [json_like(place, part) for part in value]
    if isinstance(value, dict):
        return {str(name): json_like(place, part) for name, part in value.items()}
    raise ValueError(
        f"{place}: texts and targets must be strings, numbers, or lists, tuples or dicts of these. Received: "
        f"{value!r:.100}"
    )


def arrow_rows(table):
    """Returns the rows of a table of Arrow as dicts; numbers of classes become their names, -1 a missing one."""
    names = class_names(json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}")))
    return [named(row, names) for row in table.to_pylist()]


def named(row, names):
    """Returns a row with the types of JSON; numbers become the names of classes that their columns have."""
    return {name: _named(_plain(value), names.get(name)) for name, value in row.items()}


def class_names(schema):
    """Returns the names of the classes by column, as the hub's data sets have them in their schema."""
    found = {}
    for name, feature in schema.get("info", {}).get("features", {}).items():
        inner = feature
        while isinstance(inner, dict) and isinstance(inner.get("feature"), dict):  # Of a list.
            inner = inner["feature"]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[name] = inner["names"]
    return found


def _named(value, names):
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_named(part, names) for part in value]
    return names[value] if 0 <= value < len(names) else None


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    if isinstance(value, list):
        return list(map(_plain, value))
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, dict) else value


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


def cell(place, column):
    """Returns how messages call a value of a row; data in Python, `texts[7]`, have no columns."""
    in_memory = re.fullmatch(r"\w+( \w+)*(\[\d+\])?", place)
    return f"{place}: {'' if in_memory else 'column '}`{column}`"


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{cell(place, column)} must be a string. Received: {text!r}{missing(text)}")
    if not text.strip():
        raise ValueError(f"{cell(place, column)} is empty")
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
        raise ValueError(f"{cell(place, column)} must be a finite number. Received: {value!r:.80}")
    return number


def as_list(values):
    """Converts an array or another iterable to a list; arrays and tensors to Python numbers and strings."""
    if hasattr(values, "numpy"):
        values = values.to_list() if hasattr(values, "to_list") else values.numpy()
    return values if isinstance(values, list) else values.tolist() if hasattr(values, "tolist") else list(values)


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
