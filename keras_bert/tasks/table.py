"""A user's own data: CSV, TSV or JSONL with a column of text, perhaps a second one, and perhaps labels.

CSV is quoted as spreadsheets do it (RFC 4180). TSV has one line a row, as GLUE's files do; its quotes are quotation
marks, unless every field of the file that begins with one is quoted as a whole, doubled quotes within. Text with tabs
or line breaks needs CSV or JSONL. The first line of CSV and TSV names the columns.
"""

import codecs
import collections
import csv
import dataclasses
import json
import math
import pathlib
import re

_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclasses.dataclass(frozen=True)
class Examples:
    """What a model learns from or is asked, row by row.

    Args:
        text: list of strings.
        pair: list of strings, the second sentences; `None` for a task of single sentences.
        labels: list of class numbers, of floats for regression, or of strings where the classes are not known yet;
            `None` if there are none.
        ids: list of numbers by which others know the rows.
    """

    text: list
    pair: list | None
    labels: list | None
    ids: list

    def __len__(self):
        return len(self.text)

    def first(self, count):
        """The first `count` rows; all of them for `None`."""
        if count is not None and count < 1:
            raise ValueError(f"`count` must be at least 1. Received: count={count}")
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Examples(*(column and column[:count] for column in columns))


def read_table(path, text_column, pair_column=None, label_column=None, labels=None, regression=False):
    """Reads a table whose name ends in `.csv`, `.tsv` or `.jsonl`.

    Args:
        path: the file, in UTF-8.
        text_column: the column of the sentence, or of the first one of a pair.
        pair_column: the column of the second sentence.
        label_column: the column of the label; without it `Examples.labels` is `None`.
        labels: the classes in the order of their numbers, those of the training data for all files. Without them
            `Examples.labels` has the labels as they stand, for `discover_labels`.
        regression: whether labels are numbers to predict.

    Returns:
        `Examples`, their ids the row numbers from 0.

    Example:
        labels = discover_labels(read_table("train.csv", "review", label_column="stars").labels)
        train = read_table("train.csv", "review", label_column="stars", labels=labels)
        dev = read_table("dev.csv", "review", label_column="stars", labels=labels)
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    path = pathlib.Path(path)
    wanted = [column for column in (text_column, pair_column, label_column) if column is not None]
    records = _records(path, wanted)
    if not records:
        raise ValueError(f"{path}: no rows")
    numbers = None if labels is None else {str(label): number for number, label in enumerate(labels)}
    return Examples(
        text=[_text(path, *record, text_column) for record in records],
        pair=[_text(path, *record, pair_column) for record in records] if pair_column is not None else None,
        labels=[_label(path, *record, label_column, numbers, regression) for record in records]
        if label_column is not None
        else None,
        ids=list(range(len(records))),
    )


def column_names(path):
    """The columns of a table: those of the first line, of JSONL those of the first object."""
    path = pathlib.Path(path)
    if path.suffix.lower() == ".jsonl":
        return [name for _, record in _records(path, [])[:1] for name in record]
    return _lines_of_table(path)[0][1]


def discover_labels(labels):
    """The different labels, sorted: as numbers if all are whole numbers, otherwise as strings."""
    found = set(map(str, labels))
    if len(found) < 2:
        raise ValueError(f"`labels` must have two classes at least. Received: {sorted(found)}")
    whole = all(re.fullmatch(r"-?[0-9]+", label) for label in found)
    return sorted(found, key=lambda label: (int(label) if whole else 0, label))


def balance(labels, names=None):
    """One line about labels: each class with its count and share, the largest first, or the range of floats.

    Args:
        labels: class numbers, strings, or floats.
        names: names of the classes in the order of their numbers.
    """
    if not labels:
        return "no labels"
    if all(isinstance(label, float) for label in labels):
        mean = math.fsum(labels) / len(labels)
        return f"{len(labels):,} numbers from {min(labels):g} to {max(labels):g}, mean {mean:.4g}"
    counts = collections.Counter(names[label] if names else str(label) for label in labels)
    # A class that never stands is what one wants to hear of.
    counts.update(dict.fromkeys(names or (), 0))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name}: {count:,} ({count / len(labels):.1%})" for name, count in ordered)


def read_lines(path):
    """(number, line) of each line of a UTF-8 file, without line ends and without the byte order mark.

    A line ends with LF or CRLF alone: text has other characters that `str.splitlines` takes for line ends.
    """
    lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            yield number, line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: not UTF-8, byte 0x{line[error.start]:02x} at position {error.start}. "
                "Save the file as UTF-8"
            ) from error


def check_columns(path, line, found, wanted):
    """Refuses a header or record that lacks a column."""
    for column in wanted:
        if column not in found:
            raise ValueError(f"{path}:{line}: no column `{column}`. It has: {', '.join(map(repr, found))}")


def _records(path, wanted):
    """(line number, dictionary by column) of each row."""
    if path.suffix.lower() == ".jsonl" and path.is_file():
        return [(line, _json_object(path, line, text, wanted)) for line, text in read_lines(path)]
    (line, header), *rows = _lines_of_table(path)
    check_columns(path, line, header, wanted)
    twice = [column for column in wanted if header.count(column) > 1]
    if twice:
        raise ValueError(f"{path}:{line}: the column `{twice[0]}` stands twice")
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(f"{path}:{line}: expected {len(header)} columns, got {len(row)}")
    return [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _lines_of_table(path):
    """(line number, fields) of each row of CSV or TSV, the header first."""
    readers = {".csv": _csv_rows, ".tsv": _tsv_rows, ".jsonl": None}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: the name must end in {', '.join(readers)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    rows = readers[path.suffix.lower()](path)
    if not rows:
        raise ValueError(f"{path}: the file is empty. Expected a first line with the names of the columns")
    return rows


def _csv_rows(path):
    # `strict`: otherwise a quote that is never closed swallows the rest of the file in silence.
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    rows = []
    while True:
        first = reader.line_num + 1  # A quoted field may go over several lines.
        try:
            rows.append((first, next(reader)))
        except StopIteration:
            return rows
        except csv.Error as error:
            raise ValueError(f"{path}:{first}: {error}. Expected CSV with quotes doubled inside of quotes") from error


def _tsv_rows(path):
    rows = [(number, line.split("\t")) for number, line in read_lines(path)]
    begun = [field for _, row in rows for field in row if field.startswith('"')]
    if all(map(_QUOTED.fullmatch, begun)):
        rows = [(number, [_unquoted(field) for field in row]) for number, row in rows]
    return rows


def _unquoted(field):
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def _json_object(path, line, text, wanted):
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path}:{line}: expected one JSON object a line. Received: {text[:50]}")
    check_columns(path, line, record, wanted)
    return record


def _text(path, line, record, column):
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{path}:{line}: column `{column}` must be a string. Received: {text!r}")
    if not text.strip():
        raise ValueError(f"{path}:{line}: column `{column}` is empty")
    return text


def _label(path, line, record, column, numbers, regression):
    label = record[column]
    if isinstance(label, bool) or not isinstance(label, str | int | float):
        raise ValueError(f"{path}:{line}: column `{column}` must be a string or a number. Received: {label!r}")
    if regression:
        return finite_number(path, line, column, label)
    label = str(label)
    if not label.strip():
        raise ValueError(f"{path}:{line}: column `{column}` is empty")
    if numbers is None:
        return label
    if label not in numbers:
        raise ValueError(f"{path}:{line}: unknown label {label!r}. Expected one of: {', '.join(map(repr, numbers))}")
    return numbers[label]


def finite_number(path, line, column, value):
    """A float, or an error that says where it stands."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{path}:{line}: column `{column}` must be a finite number. Received: {value!r}")
    return number
