"""Reads and writes CoNLL files: one word per line with its tag in a column, blank lines between sentences."""

import collections
import csv
import dataclasses
import logging
import re

from keras_bert.checks import similar
from keras_bert.data.tables import read_lines, suffix
from keras_bert.files import write_text

_LOG = logging.getLogger("keras_bert")
DOCUMENT = "-DOCSTART-"
_RANGE = re.compile(r"\d+[-.]\d+")  # In CoNLL-U, a word that others repeat in parts, or that is not in the text.
_INTEGER = re.compile(r"\d+")
_PREFIXED = re.compile(r"[BIELSU]-.+")
# Usual names of the columns of words and of tags.
_WORDS = {"word", "words", "token", "tokens", "form"}
_TAGS = {"tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "entity", "chunk", "pos", "upos", "xpos"}
_GLOBAL = re.compile(r"#\s*global\.columns\s*=(.*)")
_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The content of a CoNLL file."""

    words: list  # Of each sentence.
    tags: list | None  # `None` for a file without tags.
    numbers: list  # Line numbers of the words.
    documents: list  # The document of each sentence, from 0.
    lines: list  # All lines of the file.
    separator: str | None  # Between columns; `None` for any number of spaces and tabs.
    width: int
    header: int | None  # Number of the line with the names of the columns.
    names: list | None
    others: list  # Numbers of lines that are not words.

    def write(self, path, predicted):
        """Writes the file with one more column: the predicted tags, a list of lists."""
        cells = dict(zip(_flat(self.numbers), _flat(predicted), strict=True)) | dict.fromkeys(self.others, "_")
        if self.header is not None:
            cells[self.header] = "predicted"
        lines = list(self.lines)
        for number, line in enumerate(lines, 1):
            if number in cells or _is_document(line):
                kept = line.rstrip(" \t") if self.separator is None else line
                lines[number - 1] = f"{kept}{self.separator or ' '}{self._cell(cells.get(number, 'O'))}"
        write_text(path, "\n".join(lines) + "\n")

    def _cell(self, tag):
        if self.separator not in (",", ";") or not any(sign in tag for sign in (self.separator, '"')):
            return tag
        doubled = tag.replace('"', '""')
        return f'"{doubled}"'


def read(path, word_column=None, tag_column=None, separator=None, like=None):
    """Reads a file in UTF-8.

    `-DOCSTART-` lines separate documents. Lines before a sentence that start with `#` are comments, unless they have as
    many columns as the words and a tag of theirs or with a prefix. Without tags, those that start with "# " are.

    Args:
        word_column, tag_column: columns, numbers from 1 (from -1 at the end) or names: in a first line of names or in
            `# global.columns =`. Default to the first and the last one.
        separator: string between columns. By default, tabs if the first line of words contains one, else spaces, else
            commas, semicolons or bars; in `.csv`, first commas and semicolons.
        like: `Columns` of a file with tags: a file with fewer columns has none.
    """
    numbered = read_lines(path)
    content = [(number, line) for number, line in numbered if not _is_border(line)]
    words = [(number, line) for number, line in content if not line.startswith("#")] or content
    if not words:
        raise ValueError(f"{path}: no words. Expected one word per line with its tag in a column")
    separator = _separator(path, separator, words, like)
    rows = {number: _split(path, number, line, separator) for number, line in content}
    count = collections.Counter(len(rows[number]) for number, _ in words).most_common(1)[0][0]
    names, header = _names(numbered, rows[words[0][0]], words[0][0], (word_column, tag_column), count, like)
    has_tags = count > 1 and (like is None or count >= like.width or _number(tag_column, -1) in range(1, count + 1))
    if not has_tags and count == 1:
        word_column = None
    word = _index(path, "word_column", word_column, 1, names, count)
    tag = _index(path, "tag_column", tag_column if has_tags else -1, -1, names, count)
    if has_tags and word == tag:
        raise ValueError(f"{path}: words and tags are in the same column, {word + 1} of {count}")
    inside = [rows[number] for number in _inside(numbered, header)]
    tags = {row[tag] for row in inside if len(row) == count}
    numbers = [row[0] for row in inside if not _RANGE.fullmatch(row[0])]
    is_numbered = word > 0 and bool(numbers) and all(map(_INTEGER.fullmatch, numbers))  # As in CoNLL-U.
    found = Columns(
        [], [] if has_tags else None, [], [], [line for _, line in numbered], separator, count, header, names, []
    )
    doubtful = _add_rows(path, found, numbered, rows, word, tag if has_tags else None, tags, is_numbered)
    if not found.words:
        raise ValueError(f"{path}: no words below the names of the columns")
    if doubtful:
        _LOG.warning(
            "%s: %d line(s) that start with # have all columns, but a tag of no other word, and are read as comments, "
            "the first is line %d",
            *(path, len(doubtful), doubtful[0]),
        )
    return found


def _add_rows(path, found, numbered, rows, word, tag, tags, is_numbered):
    """Adds the words of all lines to `Columns`; returns the numbers of the comments that may be words.

    `rows` are the columns of each line by its number; `tag` is `None` without tags, `tags` are those of words. If
    `is_numbered`, the first column has the numbers of the words, as in CoNLL-U.
    """
    document, is_new, doubtful = 0, True, []
    for number, line in numbered:
        if _is_border(line):
            is_new = True
            document += _is_document(line)
            continue
        row = rows[number]
        fits = len(row) == found.width
        is_word = fits and (not line.startswith("# ") if tag is None else _is_tag(row[tag], tags))
        if number == found.header or (line.startswith("#") and is_new and not is_word):
            doubtful += [number] if fits and not line.startswith("# ") and number != found.header else []
            continue
        if not fits:
            raise ValueError(f"{path}:{number}: expected {found.width} columns, like most lines. Received: {len(row)}")
        if is_numbered and _RANGE.fullmatch(row[0]):
            found.others.append(number)
            continue
        if is_new:
            for column in (found.words, found.numbers, *([] if tag is None else [found.tags])):
                column.append([])
            found.documents.append(document)
            is_new = False
        _add(path, found, number, row[word], None if tag is None else row[tag])
    return doubtful


def _inside(numbered, header):
    """Yields the numbers of the lines of words; of those that start with "#", only those after another word."""
    after_word = False
    for number, line in numbered:
        is_word = not _is_border(line) and number != header and (after_word or not line.startswith("#"))
        if is_word:
            yield number
        after_word = is_word


def _is_tag(tag, tags):
    return tag in tags or _PREFIXED.fullmatch(tag) is not None


def _add(path, found, number, word, tag):
    if not word.strip():
        raise ValueError(f"{path}:{number}: the word is empty")
    found.words[-1].append(word)
    found.numbers[-1].append(number)
    if tag is not None:
        if not tag.strip():
            raise ValueError(f"{path}:{number}: the tag is empty. Expected O for words outside of all entities")
        found.tags[-1].append(tag.strip())


def _is_border(line):
    return not line.strip() or _is_document(line)


def _is_document(line):
    return line.lstrip('\ufeff "').startswith(DOCUMENT)


def _separator(path, separator, words, like):
    """Returns the separator of the columns; `None` for spaces and tabs."""
    number, line = words[0]
    if separator is not None:
        separator = _NAMES.get(separator, separator)
        return None if separator == " " else separator
    if suffix(path) == ".csv":
        return next((sign for sign in ",;" if len(_split(path, number, line, sign)) > 1), ",")
    if "\t" in line:
        return "\t"
    if like is not None and like.separator == "\t":  # Words may contain spaces.
        in_spaces = all(len(_split(path, *word, None)) == like.width for word in words)
        return None if in_spaces else "\t"
    if re.search(r"\S +\S", line):
        return None
    # A comma may be a word of a file without tags.
    candidates = ",;|" if like is None else like.separator or ""
    return next((sign for sign in candidates if len(_split(path, number, line, sign)) > 1), None)


def _split(path, number, line, separator):
    if separator is None:
        return re.split(r"[ \t]+", line.strip(" \t"))  # `str.split` would also split at no-break spaces.
    if separator not in (",", ";"):
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error as error:
        if line.startswith("#"):  # A comment.
            return [line]
        raise ValueError(f"{path}:{number}: {error}. Expected CSV with doubled quotes inside quoted fields") from None


def _names(numbered, first, number, wanted, count, like):
    """Returns the names of the columns, and the number of the line that has them, or `None` each."""
    for _, line in numbered:
        if match := _GLOBAL.match(line):
            return match[1].split(), None
    named = [column for column in wanted if column is not None and _number(column) is None]
    lower = {name.lower() for name in first}
    if count == 1:  # Only words, below a name if there is one in the other file.
        names = [*named, *(like.names if like and like.header is not None else [])]
        return (first, number) if first[0] in names else (None, None)
    return (first, number) if named or (lower & _WORDS and lower & _TAGS) else (None, None)


def _number(column, default=None):
    """Returns a column that is given by its number."""
    return int(column) if re.fullmatch(r"-?\d+", str(column)) else default


def _index(path, flag, column, default, names, count):
    """Returns the index of a column."""
    column = default if column is None else column
    if (number := _number(column)) is not None:
        if not 1 <= abs(number) <= count:
            raise ValueError(f"{path}: `{flag}` must be from 1 to {count}, or from -1 for the last. Received: {number}")
        return number - 1 if number > 0 else count + number
    if (names or ()).count(column) > 1:
        raise ValueError(f"{path}: {names.count(column)} columns are named `{column}`. Give its number with `{flag}`")
    if column not in (names or ()):
        found = similar(column, names or ())
        fix = f"Did you mean `{flag}={found}`?" if found else f"Choose one with `{flag}`"
        raise ValueError(f"{path}: no column `{column}`. It has: {', '.join(names or ['no names'])}. {fix}")
    if names.index(column) >= count:
        raise ValueError(f"{path}: `{column}` is column {names.index(column) + 1}, but most lines have only {count}")
    return names.index(column)


def _flat(lists):
    return [value for values in lists for value in values]
