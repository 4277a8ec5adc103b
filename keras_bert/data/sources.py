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
from typing import Any, ClassVar

from keras_bert.checks import similar
from keras_bert.data import text_files
from keras_bert.data.splits import split_numbers
from keras_bert.data.text_files import is_blank, valid_text
from keras_bert.files import fingerprint

_LOG = logging.getLogger("keras_bert")
_BATCH = 1024  # Rows of Parquet to convert together.
_JSON = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv")
ROWS = (*_TABLES, *_JSON, ".parquet")  # Ends of the names of files with rows.
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
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

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    @functools.cached_property
    def values(self) -> Any:
        return list(self.stream_values())

    def stream_values(self):
        """Yields `values` without keeping them, where the source is a file of lines."""
        raise NotImplementedError

    def place(self, number):
        """Returns how messages call a row."""
        return f"{self}:{number}"

    def rows(self, wanted=(), header=None):
        """Returns the number of each row, and the row: a dict by column, or a ValueError if it cannot be read.

        It needs the `wanted` columns, see `check_columns`, which also determine the delimiter of CSV. `header` are the
        names of the columns of a table without a row of names.
        """
        return list(self.stream(wanted, header))

    def stream(self, wanted=(), header=None):
        """Yields what `rows` returns, without keeping it where the source is a file of lines."""
        with_parameters = wanted  # Of the first row alone, errors name the parameters.
        for number, value in self._each_value():
            yield number, _attempt(self.checked, number, value, with_parameters)
            with_parameters = list(wanted)

    def _each_value(self):
        """Yields `values`, those that are known already if they are."""
        known = vars(self).get("values")
        return self.stream_values() if known is None else known

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
        for number, value in self._each_value():
            return list(self.checked(number, value, wanted))
        return []


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

    def stream_values(self):
        for number, row in self._origin.stream():
            if not isinstance(row, ValueError):
                row = _attempt(self._convert, self.place(number), row)
            yield number, row


class Memory(Source):
    """Rows of data in Python, dicts by column; `name` is the argument that they are."""

    unit = "row"

    def __init__(self, name, rows):
        super().__init__(name)
        self._rows = rows

    def place(self, number):
        return f"{self}[{number}]"

    def stream_values(self):
        for number, row in enumerate(self._rows):
            yield number, json_like(self.place(number), row)


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

    def stream_values(self):
        return self.stream()

    def stream(self, wanted=(), header=None):
        rows = self._fields(wanted)
        if header is None:
            line, header = next(rows)
            check_columns(self.place(line), header, wanted)
            header = _unique(header)
        for line, fields in rows:
            if len(fields) == len(header):
                yield line, dict(zip(header, fields, strict=True))
            else:
                yield line, _attempt(table_row, self.place(line), header, fields)

    def names(self, wanted=()):
        _, header = next(self._fields(wanted))
        return header

    def _fields(self, wanted):
        """Yields (line number, fields) of each row, header first."""
        is_csv = text_files.suffix(self.path) == ".csv"
        rows = _csv_rows(self.path, wanted) if is_csv else _tab_rows(self.path)
        rows = itertools.dropwhile(lambda row: is_blank(row[1]), rows)
        first = next(rows, None)
        if first is None:
            raise ValueError(f"{self}: the file is empty. Expected a first line with the names of the columns")
        yield first
        has_one_column = len(first[1]) == 1
        for row in rows:
            fields = row[1]
            if len(fields) > 1 or (fields and (has_one_column or fields[0].strip())):
                yield row


class JsonLines(File):
    """Rows of JSON, one in each line; `read` returns the value of a path, a line number and a line."""

    def __init__(self, path, read=None):
        super().__init__(path)
        self._read = read or _json_row

    def stream_values(self):
        for number, line in _json_lines(self.path):
            yield number, _attempt(self._read, self.path, number, line)


class Json(File):
    """A whole JSON value: a list of rows, an object with a list of rows under `data`, or one row."""

    def __init__(self, path, value):
        super().__init__(path)
        self.document = value if isinstance(value, dict) else None
        listed = value.get("data") if isinstance(value, dict) else value
        self._listed = listed if isinstance(listed, list) else [value]

    def stream_values(self):
        yield from enumerate(self._listed, 1)


class Parquet(File):
    """Rows of Parquet. Numbers of classes become their names, if the file has them, as those of the hub do."""

    def stream_values(self):
        import pyarrow
        import pyarrow.parquet

        number = 0
        try:
            with pyarrow.parquet.ParquetFile(self._content()) as file:
                names = class_names(hub_schema(file.schema_arrow))
                for batch in file.iter_batches(batch_size=_BATCH):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, named(row, names)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, _SchemaError) as error:
            problem = str(error).partition("\n")[0]
            raise ValueError(f"{self}: Parquet that cannot be read, after row {number}: {problem}") from error

    def _content(self):
        """Returns the path, or the uncompressed content of a file in gzip, in which pyarrow cannot jump."""
        import pyarrow

        with open(self.path, "rb") as file:
            if file.read(2) != text_files.GZIP:
                return self.path
        return pyarrow.BufferReader(text_files.whole(self.path))


def source(path):
    """Returns the source of a path; a source stays as it is."""
    if isinstance(path, Source):
        return path
    path = pathlib.Path(path)
    suffix = text_files.suffix(path)
    text_files.check_file(path)
    start = text_files.first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return Parquet(path)
    if suffix == ".parquet":
        raise ValueError(f"{path}: not Parquet, whose files start with PAR1. Received: {start[:20]!r}")
    if suffix in _TABLES:
        return Table(path)
    if suffix not in _JSON and start[:1] not in (b"{", b"["):
        raise ValueError(f"{path}: the name must end in {', '.join(ROWS)}")
    if _has_json_lines(path, suffix):
        return JsonLines(path)
    return _whole_json(path, suffix)


def stream_rows(path, wanted):
    """Yields the line number and the row of a source or file, a dict by column; files of lines are not kept.

    Strings of JSON lines stay as they are, see `valid_text`.
    """
    origin = source(path)
    if isinstance(origin, JsonLines):
        origin = JsonLines(origin.path, _parsed)
    for number, row in origin.stream(wanted):
        if isinstance(row, ValueError):
            raise row
        yield number, row


def check_columns(place, names, wanted):
    """Raises an error if a header or record with columns `names` lacks a wanted column or has it twice.

    `wanted` is a list of columns, or a dict of the parameters that name them, or `None`, which the error mentions.
    """
    absent = [column for column in wanted if column not in names]
    if absent:
        named = " and ".join(f"`{column}`" for column in absent)
        fix = _fix_of_columns(absent, names, wanted if isinstance(wanted, dict) else {})
        raise ValueError(
            f"{place}: no column{'s' * (len(absent) > 1)} {named}. It has: {', '.join(map(repr, names))}{fix}"
        )
    for column in wanted:
        if names.count(column) > 1:
            raise ValueError(f"{place}: the column `{column}` appears twice")


def _fix_of_columns(absent, names, parameters):
    """Returns what to do about columns that are absent: similar names, and the parameters that name others."""
    suggestions = []
    others = []
    for column in absent:
        parameter, found = parameters.get(column), similar(column, names)
        if found:
            suggestions.append(f"`{parameter}={found}`" if parameter else found)
        elif parameter:
            others.append(f"`{parameter}`")
    fix = f". Did you mean {' and '.join(suggestions)}?" if suggestions else ""
    if others:
        fix += f"{' ' if fix else '. '}Name another one with {' and '.join(others)}"
    return fix


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


def _tab_rows(path):
    for number, line in text_files.stream_lines(path):
        yield number, list(map(_unquoted, line.split("\t")))


def _csv_rows(path, wanted):
    """Yields (line number, fields) of each row of CSV; line ends within quotes stay as they are."""
    lines = text_files.stream_text(path)
    delimiter, read = _delimiter(path, lines, wanted)
    # `strict`, since otherwise an unclosed quote silently consumes the rest of the file.
    reader = csv.reader(itertools.chain(read, lines), delimiter=delimiter, strict=True)
    while True:
        rows, problem = _next_rows(reader)
        yield from rows
        if problem is not None:
            raise _csv_error(path, *problem)
        if not rows:
            return


def _next_rows(reader, count=256):
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


def _delimiter(path, lines, wanted):
    """Returns the first of `_DELIMITERS` that gives a header with the wanted columns; without any, the most columns.

    Also returns the list of the lines that it has read.
    """
    read = []
    headers = {delimiter: _header(lines, read, delimiter) for delimiter in _DELIMITERS}
    fitting = [delimiter for delimiter, header in headers.items() if wanted and set(wanted).issubset(header)]
    # If none fits, the error lists the columns of the most likely one.
    chosen = fitting[0] if fitting else max(headers, key=lambda delimiter: len(headers[delimiter]))
    if chosen != ",":
        _tell(path, _DELIMITERS[chosen])
    return chosen, read


@functools.cache  # Once for each file.
def _tell(path, delimiters):
    _LOG.info("%s: its columns are separated by %s", path, delimiters)


def _header(lines, read, delimiter):
    """Returns the fields of the first row that is not blank; lines that it reads are added to those read before."""
    reader = csv.reader(itertools.chain(list(read), _noted(lines, read)), delimiter=delimiter, strict=True)
    while True:
        rows, problem = _next_rows(reader, count=1)
        if problem is not None and isinstance(problem[1], ValueError):  # Of lines that cannot be read.
            raise problem[1]
        if not rows:
            return []
        _, fields = rows[0]
        if not is_blank(fields):
            return fields


def _noted(lines, read):
    """Yields lines, which are added to a list."""
    for line in lines:
        read.append(line)
        yield line


def _unquoted(field):
    return field[1:-1].replace('""', '"') if _QUOTED.fullmatch(field) else field


def _has_json_lines(path, suffix):
    """Whether a file of JSON has a row in each line, by its first line; without a name that says so, by two lines."""
    is_named_so = suffix in (".jsonl", ".ndjson")
    count = 1 if is_named_so else 2
    try:
        lines = list(itertools.islice(_json_lines(path), count))
    except text_files.LongLineError:
        if is_named_so:
            raise
        return False
    if not lines:
        return is_named_so
    is_row = not isinstance(_attempt(_json_row, path, *lines[0]), ValueError)
    return is_row and len(lines) == count


def _whole_json(path, suffix):
    """Returns the source of a file that is one JSON value; of lines that cannot be read, the errors name the line."""
    try:
        text = text_files.whole_text(path).replace("\r\n", "\n").rstrip()
        return Json(path, _valid(json.loads(text, object_pairs_hook=_Object)))
    except (ValueError, RecursionError) as error:
        if suffix in (".jsonl", ".ndjson"):
            return JsonLines(path)
        raise ValueError(f"{path}: JSON that cannot be read: {error}") from None


def _json_lines(path):
    """Yields the number and the line of those that are not blank."""
    return ((number, line) for number, line in text_files.stream_lines(path) if line.strip())


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


class _SchemaError(ValueError):
    """Metadata of Arrow that are not those of the hub."""


def hub_schema(schema):
    """Returns what `datasets` writes into the schema of Arrow, a dict."""
    written = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        found = json.loads(written)
        class_names(found)
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise _SchemaError(
            "its metadata `huggingface`, where the names of classes are, must be what `datasets` writes, or be left "
            f"out. Received: {written!r:.100}"
        ) from None
    return found


def arrow_rows(table):
    """Returns the rows of a table of Arrow as dicts; numbers of classes become their names, -1 a missing one."""
    names = class_names(hub_schema(table.schema))
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
    if not isinstance(value, int):  # Names already.
        return value
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


class Place:
    """The place of a row, whose text is formatted only where a message needs it."""

    __slots__ = ("number", "source")

    def __init__(self, source, number):
        self.source = source
        self.number = number

    def __str__(self):
        return self.source.place(self.number)


def converted(source, rows, convert, skip_bad_rows=None):
    """Converts the rows of a `Source`; returns a list of (line number, row number, result), see `convert_rows`."""
    results, _ = convert_rows(source, rows, convert, skip_bad_rows)
    return results


def convert_rows(source, rows, convert, skip_bad_rows=None):
    """Converts the rows of a `Source`, an iterable as `stream` returns it.

    `convert` is a function of the `Place` of a row, for messages, and the row. Up to `skip_bad_rows` rows for which it
    raises a ValueError are skipped, with a warning.

    Returns:
        A list of (line number, row number, result), and the number of skipped rows.
    """
    results = []
    first_error = None
    number = -1
    for number, (line, row) in enumerate(rows):
        try:
            results.append((line, number, _result(source, line, row, convert)))
        except ValueError as error:
            if skip_bad_rows is None:
                raise
            first_error = first_error or error
    count = number + 1
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
        with contextlib.suppress(ValueError):
            yield line, _result(source, line, row, convert)


def _result(source, line, row, convert):
    if isinstance(row, ValueError):
        raise row
    return convert(Place(source, line), row)


def cell(place, column):
    """Returns how messages call a value of a row; data in Python, `texts[7]`, have no columns."""
    in_memory = re.fullmatch(r"\w+( \w+)*(\[\d+\])?", str(place))
    return f"{place}: {'' if in_memory else 'column '}`{column}`"


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{cell(place, column)} must be a string. Received: {text!r}{missing(text)}")
    if not text.strip():
        raise ValueError(f"{cell(place, column)} is empty")
    return text


def all_problems(place, record, readers):
    """Returns an error with all problems of a row: those of functions of its place and the row, which raise."""
    problems = []
    for read in readers:
        try:
            read(place, record)
        except ValueError as error:
            problems.append(str(error))
    first, *others = problems
    return ValueError("; ".join([first, *(problem.removeprefix(f"{place}: ") for problem in others)]))


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

    content: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[str] = "texts"  # What `groups` are, in the plural.
    least_of_fold = 1  # Rows that the scores of a fold need.

    @property
    def file_rows(self):
        """The number of each row in its file, from 0; `None` where rows are not skipped."""
        return None

    def groups(self):
        """Returns a value for each row; rows with the same one are in the same fold of a cross-validation."""
        return getattr(self, self.content[0])

    def strata(self):
        """Returns a class or a number for each row, of which each fold has the same share; `None` for none."""
        return None

    def __len__(self):
        return len(getattr(self, self.content[0]))

    def first(self, count):
        """Returns the first `count` rows, or all rows for `None`."""
        if count is not None and count < 1:
            raise ValueError(f"`count` must be at least 1. Received: count={count}")
        if count is None:
            return self
        return self.at(range(min(count, len(self))))

    def at(self, numbers):
        """Returns the rows of these numbers, in their order."""
        columns = {}
        for name in (*self.content, *self.places):
            column = getattr(self, name)
            if hasattr(column, "shape"):
                columns[name] = column[list(numbers)]
            elif column is not None:
                columns[name] = [column[number] for number in numbers]
        return dataclasses.replace(self, **columns)

    def fingerprint(self):
        """Returns a hash of the rows, to recognize changed data."""
        return fingerprint([getattr(self, name) for name in self.content])


class TaskData:
    """Base class of dataclasses of the `Rows` of a task, with those to train on in `train`."""

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        return dataclasses.replace(self, train=self.train.first(count))

    def split(self, share, seed):
        """Returns the same data with a share of the rows to train on, drawn at random, as dev."""
        return self.parted(*split_numbers(len(self.train), share, seed))

    def parted(self, train, held_out):
        """Returns the same data with some of the rows to train on, by their numbers, as dev, and others to train on."""
        return dataclasses.replace(self, train=self.train.at(train), dev=self.train.at(held_out))

    @property
    def divided(self):
        """The rows that folds divide."""
        return self.train

    def on_train(self):
        """Returns the same data whose dev is what is trained on."""
        return dataclasses.replace(self, dev=self.train)
