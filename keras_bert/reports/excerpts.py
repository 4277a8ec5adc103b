"""Excerpts of texts, with marked and labeled spans."""

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
    whole_marks = {}
    for style, marked_spans in marks.items():
        whole_marks[style] = [_whole_characters(text, span) for span in marked_spans]
    whole_labels = []
    for span, style, label in labels:
        whole_labels.append((_whole_characters(text, span), style, label))
    shown = []
    for begin, end in _windows(text, spans, around):
        shown.append(_marked_excerpt(text, begin, end, whole_marks, whole_labels))
    return shown


def _windows(text, spans, around):
    """Returns the beginnings and ends of excerpts, which do not cut words or characters."""
    windows = []
    for first, last in sorted(spans) or [(0, around)]:
        begin = max(0, first - around)
        end = min(len(text), min(last, first + _SPAN) + around)
        if windows and begin <= windows[-1][1] + _GAP:
            previous_begin, previous_end = windows.pop()
            windows.append((previous_begin, max(previous_end, end)))
        else:
            windows.append((begin, end))
    whole = []
    for begin, end in windows:
        window = _whole_words(text, begin, end)
        whole.append(_whole_characters(text, window))
    return whole


def _whole_words(text, begin, end):
    """Drops parts of words at both ends of a window, if they are short."""
    if begin > 0:
        begin = max(begin, text.find(" ", begin, begin + _WORD) + 1)
    if end < len(text):
        space = text.rfind(" ", max(0, end - _WORD), end)
        if space >= 0:
            end = space
    return begin, end


def _whole_characters(text, span):
    """Moves the ends of a span behind combining characters, which belong to the character before."""
    first, end = span
    return _next_whole(text, first), _next_whole(text, end)


def _next_whole(text, place):
    while 0 < place < len(text) and (_combines(text[place]) or text[place - 1] == _JOINER):
        place += 1
    return place


def _combines(character):
    return character == _JOINER or unicodedata.category(character).startswith("M")


def _marked_excerpt(text, begin, end, marks, labels):
    """Returns an excerpt in parts `(style, text, labels)`: it is split where a style changes, and at labels."""
    parts = []
    if begin > 0:
        parts.append(("", "… ", []))
    for first, last in itertools.pairwise(_cuts(begin, end, marks)):
        style = _style_at(first, marks)
        following = []
        for (label_first, label_end), label_style, label in labels:
            # A span that goes on after the excerpt has its label at the end of the excerpt.
            if label_first < end and first < min(label_end, end) <= last:
                following.append([label_style, label])
        if parts and parts[-1][0] == style and not parts[-1][2]:
            _, previous_text, _ = parts.pop()
            parts.append((style, previous_text + text[first:last], following))
        else:
            parts.append((style, text[first:last], following))
    if end < len(text):
        parts.append(("", " …", []))
    return parts


def _cuts(begin, end, marks):
    """Returns the places where a mark begins or ends in an excerpt, and the ends of the excerpt."""
    places = {begin, end}
    for spans in marks.values():
        for span in spans:
            places.update(place for place in span if begin < place < end)
    return sorted(places)


def _style_at(place, marks):
    """Returns the styles of all marks at a place, as one string."""
    styles = []
    for style, spans in marks.items():
        if any(first <= place < end for first, end in spans):
            styles.append(style)
    return " ".join(styles)
