"""Reads documents from byte ranges of text files: one sentence per line, paragraphs, or JSON lines."""

import itertools
import json
import math

from keras_bert.corpus.lines import check_is_text, check_is_utf8, is_packed, line_number, lines
from keras_bert.corpus.sentences import split_sentences

FORMATS = ("sentences", "paragraphs", "jsonl")

_LONGEST_LINE = 2**16  # Bytes; longer lines are split.


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
