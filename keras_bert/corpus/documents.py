"""Reads documents from byte ranges of text files: one sentence per line, paragraphs, or JSON lines."""

import itertools
import json
import math
import re

from keras_bert.corpus.lines import check_is_text, check_is_utf8, is_packed, line_number, lines

FORMATS = ("sentences", "paragraphs", "jsonl")

_LONGEST_LINE = 2**16  # Bytes; longer lines are split.
# End punctuation with closing quotes or brackets and white space, or Chinese and Japanese end punctuation.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*")
_OPENING = "\"'“‘«([¿¡—-"
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]*$")
# A full stop after these does not end a sentence.
_WORDS = """
    mr mrs ms messrs dr prof st rev hon gen col maj capt lt sgt gov sen rep pres mt ft vs cf viz e.g i.e al fig eq sec
    vol vols chap ch pp p no nos art ed eds jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_WORDS.split())
_BEFORE_NUMBERS = ("no", "nos", "p", "pp", "art", "fig")  # Abbreviations only before a number.


def cut_corpus(paths, count):
    """Splits files into `count` parts of similar size: lists of `(path, start, stop)`. A `.gz` is never split."""
    sizes = [path.stat().st_size for path in paths]
    bounds = [sum(sizes) * index // count for index in range(count + 1)]
    parts = [[] for _ in range(count)]
    file_begin = 0  # Of a file among the bytes of all of them.
    for path, size in zip(paths, sizes, strict=True):
        for part, (low, high) in zip(parts, itertools.pairwise(bounds), strict=True):
            start = max(low - file_begin, 0)
            stop = min(high - file_begin, size)
            if start >= stop:
                continue
            if not is_packed(path):
                part.append((path, start, stop))
            elif start == 0:
                part.append((path, 0, math.inf))
        file_begin += size
    return parts


def read_documents(path, start, stop, form, field="text"):
    """Yields the sentences of a range of a file as bytes, and `None` at the end of a document.

    A document belongs to the range in which the blank line before it, or its line in a JSON lines file, starts.
    """
    check_is_text(path)
    if form == "jsonl":
        yield from _json_documents(path, start, stop, field)
        return
    is_inside = start == 0  # Of a document of this range.
    # Also lines of the next range are read: up to the blank line after the last document.
    for place, whole_line in lines(path, start, longest=_LONGEST_LINE):
        line = whole_line.strip()
        if line and not is_inside and place >= stop:
            return
        if not line:
            if is_inside:
                yield None
            if place >= stop:
                return
            is_inside = True
        elif is_inside:
            check_is_utf8(path, place, line)
            if form == "sentences":
                yield line
            else:
                yield from _encoded_sentences(line.decode())
    yield None


def _json_documents(path, start, stop, field):
    """Yields the sentences of a range of a JSON lines file as bytes, and `None` at the end of a document."""
    for place, line in lines(path, start, stop):
        if line.isspace():
            continue
        for paragraph in _json_text(path, place, line, field).splitlines():
            yield from _encoded_sentences(paragraph)
        yield None


def _encoded_sentences(paragraph):
    """Yields the sentences of a paragraph as bytes."""
    for sentence in split_sentences(paragraph):
        yield sentence.encode()


def _json_text(path, place, line, field):
    """Returns the text in a field of a line of JSON; errors name file and line."""
    try:
        value = json.loads(line)
        if not isinstance(value, dict) or not isinstance(value.get(field), str):
            received = sorted(value) if isinstance(value, dict) else type(value).__name__
            raise ValueError(f"expected an object with a string in its field {field!r}. Received: {received}")
        # UTF-8 cannot encode lone surrogates.
        return value[field].encode("utf-8", "replace").decode()
    except ValueError as error:
        raise ValueError(f"{path}:{line_number(path, place)}: {error}") from None


def split_sentences(paragraph):
    """Yields the sentences of a paragraph, stripped of white space."""
    begin = 0
    for match in _END.finditer(paragraph):
        if _ends_sentence(paragraph, match):
            yield paragraph[begin : match.end()].strip()
            begin = match.end()
    rest = paragraph[begin:].strip()
    if rest:
        yield rest


def _ends_sentence(paragraph, match):
    """Returns whether punctuation ends a sentence: not before a lower-case letter, nor after an abbreviation."""
    mark = match.group()[0]
    if mark in "。！？":
        return True
    following = paragraph[match.end() : match.end() + 3].lstrip(_OPENING)[:1]
    if following.islower():
        return False
    if mark != "." or match.group().startswith(".."):
        return True
    word = _LAST_WORD.search(paragraph, max(0, match.start() - 20), match.start()).group()
    is_initial = len(word) == 1 and word.isalpha() and word != "I"
    if is_initial:
        return False
    if word.lower() in _BEFORE_NUMBERS and not following.isdigit():
        return True
    return word.lower() not in _ABBREVIATIONS
