"""Excerpts of texts, with marked and labelled spans."""

import itertools
import unicodedata

_AROUND = 130  # Number of characters to show on each side of a span.
_SPAN = 300  # Maximum number of characters to show of a span.
_GAP = 40  # Excerpts with at most this many characters between them are merged.
_WORD = 20  # Maximum number of characters to drop so that an excerpt starts and ends with a whole word.
_JOINER = "\N{ZERO WIDTH JOINER}"


def excerpts(text: str, spans, marks, labels=(), around: int = _AROUND):
    """Returns excerpts of a text, which show the given spans. Nearby excerpts are merged; without spans, the start.

    All spans are `(first, end)`, in characters; `around` characters are shown on each side. `marks` has lists of spans
    by style, a class of `style.css`; `labels` are `(span, style, text)`, texts that follow a span. An excerpt is a list
    of `(style, text, labels)`, with `labels` a list of `[style, text]`, for the macro `marked` of `macros.html`.
    """
    marks = {style: [_whole_characters(text, span) for span in spans] for style, spans in marks.items()}
    labels = [(_whole_characters(text, span), *label) for span, *label in labels]
    return [_marked(text, begin, end, marks, labels) for begin, end in _windows(text, spans, around)]


def _windows(text, spans, around):
    windows = []
    for first, last in sorted(spans) or [(0, around)]:
        begin, end = max(0, first - around), min(len(text), min(last, first + _SPAN) + around)
        if windows and begin <= windows[-1][1] + _GAP:
            windows[-1] = windows[-1][0], max(windows[-1][1], end)
        else:
            windows.append((begin, end))
    return [_whole_characters(text, _whole_words(text, begin, end)) for begin, end in windows]


def _whole_words(text, begin, end):
    if begin:
        begin = max(begin, text.find(" ", begin, begin + _WORD) + 1)
    space = text.rfind(" ", end - _WORD, end) if end < len(text) else -1
    return begin, end if space < 0 else space


def _whole_characters(text, span):
    """Moves the ends of a span behind combining characters, which belong to the character before."""
    return tuple(_next_whole(text, place) for place in span)


def _next_whole(text, place):
    while 0 < place < len(text) and (_combines(text[place]) or text[place - 1] == _JOINER):
        place += 1
    return place


def _combines(character):
    return character == _JOINER or unicodedata.category(character).startswith("M")


def _marked(text, begin, end, marks, labels):
    """Splits an excerpt where a style changes, and at labels."""
    ends = {place for spans in marks.values() for span in spans for place in span}
    cuts = sorted({begin, end, *(place for place in ends if begin < place < end)})
    parts = [("", "… ", [])] if begin else []
    for first, last in itertools.pairwise(cuts):
        style = " ".join(name for name, spans in marks.items() if any(start <= first < stop for start, stop in spans))
        follow = [label for (start, stop), *label in labels if start < end and first < min(stop, end) <= last]
        if parts and parts[-1][0] == style and not parts[-1][2]:
            parts[-1] = style, parts[-1][1] + text[first:last], follow
        else:
            parts.append((style, text[first:last], follow))
    return parts + [("", " …", [])] * (end < len(text))
