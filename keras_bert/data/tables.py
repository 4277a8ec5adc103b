"""Reads lines and rows of text files: CSV, TSV and JSONL in UTF-8, with LF, CRLF or CR line ends."""

import codecs
import contextlib
import csv
import functools
import gzip
import itertools
import json
import logging
import pathlib
import re
import zlib

from keras_bert.checks import similar

_LOG = logging.getLogger("keras_bert")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# What spreadsheets take for formulas, some also after white space or with full-width signs, and the mark of a text.
_FORMULA = re.compile(r"[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|['\t\r\n]")
# Spreadsheets separate `.csv` by semicolons in locales with decimal commas.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_lines(path):
    """Returns (line number, line) of a UTF-8 file, without line ends, byte order mark and trailing blank lines."""
    lines = split_lines(decoded(_content(path), path))
    while lines and not lines[-1].strip(" \r"):
        lines.pop()
    return list(enumerate(lines, 1))


def stream_lines(path):
    """Yields what `read_lines` returns without reading the file as a whole, unless all of its line ends are CR."""
    blank = []
    with _opened(path) as file:
        for number, content in enumerate(file, 1):
            if number == 1 and not content.endswith(b"\n"):
                yield from read_lines(path)
                return
            line = decoded(content, path, number)
            blank.append((number, line.removesuffix("\n").removesuffix("\r")))
            if line.strip(" \r\n"):
                yield from blank
                blank = []


def decoded(content, name, first_line=1):
    """Decodes the bytes of the UTF-8 file `name` from a line to the end, without its byte order mark."""
    if first_line == 1:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
            found = "UTF-32" if b"\0\0" in content[:4] else "UTF-16"
            raise ValueError(f"{name}: the file is {found}. Save it as UTF-8 (Excel calls it `CSV UTF-8`)")
        if content.startswith(b"PK\x03\x04"):
            raise ValueError(f"{name}: the file is compressed. Decompress it")
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        *lines, line = split_lines(content[: error.start].decode("utf-8"))
        raise ValueError(
            f"{name}:{len(lines) + first_line}: not UTF-8, byte 0x{content[error.start]:02x} at position "
            f"{len(line.encode())}. Save the file as UTF-8"
        ) from error


def split_lines(text):
    """Splits a text at LF or CRLF, or at CR if it has no LF. `str.splitlines` would also split at other characters."""
    return [line.removesuffix("\r") for line in text.split("\n" if "\n" in text else "\r")]


def as_text(cell):
    """Precedes a cell to write that spreadsheets would take for a formula by an apostrophe, as `page/csv.js` does."""
    return f"'{cell}" if _FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def valid_text(text):
    """Replaces lone surrogates, which JSON may contain and UTF-8 cannot encode, by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


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


def read_rows(path, wanted, header=None):
    """Reads the rows of a `.csv` or `.tsv` file, see `Source.rows`."""
    rows = lines_of_table(path, wanted)
    if header is None:
        (line, header), *rows = rows
        check_columns(f"{path}:{line}", header, wanted)
        header = _unique(header)
    return [(line, _row(table_row, f"{path}:{line}", header, fields)) for line, fields in rows]


def _unique(names):
    """Returns the names of columns, those that repeat others with a number: `x`, `x.1`."""
    found = {}
    for name in names:
        free = (f"{name}.{number}" if number else name for number in itertools.count())
        found[next(each for each in free if each not in found and (each == name or each not in names))] = None
    return list(found)


def _row(parse, *arguments):
    try:
        return parse(*arguments)
    except ValueError as error:
        return error


def is_json_lines(path):
    """Returns whether a file is JSONL; raises for files that are not tables, and for missing ones."""
    suffixes = (".csv", ".tsv", ".jsonl")
    if suffix(path) not in suffixes:
        raise ValueError(f"{path}: the name must end in {', '.join(suffixes)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    return suffix(path) == ".jsonl"


def suffix(path):
    """Returns the end of the name of a file in lower case, without that of gzip."""
    name = path.name.lower().removesuffix(".gz")
    return pathlib.Path(name).suffix


def first_bytes(path):
    """Returns the beginning of a file, uncompressed."""
    with _opened(path) as file:
        return file.read(512)


def _content(path):
    with _opened(path) as file:
        return file.read()


@contextlib.contextmanager
def _opened(path):
    """Opens a file, which may be compressed by gzip."""
    with open(path, "rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if is_compressed else open(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: gzip that cannot be read: {error}") from None


def lines_of_table(path, wanted):
    """Returns (line number, fields) of each row of CSV or TSV, header first; for `wanted` see `column_names`.

    Blank lines are not rows. In a single column, lines of white space are texts, in TSV also empty lines.
    """
    rows = _csv_rows(path, wanted) if suffix(path) == ".csv" else split_tabs(path, _unquoted)
    rows = list(itertools.dropwhile(lambda row: is_blank(row[1]), rows))
    if not rows:
        raise ValueError(f"{path}: the file is empty. Expected a first line with the names of the columns")
    has_one_column = len(rows[0][1]) == 1
    return [row for row in rows if (row[1] if has_one_column else not is_blank(row[1]))]


def split_tabs(path, convert=str):
    """Returns (line number, fields) of each line of a file whose columns are separated by tabs."""
    return [(number, list(map(convert, line.split("\t")))) for number, line in read_lines(path)]


def is_blank(fields):
    """Whether the fields of a row with several columns are those of a blank line."""
    return not fields or (len(fields) == 1 and not fields[0].strip())


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
                raise ValueError(f"{path}:{first}: {_csv_problem(error)}") from error


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


def _csv_problem(error):
    if "new-line character" in str(error):
        return "a carriage return within a line. Save the file with consistent line ends, or quote the field"
    return f"{error}. Expected CSV with doubled quotes inside quoted fields"


def _unquoted(field):
    return field[1:-1].replace('""', '"') if _QUOTED.fullmatch(field) else field


def table_row(place, header, fields):
    """Returns the fields of a row as a dict by column."""
    if len(fields) != len(header):
        raise ValueError(f"{place}: expected {len(header)} columns, got {len(fields)}")
    return dict(zip(header, fields, strict=True))


def json_value(path, line, text):
    """Parses a line of JSON."""
    try:
        return json.loads(text, object_pairs_hook=Object)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # Numbers with thousands of digits, or too deep nesting.
        raise ValueError(f"{path}:{line}: JSON that cannot be read: {error}") from error


def json_lines(path):
    """Returns (line number, line) of each line of JSONL that is not blank."""
    return [(number, line) for number, line in read_lines(path) if line.strip()]


class Object(dict):
    """A JSON object that knows of names that occur twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.names = [name for name, _ in pairs]
