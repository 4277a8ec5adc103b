"""Rows of JSON: one in each line, or a whole value with a list of rows."""

import itertools
import json

from keras_bert.data import text_files
from keras_bert.data.sources import File, value_or_error
from keras_bert.data.text_files import valid_text

_NAMES_OF_LINES = (".jsonl", ".ndjson")


class JsonLines(File):
    """Rows of JSON, one in each line.

    Args:
        path: `pathlib.Path`, the file.
        replace_surrogates: bool, whether strings are changed by `valid_text`. Defaults to `True`.
    """

    def __init__(self, path, replace_surrogates=True):
        super().__init__(path)
        self._parse = _valid_row if replace_surrogates else _parsed_row

    def stream_values(self):
        for number, line in _lines_with_content(self.path):
            yield number, value_or_error(self._parse, self.path, number, line)


class Json(File):
    """A whole JSON value: a list of rows, an object with a list of rows under `data`, or one row."""

    def __init__(self, path, value):
        super().__init__(path)
        rows = value
        if isinstance(value, dict):
            self.document = value
            rows = value.get("data")
        self._rows = rows if isinstance(rows, list) else [value]

    def stream_values(self):
        yield from enumerate(self._rows, 1)


class JsonObject(dict):
    """A JSON object whose `names` are those in the file, also those that occur twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.names = [name for name, _ in pairs]


def json_source(path, suffix):
    """Returns the source of a file of JSON, `JsonLines` or `Json`; `suffix` is the end of its name."""
    if _has_row_in_each_line(path, suffix):
        return JsonLines(path)
    try:
        text = text_files.whole_text(path).replace("\r\n", "\n").rstrip()
        return Json(path, _with_valid_texts(json.loads(text, object_pairs_hook=JsonObject)))
    except (ValueError, RecursionError) as error:
        if suffix in _NAMES_OF_LINES:
            return JsonLines(path)  # Its errors name the line.
        raise ValueError(f"{path}: JSON that cannot be read: {error}") from None


def _has_row_in_each_line(path, suffix):
    """Whether a file of JSON has a row in each line, by its first line; without a name that says so, by two lines."""
    is_named_so = suffix in _NAMES_OF_LINES
    count = 1 if is_named_so else 2
    try:
        lines = list(itertools.islice(_lines_with_content(path), count))
    except text_files.LongLineError:
        if is_named_so:
            raise
        return False
    if not lines:
        return is_named_so
    number, line = lines[0]
    first = value_or_error(_valid_row, path, number, line)
    return not isinstance(first, ValueError) and len(lines) == count


def _lines_with_content(path):
    """Yields the number and the line of those that are not blank."""
    for number, line in text_files.stream_lines(path):
        if line.strip():
            yield number, line


def _valid_row(path, line, text):
    """Returns the value of a line, without lone surrogates in its strings."""
    return _with_valid_texts(_parsed_row(path, line, text))


def _parsed_row(path, line, text):
    """Returns the value of a line."""
    try:
        return json.loads(text, object_pairs_hook=JsonObject)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # Numbers with thousands of digits, or too deep nesting.
        raise ValueError(f"{path}:{line}: JSON that cannot be read: {error}") from error


def _with_valid_texts(value):
    """Returns a JSON value with `valid_text` of all strings; objects are changed in place."""
    if isinstance(value, dict):
        for name, part in value.items():
            value[name] = _with_valid_texts(part)
        return value
    if isinstance(value, list):
        return [_with_valid_texts(part) for part in value]
    if isinstance(value, str):
        return valid_text(value)
    return value
