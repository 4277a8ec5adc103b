"""Labels of choices: letters, or numbers from 0 or 1."""

import re
import string

_LETTER, _NUMBER = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]{1,9}")
_FIX = "Give the number of the first choice: `first_label=0` or 1"


def names(first_key, count):
    """Returns the labels of the first `count` choices; `first_key` is "A", "0" or "1"."""
    if first_key == "A" and count <= len(string.ascii_uppercase):
        return list(string.ascii_uppercase[:count])
    start = 0 if first_key == "0" else 1
    return [str(start + index) for index in range(count)]


def is_key(label):
    """Whether a label is a letter or a number."""
    return bool(_LETTER.fullmatch(_text(label)) or _NUMBER.fullmatch(_text(label)))


def index(label, start):
    """Returns the index of a choice by its label, with numbers from `start`; `None` for other labels."""
    if _LETTER.fullmatch(_text(label)):
        return string.ascii_uppercase.index(_text(label).upper())
    return int(_text(label)) - (start or 0) if _NUMBER.fullmatch(_text(label)) else None


def described(start, count):
    """Describes the labels of `count` choices; `start` is the first number, or `None` if it is unknown."""
    firsts = ["A", *("01" if start is None else str(start))]
    *others, last = (f"{kind[0]} to {kind[-1]}" for kind in (names(first, count) for first in firsts))
    return f"{', '.join(others)} or {last}"


def numbering(origin, column, found, start=None):
    """Finds out how labels name their choices: whether any is a letter, and the number of the first choice.

    `found` is a list of (line, label, number of the last choice, counted from 1), `column` what messages call the
    column of labels. Unless `start` is given, numbers start at 0 if one is 0, and at 1 if one is the number of the last
    choice; the result is `None` if no label is a number.
    """
    letters = any(_LETTER.fullmatch(_text(label)) for _, label, _ in found)
    numbers = [(line, int(_text(label)), count) for line, label, count in found if _NUMBER.fullmatch(_text(label))]
    numbers = [(line, number, count) for line, number, count in numbers if number <= count]  # Others cannot be read.
    if start is not None or not numbers:
        return letters, start
    zero = next((line for line, number, _ in numbers if number == 0), None)
    last = next((line for line, number, count in numbers if number == count), None)
    if zero is not None and last is not None:
        raise ValueError(
            f"{origin.place(last)}: {column} is numbered from 1 here, up to the last choice, but from 0 in "
            f"{origin.unit} {zero}. {_FIX}"
        )
    if zero is None and last is None:
        line = numbers[0][0]
        raise ValueError(f"{origin.place(line)}: {column} has neither 0 nor the number of the last choice. {_FIX}")
    return letters, 0 if last is None else 1


def _text(label):
    """Returns a label as text; JSON's `true` is not a label."""
    return "" if isinstance(label, bool) or not isinstance(label, str | int) else str(label).strip()
