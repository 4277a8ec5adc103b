"""Sources of rows: files, and data in Python. A source knows the place of each row: `dev.csv:7`, `texts[7]`.

What a file is follows from its content: JSON with a row in each line, a list of rows or an object with the rows under
`data`, Parquet, or else a table, CSV or TSV by its name. Each may be compressed by gzip.
"""

import datetime
import decimal
import functools
import json
import pathlib
from typing import Any

from keras_bert.data import tables
from keras_bert.data.tables import check_columns, valid_text

_JSON = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv")
ROWS = (*_TABLES, *_JSON, ".parquet")  # Ends of the names of files with rows.


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
        found = self.values
        first = found[0][0] if found else None
        return [
            (number, self.checked(number, value, wanted if number == first else list(wanted)))
            for number, value in found
        ]

    def mapped(self, convert):
        """Returns the source of the rows that a function of the place of a row and the row, a dict, returns."""
        return Mapped(self, convert)

    def checked(self, number, value, wanted):
        """Returns a value that is a row with the wanted columns, or a ValueError."""
        if isinstance(value, ValueError):
            return value
        if not isinstance(value, dict):
            return ValueError(
                f"{self.place(number)}: expected one JSON object per line. Received: {json.dumps(value):.50}"
            )
        try:
            check_columns(self.place(number), getattr(value, "names", list(value)), wanted)
        except ValueError as error:
            return error
        return value

    def names(self, wanted=()):
        """Returns the columns, of JSON those of the first object; `wanted` columns determine the delimiter of CSV."""
        for number, value in self.values[:1]:
            if isinstance(row := self.checked(number, value, wanted), ValueError):
                raise row
            return list(row)
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

    @functools.cached_property
    def values(self):
        return [(number, self._converted(number, row)) for number, row in self._origin.rows()]

    def _converted(self, number, row):
        try:
            return row if isinstance(row, ValueError) else self._convert(self.place(number), row)
        except ValueError as error:
            return error


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
    """Rows of CSV or TSV."""

    typed = False

    def rows(self, wanted=(), header=None):
        return tables.read_rows(self.path, wanted, header)

    def names(self, wanted=()):
        return tables.lines_of_table(self.path, wanted)[0][1]


class JsonLines(File):
    """Rows of JSON, one in each line."""

    @functools.cached_property
    def values(self):
        return [(number, _parsed(self.path, number, line)) for number, line in tables.json_lines(self.path)]


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
    suffix = tables.suffix(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    start = tables.first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n")
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
    if tables.is_json_lines(path):
        lines, origin = ((number, line) for number, line in tables.stream_lines(path) if line.strip()), JsonLines(path)
        rows = (
            (
                number,
                origin.checked(number, tables.json_value(path, number, line), wanted if number == 1 else [*wanted]),
            )
            for number, line in lines
        )
    else:
        rows = tables.read_rows(path, wanted)
    for number, row in rows:
        if isinstance(row, ValueError):
            raise row
        yield number, row


def _whole(path, suffix):
    """Returns the value of a JSON file that is not lines of JSON, or `None`."""
    lines, named_lines = tables.json_lines(path), suffix in (".jsonl", ".ndjson")
    if (named_lines and not lines) or (
        (named_lines or len(lines) > 1) and not isinstance(_parsed(path, *lines[0]), ValueError)
    ):
        return None
    try:
        return _valid(json.loads("\n".join(line for _, line in lines), object_pairs_hook=tables.Object))
    except (ValueError, RecursionError) as error:
        if named_lines:  # Of lines, the errors name the line.
            return None
        raise ValueError(f"{path}: JSON that cannot be read: {error}") from None


def _parsed(path, number, line):
    try:
        return _valid(tables.json_value(path, number, line))
    except ValueError as error:
        return error


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
