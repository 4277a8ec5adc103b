"""The rows of CSV, TSV and JSONL files, each with the number of its line. UTF-8; lines end with LF, CRLF or CR."""

import codecs
import contextlib
import csv
import functools
import json
import logging
import re

_LOG = logging.getLogger("keras_bert")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# Spreadsheets write `.csv` with semicolons where the comma is the decimal point.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_lines(path):
    """Yields (number, line) of a UTF-8 file, without line ends, byte order mark and trailing blank lines.

    Lines end with LF or CRLF, or CR in a file without any LF; `str.splitlines` would split at other characters too.
    """
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise ValueError(f"{path}: the file is UTF-16. Save it as UTF-8 (Excel calls it `CSV UTF-8`)")
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n" if b"\n" in content else b"\r")
    while lines and not lines[-1].strip(b" \r"):
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            yield number, line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: not UTF-8, byte 0x{line[error.start]:02x} at position {error.start}. "
                "Save the file as UTF-8"
            ) from error


def valid_text(text):
    """The text with `?` for lone surrogates, which JSON may have and UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def check_columns(path, line, found, wanted):
    """Refuses a header or record that lacks a column or has it twice."""
    for column in wanted:
        if column not in found:
            raise ValueError(f"{path}:{line}: no column `{column}`. It has: {', '.join(map(repr, found))}")
    for column in wanted:
        if found.count(column) > 1:
            raise ValueError(f"{path}:{line}: the column `{column}` appears twice")


def read_rows(path, wanted):
    """Reads the rows of a `.csv`, `.tsv` or `.jsonl` file, which has the `wanted` columns.

    Returns:
        A list of (line number, raw row), and a function of these two that returns the row as a dict by column, or
        raises a ValueError.
    """
    if _suffix(path) == ".jsonl":
        return list(read_lines(path)), functools.partial(_json_object, path, wanted)
    (line, header), *rows = _lines_of_table(path, wanted)
    check_columns(path, line, header, wanted)
    return rows, functools.partial(table_row, path, header)


def good_rows(path, raw_rows, parse, skip_bad_rows=None):
    """Parses rows; up to `skip_bad_rows` that raise a ValueError are skipped with a warning. Defaults to none.

    Args:
        path: the file.
        raw_rows: list of (line number, raw row).
        parse: function of these two.

    Returns:
        A list of (line number, row number, parsed row).
    """
    if not raw_rows:
        raise ValueError(f"{path}: no rows")
    rows, bad = [], []
    for number, (line, raw) in enumerate(raw_rows):
        try:
            rows.append((line, number, parse(line, raw)))
        except ValueError as error:
            bad.append(line)
            if skip_bad_rows is None:
                raise
            if len(bad) > skip_bad_rows:
                raise ValueError(
                    f"{error}. Mend the file or raise `skip_bad_rows`. Received: skip_bad_rows={skip_bad_rows}"
                ) from error
    if not rows:
        raise ValueError(f"{path}: no row can be read, first line {bad[0]}")
    if bad:
        _LOG.warning("%s: left out %d rows that cannot be read, first line %d", path, len(bad), bad[0])
    return rows


def column_names(path, wanted=()):
    """The columns of a table, in JSONL those of the first object. CSV is split such that it has those `wanted`."""
    if _suffix(path) == ".jsonl":
        return [name for line, text in list(read_lines(path))[:1] for name in _json_object(path, wanted, line, text)]
    return _lines_of_table(path, wanted)[0][1]


def _suffix(path):
    readers = (".csv", ".tsv", ".jsonl")
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: the name must end in {', '.join(readers)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    return path.suffix.lower()


def _lines_of_table(path, wanted):
    """(line number, fields) of each row of CSV or TSV, the header first."""
    rows = _csv_rows(path, wanted) if _suffix(path) == ".csv" else _tsv_rows(path)
    if not rows:
        raise ValueError(f"{path}: the file is empty. Expected a first line with the names of the columns")
    return rows


def _csv_rows(path, wanted):
    lines, rows = [f"{line}\n" for _, line in read_lines(path)], []
    with _fields_up_to(sum(map(len, lines))):
        # `strict`: otherwise a quote that is never closed swallows the rest of the file in silence.
        reader = csv.reader(lines, delimiter=_delimiter(path, lines, wanted), strict=True)
        while True:
            first = reader.line_num + 1  # A quoted field may go over several lines.
            try:
                rows.append((first, next(reader)))
            except StopIteration:
                return rows
            except csv.Error as error:
                raise ValueError(f"{path}:{first}: {_csv_problem(error)}") from error


@contextlib.contextmanager
def _fields_up_to(longest):
    """Lifts the limit of `csv`, 131,072 characters a field: a whole document is a legal text."""
    before = csv.field_size_limit(max(longest, csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _delimiter(path, lines, wanted):
    """The one of `_DELIMITERS` with which the header has the wanted columns, the comma first."""
    headers = {delimiter: _header(lines, delimiter) for delimiter in _DELIMITERS}
    fitting = [delimiter for delimiter, header in headers.items() if set(wanted).issubset(header)]
    # If none fits, the error shows the columns of the likeliest.
    chosen = fitting[0] if fitting else max(headers, key=lambda delimiter: len(headers[delimiter]))
    if chosen != ",":
        _LOG.info("%s: its columns are separated by %s", path, _DELIMITERS[chosen])
    return chosen


def _header(lines, delimiter):
    try:
        return next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _csv_problem(error):
    if "new-line character" in str(error):
        return "a carriage return within a line. Save the file with one kind of line end, or put the field in quotes"
    return f"{error}. Expected CSV with quotes doubled inside of quotes"


def _tsv_rows(path):
    rows = [(number, line.split("\t")) for number, line in read_lines(path)]
    begun = [field for _, row in rows for field in row if field.startswith('"')]
    if all(map(_QUOTED.fullmatch, begun)):
        rows = [(number, [_unquoted(field) for field in row]) for number, row in rows]
    return rows


def _unquoted(field):
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def table_row(path, header, line, row):
    if len(row) != len(header):
        raise ValueError(f"{path}:{line}: expected {len(header)} columns, got {len(row)}")
    return dict(zip(header, row, strict=True))


def _json_object(path, wanted, line, text):
    try:
        record = json.loads(text, object_pairs_hook=tuple)  # A dict would hide names that appear twice.
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # A number of thousands of digits, or nested too deeply.
        raise ValueError(f"{path}:{line}: JSON that cannot be read: {error}") from error
    if not isinstance(record, tuple):
        raise ValueError(f"{path}:{line}: expected one JSON object a line. Received: {text[:50]}")
    names = [name for name, _ in record]
    check_columns(path, line, names, wanted)
    return dict(record)
