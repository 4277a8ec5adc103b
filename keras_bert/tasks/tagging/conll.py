"""Reads and writes CoNLL files: one word per line with its tag in a column, blank lines between sentences."""

import collections
import csv
import dataclasses
import re

from keras_bert.files import write_text
from keras_bert.tasks.rows import read_lines, valid_text

DOCUMENT = "-DOCSTART-"
_COMMENT = re.compile(r"#\s*(id|text|sent_id|newdoc|newpar|global\.columns)\b")
_GLOBAL = re.compile(r"#\s*global\.columns\s*=(.*)")
_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The content of a CoNLL file.

    Args:
        words: list of lists of strings, the words of each sentence.
        tags: like `words`, or `None` for a file without tags.
        numbers: like `words`, the line numbers.
        documents: list of ints, the document of each sentence, from 0.
        lines: list of strings, all lines of the file.
        separator: string between the columns; `None` for any number of spaces and tabs.
        width: int, the number of columns.
    """

    words: list
    tags: list | None
    numbers: list
    documents: list
    lines: list
    separator: str | None
    width: int

    def write(self, path, predicted):
        """Writes the file with one more column: the predicted tags, a list of lists."""
        tags = dict(zip(_flat(self.numbers), _flat(predicted), strict=True))
        lines = list(self.lines)
        for number, line in enumerate(lines, 1):
            if number in tags or line.startswith(DOCUMENT):
                lines[number - 1] = f"{line.rstrip() if self.separator is None else line}{self.separator or ' '}"
                lines[number - 1] += tags.get(number, "O")
        write_text(path, "\n".join(lines) + "\n")


def read(path, word_column=None, tag_column=None, separator=None, width=None):
    """Reads a file.

    `-DOCSTART-` lines separate documents. Comments, such as `# id 1`, are only allowed before a sentence.

    Args:
        path: the file, in UTF-8.
        word_column, tag_column: columns, numbers from 1 (from -1 at the end) or names: in a first line of names or in
            `# global.columns =`. Default to the first and the last one.
        separator: string between columns. By default, tabs if the first line of words contains one, else spaces, else
            commas, semicolons or bars.
        width: int, number of columns of a file with tags: a file with fewer has none. Defaults to that of this file.
    """
    numbered = read_lines(path)
    content = [(number, line) for number, line in numbered if not _is_border(line) and not _COMMENT.match(line)]
    if not content:
        raise ValueError(f"{path}: no words. Expected one word per line with its tag in a column")
    separator = _separator(path, separator, *content[0])
    rows = {number: _split(path, number, line, separator) for number, line in content}
    count = collections.Counter(map(len, rows.values())).most_common(1)[0][0]
    has_tags = count >= (width or 2)
    names, header = _names(numbered, rows, (word_column, tag_column))
    word, tag = (
        _index(path, flag, column, default, names, count)
        for flag, column, default in (
            ("word_column", word_column, 1),
            ("tag_column", tag_column if has_tags else -1, -1),
        )
    )
    if has_tags and word == tag:
        raise ValueError(f"{path}: words and tags are in the same column, {word + 1} of {count}")
    found = Columns([], [] if has_tags else None, [], [], [line for _, line in numbered], separator, count)
    document, is_new = 0, True
    for number, line in numbered:
        if _is_border(line):
            is_new = True
            document += line.startswith(DOCUMENT)
        elif number in rows and number != header:
            row = rows[number]
            if len(row) != count:
                if is_new and line.startswith("#"):
                    continue
                raise ValueError(f"{path}:{number}: expected {count} columns, like most lines. Received: {len(row)}")
            if is_new:
                for column in (found.words, found.numbers, *([found.tags] if has_tags else [])):
                    column.append([])
                found.documents.append(document)
                is_new = False
            _add(path, found, number, row[word], row[tag] if has_tags else None)
    if not found.words:
        raise ValueError(f"{path}: no words below the names of the columns")
    return found


def _add(path, found, number, word, tag):
    if not word.strip():
        raise ValueError(f"{path}:{number}: the word is empty")
    found.words[-1].append(valid_text(word))
    found.numbers[-1].append(number)
    if tag is not None:
        if not tag.strip():
            raise ValueError(f"{path}:{number}: the tag is empty. Expected O for words outside of all entities")
        found.tags[-1].append(valid_text(tag.strip()))


def _is_border(line):
    return not line.strip() or line.startswith(DOCUMENT)


def _separator(path, separator, number, line):
    """Returns the separator of the columns; `None` for spaces and tabs."""
    if separator is not None:
        separator = _NAMES.get(separator, separator)
        return None if separator == " " else separator
    if "\t" in line:
        return "\t"
    if re.search(r"\S +\S", line):
        return None
    for candidate in (",", ";", "|"):
        if len(_split(path, number, line, candidate)) > 1:
            return candidate
    return None  # A file of words without tags.


def _split(path, number, line, separator):
    if separator is None:
        return re.split(r"[ \t]+", line.strip(" \t"))  # `str.split` would also split at no-break spaces.
    if separator not in (",", ";"):
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}:{number}: {error}. Expected CSV with doubled quotes inside quoted fields") from None


def _names(numbered, rows, wanted):
    """Returns the names of the columns, and the number of the line that has them, if a column is given by its name."""
    for _, line in numbered:
        if match := _GLOBAL.match(line):
            return match[1].split(), None
    number, first = next(iter(rows.items()))
    named = [column for column in wanted if column is not None and not re.fullmatch(r"-?\d+", str(column))]
    return (first, number) if named else (None, None)


def _index(path, flag, column, default, names, count):
    """Returns the index of a column."""
    column = default if column is None else column
    if re.fullmatch(r"-?\d+", str(column)):
        number = int(column)
        if not 1 <= abs(number) <= count:
            raise ValueError(f"{path}: `{flag}` must be from 1 to {count}, or from -1 for the last. Received: {number}")
        return number - 1 if number > 0 else count + number
    if column not in (names or ()):
        raise ValueError(
            f"{path}: no column `{column}`. It has: {', '.join(names)}. Expected --{flag} to name or number one"
        )
    return names.index(column)


def _flat(lists):
    return [value for values in lists for value in values]
