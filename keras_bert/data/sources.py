"""Sources of rows, files and data in Python, which know the place of each row: `dev.csv:7`, `texts[7]`.

`data/formats.py` finds out what a file is; `data/tables.py`, `data/json_rows.py` and `data/arrow.py` read it.
"""

import functools
import json
from typing import Any, NamedTuple

from keras_bert.checks import similar
from keras_bert.data.text_files import valid_text


class Source:
    """Rows by number.

    Attributes:
        name: string, what short texts call it.
        typed: bool, whether values have the types of JSON; those of tables are strings.
        unit: string, what a number counts.
        document: the whole content, if it is one JSON object, or else `None`.
        values: list of the number and the value of each row, or a ValueError for one that cannot be read.
    """

    typed = True
    unit = "line"
    document = None

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
        columns = wanted
        for number, value in self._each_value():
            yield number, value_or_error(self._checked_row, number, value, columns)
            columns = list(wanted)  # Errors of the first row alone name the parameters.

    def _each_value(self):
        """Returns an iterable of `values`, those that are known already if they are."""
        known = vars(self).get("values")  # Of the cached property.
        if known is None:
            return self.stream_values()
        return known

    def written_names(self):
        """Returns the columns as they are before any conversion."""
        return self.names()

    def mapped(self, convert):
        """Returns the source of the rows that a function of the place of a row and the row, a dict, returns."""
        return Mapped(self, convert)

    def _checked_row(self, number, value, wanted):
        """Returns a value that is a row with the wanted columns; raises for any other."""
        if isinstance(value, ValueError):
            raise value
        if not isinstance(value, dict):
            raise ValueError(
                f"{self.place(number)}: expected one JSON object per line. Received: {json.dumps(value):.50}"
            )
        names = getattr(value, "names", list(value))  # Of a `JsonObject`, also those that occur twice.
        check_columns(self.place(number), names, wanted)
        return value

    def names(self, wanted=()):
        """Returns the columns, of JSON those of the first object; `wanted` columns determine the delimiter of CSV."""
        for number, value in self._each_value():
            return list(self._checked_row(number, value, wanted))
        return []


class Mapped(Source):
    """Rows of another source, which a function of the place of a row and the row converts."""

    def __init__(self, origin, convert):
        super().__init__(origin.name)
        self.unit = origin.unit
        self._origin = origin
        self._convert = convert

    def __str__(self):
        return str(self._origin)

    def place(self, number):
        return self._origin.place(number)

    def written_names(self):
        return self._origin.written_names()

    def stream_values(self):
        for number, row in self._origin.stream():
            if isinstance(row, ValueError):
                yield number, row
            else:
                yield number, value_or_error(self._convert, self.place(number), row)


class PythonRows(Source):
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


class Place:
    """The place of a row, whose text is formatted only where a message needs it."""

    __slots__ = ("number", "source")

    def __init__(self, source, number):
        self.source = source
        self.number = number

    def __str__(self):
        return self.source.place(self.number)


class AskedRow(NamedTuple):
    """A row to answer: what is written beside its answer, and what a model takes of it.

    `data.choices` and `answering.prediction_files` read them from files; commands make them of texts without a file.
    """

    record: dict | list | None  # As it stands in its file; `None` without a file, or without names of columns.
    texts: dict  # Strings by input; those of choices are lists.


def value_or_error(function, *arguments):
    """Returns what a function returns, or the ValueError that it raises: whether it matters depends on the task."""
    try:
        return function(*arguments)
    except ValueError as error:
        return error


def check_columns(place, names, wanted):
    """Raises an error if a header or record with columns `names` lacks a wanted column or has it twice.

    `wanted` is a list of columns, or a dict of the parameters that name them, or `None`, which the error mentions.
    """
    absent = [column for column in wanted if column not in names]
    if absent:
        quoted = [f"`{column}`" for column in absent]
        columns = "columns" if len(absent) > 1 else "column"
        parameters = wanted if isinstance(wanted, dict) else {}
        fix = _fix_of_columns(absent, names, parameters)
        listed = ", ".join(map(repr, names))
        raise ValueError(f"{place}: no {columns} {' and '.join(quoted)}. It has: {listed}{fix}")
    for column in wanted:
        if names.count(column) > 1:
            raise ValueError(f"{place}: the column `{column}` appears twice")


def _fix_of_columns(absent, names, parameters):
    """Returns what to do about columns that are absent: similar names, and the parameters that name others."""
    suggestions = []
    others = []
    for column in absent:
        parameter = parameters.get(column)
        alike = similar(column, names)
        if alike and parameter:
            suggestions.append(f"`{parameter}={alike}`")
        elif alike:
            suggestions.append(alike)
        elif parameter:
            others.append(f"`{parameter}`")
    fix = ""
    if suggestions:
        fix = f". Did you mean {' and '.join(suggestions)}?"
    if others:
        separator = " " if fix else ". "
        fix += f"{separator}Name another one with {' and '.join(others)}"
    return fix


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
