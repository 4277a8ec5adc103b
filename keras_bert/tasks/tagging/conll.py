"""Reads and writes CoNLL files: one word per line with its tag in a column, blank lines between sentences."""

import collections
import csv
import dataclasses
import itertools
import logging
import re
from typing import NamedTuple

from keras_bert.checks import similar
from keras_bert.data.text_files import read_lines, suffix
from keras_bert.files import write_text
from keras_bert.tasks.tagging.sentences import Sentences

_LOG = logging.getLogger("keras_bert")
DOCUMENT = "-DOCSTART-"
# In CoNLL-U, a word that others repeat in parts, or that is not in the text.
_RANGE = re.compile(r"\d+[-.]\d+")
_INTEGER = re.compile(r"\d+")
_PREFIXED = re.compile(r"[BIELSU]-.+")
# Usual names of the columns of words and of tags.
_WORDS = {"word", "words", "token", "tokens", "form"}
_TAGS = {"tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "entity"}
_TAGS |= {"chunk", "pos", "upos", "xpos"}
_GLOBAL = re.compile(r"#\s*global\.columns\s*=(.*)")
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllSentences(Sentences):
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
        kept = super().at(numbers)
        every_number = set(itertools.chain.from_iterable(self.numbers))
        left_out = every_number.difference(*kept.numbers)
        rows = []
        for number, line in enumerate(self.rows, 1):
            rows.append(None if number in left_out else line)
        return dataclasses.replace(kept, rows=rows)

    def line(self, row, word):
        return self.numbers[row][word]

    def write_tags(self, path, predicted):
        """Writes the file with one more column."""
        cells = dict.fromkeys(self.others, "_")
        for numbers, tags in zip(self.numbers, predicted, strict=True):
            cells.update(zip(numbers, tags, strict=True))
        if self.header is not None:
            cells[self.header] = "predicted"
        lines = []
        previous = ""
        for number, line in enumerate(self.rows, 1):
            # With the words of a sentence, the blank line after it is left out.
            is_left_out = line is None or (previous is None and not line.strip())
            previous = line
            if is_left_out:
                continue
            if number in cells or _is_document(line):
                lines.append(self._with_cell(line, cells.get(number, "O")))
            else:
                lines.append(line)
        write_text(path, "\n".join(lines) + "\n")

    def write_comments(self, path, comments):
        """Writes the file with lines of comments, lists by sentence, before its sentences."""
        comments_before = {self.numbers[row][0]: lines for row, lines in comments.items()}
        lines = []
        for number, line in enumerate(self.rows, 1):
            lines.extend(comments_before.get(number, []))
            if line is not None:
                lines.append(line)
        write_text(path, "\n".join(lines) + "\n")

    def _with_cell(self, line, tag):
        """Returns a line with one more column."""
        if self.separator is None:
            words = line.rstrip(" \t")
            return f"{words} {tag}"
        return f"{line}{self.separator}{self._quoted(tag)}"

    def _quoted(self, tag):
        """Returns a tag in quotes if CSV requires them."""
        if self.separator not in (",", ";") or (self.separator not in tag and '"' not in tag):
            return tag
        doubled = tag.replace('"', '""')
        return f'"{doubled}"'


class _NumberedLine(NamedTuple):
    """A line of a file."""

    number: int
    text: str
    cells: list | None  # Its columns; `None` for a border, which is blank or starts a document.


class _ColumnLayout(NamedTuple):
    """What the columns of a file are."""

    width: int  # The number of columns of most lines.
    names: list | None
    header: int | None  # The number of the line with the names.
    word: int  # Index of the column of words.
    tag: int | None  # Index of the column of tags; `None` without tags.


class _Block(NamedTuple):
    """Lines without a border between them: a sentence, with or without its comments."""

    document: int  # The number of the document.
    lines: list


def read(origin, word_column=None, tag_column=None, separator=None, like=None):
    """Reads the `ConllSentences` of a file in UTF-8, with `tags` if it has any.

    `-DOCSTART-` lines separate documents. Lines before a sentence that start with `#` are comments, unless they have as
    many columns as the words and a tag of theirs or with a prefix. Without tags, those that start with "# " are.

    Args:
        word_column, tag_column: columns, numbers from 1 (from -1 at the end) or names: in a first line of names or in
            `# global.columns =`. Default to the first and the last one.
        separator: string between columns. By default, tabs if the first line of words contains one, else spaces, else
            commas, semicolons or bars; in `.csv`, first commas and semicolons.
        like: `ConllSentences` of a file with tags: a file with fewer columns has none.
    """
    path = origin.path
    numbered = read_lines(path)
    separator = _separator(path, _lines_of_words(path, numbered), separator, like)
    lines = [_numbered_line(path, number, text, separator) for number, text in numbered]
    layout = _column_layout(path, lines, word_column, tag_column, like)
    blocks = _blocks(lines, layout.header)
    certain = _certain_words(blocks)
    repeated = _repeated_words(blocks, certain, layout)
    sentences = _sentences(path, blocks, certain, repeated, layout)
    documents = []
    words = []
    tags = []
    numbers = []
    for sentence in sentences:
        documents.append(sentence.document)
        words.append([line.cells[layout.word] for line in sentence.lines])
        numbers.append([line.number for line in sentence.lines])
        if layout.tag is not None:
            tags.append([line.cells[layout.tag].strip() for line in sentence.lines])
    return ConllSentences(
        origin=origin,
        words=words,
        tags=None if layout.tag is None else tags,
        lines=[sentence_numbers[0] for sentence_numbers in numbers],
        documents=documents,
        numbers=numbers,
        rows=[line.text for line in lines],
        separator=separator,
        width=layout.width,
        header=layout.header,
        names=layout.names,
        others=repeated,
    )


def _is_border(text):
    """Whether a line separates sentences: it is blank, or starts a document."""
    return not text.strip() or _is_document(text)


def _is_document(text):
    return text.lstrip('\ufeff "').startswith(DOCUMENT)


def _is_hash(line):
    return line.text.startswith("#")


def _lines_of_words(path, numbered):
    """Returns number and text of the lines that do not start with "#"; of a file without others, of all but borders."""
    words = []
    possible_comments = []
    for number, text in numbered:
        if text.startswith("#"):
            possible_comments.append((number, text))
        elif not _is_border(text):
            words.append((number, text))
    if not words and not possible_comments:
        raise ValueError(f"{path}: no words. Expected one word per line with its tag in a column")
    return words or possible_comments


def _separator(path, numbered, separator, like):
    """Returns the separator of the columns; `None` for spaces and tabs."""
    if separator is not None:
        sign = _SEPARATORS.get(separator, separator)
        return None if sign == " " else sign
    number, text = numbered[0]
    if suffix(path) == ".csv":
        return _first_separator(path, number, text, [",", ";"]) or ","
    if "\t" in text:
        return "\t"
    if like is not None and like.separator == "\t":  # Words may contain spaces.
        in_spaces = all(len(_cells(path, *line, None)) == like.width for line in numbered)
        return None if in_spaces else "\t"
    if re.search(r"\S +\S", text):
        return None
    candidates = [",", ";", "|"]
    if like is not None:  # A comma may be a word of a file without tags.
        candidates = [like.separator] if like.separator else []
    return _first_separator(path, number, text, candidates)


def _first_separator(path, number, text, candidates):
    """Returns the first candidate that splits a line, or `None`."""
    for sign in candidates:
        if len(_cells(path, number, text, sign)) > 1:
            return sign
    return None


def _numbered_line(path, number, text, separator):
    cells = None
    if not _is_border(text):
        cells = _cells(path, number, text, separator)
    return _NumberedLine(number, text, cells)


def _cells(path, number, text, separator):
    """Splits a line into its columns."""
    if separator is None:
        # `str.split` would also split at no-break spaces.
        return re.split(r"[ \t]+", text.strip(" \t"))
    if separator not in (",", ";"):
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        if text.startswith("#"):  # A comment.
            return [text]
        raise ValueError(f"{path}:{number}: {error}. Expected CSV with doubled quotes inside quoted fields") from None


def _column_layout(path, lines, word_column, tag_column, like):
    """Returns the `_ColumnLayout` of a file, given the columns that are asked for."""
    content = [line for line in lines if line.cells is not None]
    of_words = [line for line in content if not _is_hash(line)] or content
    widths = collections.Counter(len(line.cells) for line in of_words)
    width = widths.most_common(1)[0][0]
    names, header = _column_names(lines, of_words[0], width, (word_column, tag_column), like)
    has_tags = _has_tags(width, tag_column, like)
    if not has_tags and width == 1:
        word_column = None  # The words are in the only column, whatever its name.
    word = _column_index(path, "word_column", word_column, 1, names, width)
    tag = None
    if has_tags:
        tag = _column_index(path, "tag_column", tag_column, -1, names, width)
    if word == tag:
        raise ValueError(f"{path}: words and tags are in the same column, {word + 1} of {width}")
    return _ColumnLayout(width=width, names=names, header=header, word=word, tag=tag)


def _has_tags(width, tag_column, like):
    """Whether a file has a column of tags; without tags, it has fewer columns than the file that it is like."""
    if width == 1:
        return False
    if like is None or width >= like.width:
        return True
    number = _column_number(tag_column)
    return number is not None and 1 <= number <= width


def _column_names(lines, first, width, wanted, like):
    """Returns the names of the columns, and the number of the line that has them, or `None` each.

    `first` is the first line with words or names, `wanted` are the columns that are asked for.
    """
    for line in lines:
        match = _GLOBAL.match(line.text)
        if match:
            return match[1].split(), None
    wanted_names = [name for name in wanted if name is not None and _column_number(name) is None]
    if width == 1:  # Only words, below a name if there is one in the other file.
        if like is not None and like.header is not None:
            wanted_names.extend(like.names)
        has_names = first.cells[0] in wanted_names
    else:
        lower = {name.lower() for name in first.cells}
        has_usual_names = not lower.isdisjoint(_WORDS) and not lower.isdisjoint(_TAGS)
        has_names = bool(wanted_names) or has_usual_names
    if has_names:
        return first.cells, first.number
    return None, None


def _column_number(column):
    """Returns a column that is given by its number; `None` for a name."""
    if re.fullmatch(r"-?\d+", str(column)):
        return int(column)
    return None


def _column_index(path, flag, column, default, names, width):
    """Returns the index of a column, given its number or its name."""
    if column is None:
        column = default
    number = _column_number(column)
    if number is None:
        return _index_of_name(path, flag, column, names or [], width)
    if not 1 <= abs(number) <= width:
        raise ValueError(f"{path}: `{flag}` must be from 1 to {width}, or from -1 for the last. Received: {number}")
    return number - 1 if number > 0 else width + number


def _index_of_name(path, flag, name, names, width):
    if names.count(name) > 1:
        raise ValueError(f"{path}: {names.count(name)} columns are named `{name}`. Give its number with `{flag}`")
    if name not in names:
        alike = similar(name, names)
        fix = f"Did you mean `{flag}={alike}`?" if alike else f"Choose one with `{flag}`"
        raise ValueError(f"{path}: no column `{name}`. It has: {', '.join(names or ['no names'])}. {fix}")
    index = names.index(name)
    if index >= width:
        raise ValueError(f"{path}: `{name}` is column {index + 1}, but most lines have only {width}")
    return index


def _blocks(lines, header):
    """Splits lines at borders, which count the documents. The line with the names of the columns is left out."""
    blocks = []
    document = 0
    block = []
    for line in lines:
        if line.cells is not None:
            if line.number != header:
                block.append(line)
            continue
        if block:
            blocks.append(_Block(document, block))
            block = []
        document += _is_document(line.text)
    if block:
        blocks.append(_Block(document, block))
    return blocks


def _certain_words(blocks):
    """Returns the lines that cannot be comments: of those that start with "#", the ones after another word."""
    certain = []
    for block in blocks:
        certain.extend(itertools.dropwhile(_is_hash, block.lines))
    return certain


def _repeated_words(blocks, certain, layout):
    """Returns the numbers of the lines of CoNLL-U that repeat others, or have no place in the text, such as "1-2"."""
    firsts = [line.cells[0] for line in certain if not _RANGE.fullmatch(line.cells[0])]
    is_conll_u = layout.word > 0 and len(firsts) > 0 and all(map(_INTEGER.fullmatch, firsts))
    repeated = set()
    if is_conll_u:
        for block in blocks:
            for line in block.lines:
                if len(line.cells) == layout.width and _RANGE.fullmatch(line.cells[0]):
                    repeated.add(line.number)
    return repeated


def _sentences(path, blocks, certain, repeated, layout):
    """Returns a `_Block` with the lines of the words of each sentence. Comments before a sentence are left out."""
    known_tags = set()
    if layout.tag is not None:
        known_tags = {line.cells[layout.tag] for line in certain if len(line.cells) == layout.width}
    sentences = []
    doubtful = []
    for block in blocks:
        lines = [line for line in block.lines if line.number not in repeated]
        first = 0
        while first < len(lines) and _is_comment(lines[first], known_tags, layout):
            if _is_doubtful(lines[first], layout):
                doubtful.append(lines[first])
            first += 1
        words = lines[first:]
        for line in words:
            _check_word(path, line, layout)
        if words:
            sentences.append(_Block(block.document, words))
    if not sentences:
        raise ValueError(f"{path}: no words below the names of the columns")
    if doubtful:
        _LOG.warning(
            "%s: %d line(s) that start with # have all columns, but a tag of no other word, and are read as comments, "
            "the first is line %d",
            path,
            len(doubtful),
            doubtful[0].number,
        )
    return sentences


def _is_comment(line, known_tags, layout):
    """Whether a line before the words of a sentence is a comment, see `read`."""
    if not _is_hash(line):
        return False
    if len(line.cells) != layout.width:
        return True
    if layout.tag is None:
        return line.text.startswith("# ")
    tag = line.cells[layout.tag]
    return tag not in known_tags and _PREFIXED.fullmatch(tag) is None


def _is_doubtful(comment, layout):
    """Whether a comment could also be a word with a tag of its own."""
    return len(comment.cells) == layout.width and not comment.text.startswith("# ")


def _check_word(path, line, layout):
    """Raises for a line of a sentence without a word and, if the file has tags, its tag."""
    place = f"{path}:{line.number}"
    if len(line.cells) != layout.width:
        raise ValueError(f"{place}: expected {layout.width} columns, like most lines. Received: {len(line.cells)}")
    if not line.cells[layout.word].strip():
        raise ValueError(f"{place}: the word is empty")
    if layout.tag is not None and not line.cells[layout.tag].strip():
        raise ValueError(f"{place}: the tag is empty. Expected O for words outside of all entities")
