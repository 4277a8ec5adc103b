"""Reads and writes CoNLL files: one word per line with its tag in a column, blank lines between sentences."""

import collections
import csv
import dataclasses
import itertools
import logging
import re

from keras_bert.checks import similar
from keras_bert.data.text_files import read_lines, suffix
from keras_bert.files import write_text
from keras_bert.tasks.tagging.sentences import Sentences

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns(Sentences):
    """The sentences of a CoNLL file, and its columns."""

    numbers: list  # Line numbers of the words.
    rows: list  # All lines of the file; `None` for words of other sentences.
    separator: str | None  # Between columns; `None` for any number of spaces and tabs.
    width: int
    header: int | None  # Number of the line with the names of the columns.
    names: list | None
    others: set  # Numbers of lines that are not words.

    places = (*Sentences.places, "numbers")

    def at(self, numbers):
        found = super().at(numbers)
        left_out = {*itertools.chain(*self.numbers)} - {*itertools.chain(*found.numbers)}
        rows = [None if number in left_out else line for number, line in enumerate(self.rows, 1)]
        return dataclasses.replace(found, rows=rows)

    def line(self, row, word):
        return self.numbers[row][word]

    def write_tags(self, path, predicted):
        """Writes the file with one more column."""
        numbers, tags = (itertools.chain.from_iterable(lists) for lists in (self.numbers, predicted))
        cells = dict(zip(numbers, tags, strict=True)) | dict.fromkeys(self.others, "_")
        if self.header is not None:
            cells[self.header] = "predicted"
        lines, before = [], ""
        for number, line in enumerate(self.rows, 1):
            is_left_out = line is None or (before is None and not line.strip())
            before = line
            if is_left_out:
                continue
            if number in cells or _is_document(line):
                kept = line.rstrip(" \t") if self.separator is None else line
                line = f"{kept}{self.separator or ' '}{self._cell(cells.get(number, 'O'))}"
            lines.append(line)
        write_text(path, "\n".join(lines) + "\n")

    def write_comments(self, path, comments):
        """Writes the file with lines of comments, lists by sentence, before its sentences."""
        before = {self.numbers[row][0]: lines for row, lines in comments.items()}
        lines = []
        for number, line in enumerate(self.rows, 1):
            lines += before.get(number, [])
            if line is not None:
                lines.append(line)
        write_text(path, "\n".join(lines) + "\n")

    def _cell(self, tag):
        if self.separator not in (",", ";") or not any(sign in tag for sign in (self.separator, '"')):
            return tag
        doubled = tag.replace('"', '""')
        return f'"{doubled}"'


def read(origin, word_column=None, tag_column=None, separator=None, like=None):
    """Reads the `Columns` of a file in UTF-8, with `tags` if it has any.

    `-DOCSTART-` lines separate documents. Lines before a sentence that start with `#` are comments, unless they have as
    many columns as the words and a tag of theirs or with a prefix. Without tags, those that start with "# " are.

    Args:
        word_column, tag_column: columns, numbers from 1 (from -1 at the end) or names: in a first line of names or in
            `# global.columns =`. Default to the first and the last one.
        separator: string between columns. By default, tabs if the first line of words contains one, else spaces, else
            commas, semicolons or bars; in `.csv`, first commas and semicolons.
        like: `Columns` of a file with tags: a file with fewer columns has none.
    """
    path = origin.path
    numbered = read_lines(path)
    content = [(number, line) for number, line in numbered if not _is_border(line)]
    first = [(number, line) for number, line in content if not line.startswith("#")] or content
    if not first:
        raise ValueError(f"{path}: no words. Expected one word per line with its tag in a column")
    separator = _separator(path, separator, first, like)
    rows = {number: _split(path, number, line, separator) for number, line in content}
    width = collections.Counter(len(rows[number]) for number, _ in first).most_common(1)[0][0]
    names, header = _names(numbered, rows[first[0][0]], first[0][0], (word_column, tag_column), width, like)
    has_tags = width > 1 and (like is None or width >= like.width or _number(tag_column, -1) in range(1, width + 1))
    if not has_tags and width == 1:
        word_column = None
    word = _index(path, "word_column", word_column, 1, names, width)
    tag = _index(path, "tag_column", tag_column, -1, names, width) if has_tags else None
    if word == tag:
        raise ValueError(f"{path}: words and tags are in the same column, {word + 1} of {width}")
    documents, numbers, others = _sentences(path, numbered, rows, header, width, word, tag)
    words = [[rows[number][word] for number in part] for part in numbers]
    tags = [[rows[number][tag].strip() for number in part] for part in numbers] if has_tags else None
    places = {"lines": [part[0] for part in numbers], "documents": documents, "numbers": numbers, "others": others}
    form = {"separator": separator, "width": width, "header": header, "names": names}
    return Columns(origin=origin, words=words, tags=tags, rows=[line for _, line in numbered], **places, **form)


def _sentences(path, numbered, rows, header, width, word, tag):
    """Returns documents and line numbers of the words, a list for each sentence, and the numbers of lines of no word.

    `rows` are the columns of each line by its number; `tag` is `None` without tags.
    """
    blocks, document = [], 0
    for is_border, lines in itertools.groupby(numbered, lambda line: _is_border(line[1])):
        if is_border:
            document += sum(_is_document(line) for _, line in lines)
        else:
            blocks.append((document, [(number, line) for number, line in lines if number != header]))
    # Of the lines that start with "#", surely only those after another word have words.
    inside = [rows[number] for _, block in blocks for number, _ in itertools.dropwhile(_is_hash, block)]
    tags = {row[tag] for row in inside if tag is not None and len(row) == width}
    firsts, others = [row[0] for row in inside if not _RANGE.fullmatch(row[0])], set()
    if word > 0 and firsts and all(map(_INTEGER.fullmatch, firsts)):  # As in CoNLL-U.
        others = {number for number, row in rows.items() if len(row) == width and _RANGE.fullmatch(row[0])}

    def is_word(number, line):
        row = rows[number]
        if len(row) != width or not line.startswith("#"):
            return not line.startswith("#")
        return not line.startswith("# ") if tag is None else row[tag] in tags or _PREFIXED.fullmatch(row[tag])

    found, doubtful = [], []
    for document, block in blocks:
        block = [line for line in block if line[0] not in others]
        comments = list(itertools.takewhile(lambda line: not is_word(*line), block))
        doubtful += [number for number, line in comments if len(rows[number]) == width and not line.startswith("# ")]
        words = [number for number, _ in block[len(comments) :]]
        for number in words:
            _check(path, number, rows[number], width, word, tag)
        found += [(document, words)] if words else []
    if not found:
        raise ValueError(f"{path}: no words below the names of the columns")
    if doubtful:
        _LOG.warning(
            "%s: %d line(s) that start with # have all columns, but a tag of no other word, and are read as comments, "
            "the first is line %d",
            *(path, len(doubtful), doubtful[0]),
        )
    return *map(list, zip(*found, strict=True)), others


def _check(path, number, row, width, word, tag):
    if len(row) != width:
        raise ValueError(f"{path}:{number}: expected {width} columns, like most lines. Received: {len(row)}")
    if not row[word].strip():
        raise ValueError(f"{path}:{number}: the word is empty")
    if tag is not None and not row[tag].strip():
        raise ValueError(f"{path}:{number}: the tag is empty. Expected O for words outside of all entities")


def _is_hash(line):
    return line[1].startswith("#")


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
