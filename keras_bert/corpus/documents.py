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


def cut_corpus(paths, count):
    """Splits files into `count` parts of similar size: lists of `(path, start, stop)`. A `.gz` is never split."""
    sizes = [path.stat().st_size for path in paths]
    bounds = [sum(sizes) * index // count for index in range(count + 1)]
    ranges = [[] for _ in range(count)]
    begin = 0
    for path, size in zip(paths, sizes, strict=True):
        for index, (low, high) in enumerate(itertools.pairwise(bounds)):
            start, stop = max(low - begin, 0), min(high - begin, size)
            if start < stop and not is_packed(path):
                ranges[index].append((path, start, stop))
            elif start < stop and not start:
                ranges[index].append((path, 0, math.inf))
        begin += size
    return ranges


def read_documents(path, start, stop, form, field="text"):
    """Yields the sentences of a range of a file as bytes, and `None` at the end of a document.

    A document belongs to the range in which the blank line before it, or its line in a JSON lines file, starts.
    """
    check_is_text(path)
    if form == "jsonl":
        for place, line in lines(path, start, stop):
            if not line.isspace():
                for paragraph in _json_text(path, place, line, field).splitlines():
                    yield from _sentences(paragraph)
                yield None
        return
    inside = start == 0
    for place, line in lines(path, start, longest=_LONGEST_LINE):
        line = line.strip()
        if line and not inside and place >= stop:
            return
        if not line:
            if inside:
                yield None
            if place >= stop:
                return
            inside = True
        elif inside:
            check_is_utf8(path, place, line)
            if form == "sentences":
                yield line
            else:
                yield from _sentences(line.decode())
    yield None


def _sentences(paragraph):
    return (sentence.encode() for sentence in split_sentences(paragraph))


def _json_text(path, place, line, field):
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
        if _ends(paragraph, match):
            yield paragraph[begin : match.end()].strip()
            begin = match.end()
    if rest := paragraph[begin:].strip():
        yield rest


def _ends(paragraph, match):
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
    initial = len(word) == 1 and word.isalpha() and word != "I"
    number = word.lower() in ("no", "nos", "p", "pp", "art", "fig") and not following.isdigit()
    return not initial and (number or word.lower() not in _ABBREVIATIONS)
