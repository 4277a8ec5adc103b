"""Labels of right choices: letters, or numbers from 0 or 1, which the labels of all rows show together."""

import dataclasses
import re
import string

_LETTER = re.compile(r"[A-Za-z]")
_NUMBER = re.compile(r"[0-9]{1,9}")
_FIX = "Give the number of the first choice: `first_label=0` or 1"


@dataclasses.dataclass(frozen=True)
class SeenLabel:
    """The label of a row that can be read."""

    line: int
    label: str | int
    last: int  # The number of the last choice with a text, counted from 1.

    @property
    def number(self):
        """The number that the label is, or `None`."""
        text = label_text(self.label)
        return int(text) if _NUMBER.fullmatch(text) else None


@dataclasses.dataclass(frozen=True)
class Numbering:
    """How the labels of a file name its choices."""

    has_letters: bool
    first: int | None  # The number of the first choice; `None` if no label is a number.

    @property
    def first_key(self):
        """The label of the first choice: "A", "0" or "1"."""
        if self.has_letters or self.first is None:
            return "A"
        return str(self.first)


def find_numbering(origin, layout, labels, first=None):
    """Returns the `Numbering` of a list of `SeenLabel`.

    Unless the number of the `first` choice is given, numbers start at 0 if one is 0, and at 1 if one is the number of
    the last choice. Errors name rows of the source `origin` and their column in its `layout`.
    """
    has_letters = any(is_letter(seen.label) for seen in labels)
    numbers = []
    for seen in labels:
        number = seen.number
        if number is not None and number <= seen.last:  # Others cannot be read.
            numbers.append((seen.line, number, seen.last))
    if first is not None or not numbers:
        return Numbering(has_letters, first)
    line_of_zero = None  # The first line with 0, and with the number of the last choice.
    line_of_last = None
    for line, number, last in numbers:
        if number == 0 and line_of_zero is None:
            line_of_zero = line
        if number == last and line_of_last is None:
            line_of_last = line
    if line_of_zero is not None and line_of_last is not None:
        raise ValueError(
            f"{layout.cell(origin.place(line_of_last), layout.label)} is numbered from 1 here, up to the last choice, "
            f"but from 0 in {origin.unit} {line_of_zero}. {_FIX}"
        )
    if line_of_zero is None and line_of_last is None:
        first_line = numbers[0][0]
        place = layout.cell(origin.place(first_line), layout.label)
        raise ValueError(f"{place} has neither 0 nor the number of the last choice. {_FIX}")
    return Numbering(has_letters, first=0 if line_of_last is None else 1)


def key_names(first_key, count):
    """Returns the labels of the first `count` choices; `first_key` is "A", "0" or "1"."""
    if first_key == "A" and count <= len(string.ascii_uppercase):
        return list(string.ascii_uppercase[:count])
    start = 0 if first_key == "0" else 1
    return [str(start + index) for index in range(count)]


def is_key(label):
    """Whether a label is a letter or a number."""
    return is_letter(label) or bool(_NUMBER.fullmatch(label_text(label)))


def is_letter(label):
    """Whether a label is a letter."""
    return bool(_LETTER.fullmatch(label_text(label)))


def index_of(label, first):
    """Returns the index of a choice by its label, with numbers from `first`; `None` for other labels."""
    text = label_text(label)
    if _LETTER.fullmatch(text):
        return string.ascii_uppercase.index(text.upper())
    if _NUMBER.fullmatch(text):
        return int(text) - (first or 0)
    return None


def described_keys(first, count):
    """Describes the labels of `count` choices; `first` is the first number, or `None` if it is unknown."""
    numbers = ["0", "1"] if first is None else [str(first)]
    ranges = []
    for first_key in ["A", *numbers]:
        keys = key_names(first_key, count)
        ranges.append(f"{keys[0]} to {keys[-1]}")
    return f"{', '.join(ranges[:-1])} or {ranges[-1]}"


def label_text(label):
    """Returns a label as text; JSON's `true` is not a label."""
    if isinstance(label, bool) or not isinstance(label, str | int):
        return ""
    return str(label).strip()
