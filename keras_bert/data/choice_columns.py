"""Finds the columns of questions with choices by their names."""

import dataclasses
import logging
import re

from keras_bert.data import choice_keys as keys

_LOG = logging.getLogger("keras_bert")
# Default names of the columns, the first one that a file has.
TEXTS = ("question", "text")
_LABELS = ("label", "answer", "key", "answerKey")
_SWAG = ["sent1", "sent2", "ending0", "ending1"]
_CHOICE = re.compile(r"((?i:choice|option|answer|ending)(?:[ _-]|(?![a-z])))?([0-9]{1,9}|[A-Za-z])")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of a file."""

    text: str
    choices: list
    label: str | None  # `None` in files without labels.
    before: str | None = None  # The column of SWAG with the start of every choice.
    first_label: int | None = None  # The number of the first choice, if the layout defines it.
    header: list | None = None  # Names for the columns of a table without column names.

    def described(self, column):
        """Returns how messages call a column."""
        return f"the {column}" if self.header else f"column `{column}`"


def layout(origin, text, choices, label, labeled):
    """Returns the `Layout` of a source, see `data.read`."""
    given = [name for name in (text, *(choices or ()), label) if name]
    names = origin.names(() if origin.typed else given or TEXTS[:1])
    if not names:
        raise ValueError(f"{origin}: no rows")
    if not origin.typed and not given and _has_no_header(names):
        return _without_header(origin, len(names) - 2, labeled)
    label = label or next((name for name in _LABELS if name in names), _LABELS[0])
    label = label if labeled or (labeled is False and label in names) else None
    if set(_SWAG) <= set(names) and text is None and choices is None:
        endings = _sequence(origin, [name for name in names if re.fullmatch("ending[0-9]+", name)])
        return Layout("sent1", endings, label, before="sent2", first_label=0)
    text = text or next((name for name in TEXTS if name in names), TEXTS[0])
    if choices is None:
        named = [name for name in names if _CHOICE.fullmatch(name) and name not in (text, label)]
        choices = ["choices"] if "choices" in names else _sequence(origin, named)
    else:
        choices = _ordered(origin, choices)
    choices = [name for name in choices if name not in (text, label)]
    if not choices:
        raise ValueError(
            f"{origin.place(1)}: no columns of choices, such as `A` or `choice1`"
            f"{' or `choices`' if origin.typed else ''}. It has: {', '.join(map(repr, names))}. Name them with "
            "`choice_columns`"
        )
    return Layout(text, choices, label)


def _ordered(origin, names):
    """Returns the given columns of choices, in the order of the letters or numbers that their names may have."""
    if len(set(names)) < len(names):
        raise ValueError(f"`choice_columns` contains duplicates. Received: {','.join(names)}")
    if len(names) == 1 or not all(map(_CHOICE.fullmatch, names)):
        return names
    if not _in_order(names):
        raise ValueError(
            f"{origin.place(1)}: labels cannot name the columns {', '.join(map(repr, names))} by their letters or "
            "numbers. Expected columns from A, 0 or 1 without gaps, or other names"
        )
    return _in_order(names)


def _sequence(origin, names):
    """Returns columns of choices in the order of their letters or numbers, which must have no gaps."""
    if not names:
        return []
    ordered = _in_order(names)
    if not ordered:
        raise ValueError(
            f"{origin.place(1)}: the columns {', '.join(map(repr, names))} are not a sequence of choices, such as A, "
            "B, C or choice1, choice2. Name the choices with `choice_columns`"
        )
    return ordered


def _in_order(names):
    """Returns names such as `B`, `A` in order; an empty list unless they are a sequence from A, 0 or 1."""
    parts = [_CHOICE.fullmatch(name).groups("") for name in names]
    words = {word.rstrip(" _-").lower() for word, _ in parts}
    places = {name: int(key) if key.isdigit() else key.upper() for name, (_, key) in zip(names, parts, strict=True)}
    wanted = [keys.names(first, len(names)) for first in ("A", "0", "1")]
    if len(names) < 2 or len(words) > 1 or sorted(map(str, places.values())) not in map(sorted, wanted):
        return []
    return sorted(names, key=places.__getitem__)


def _has_no_header(first):
    """Whether the first row of a table is a question: it ends with a label, and its cells are not names of columns."""
    names = [name for name in first if _CHOICE.fullmatch(name)]
    usual = {*TEXTS, *_LABELS, *_SWAG} & set(first)
    return len(first) >= 4 and keys.is_key(first[-1]) and len(usual) < 2 and not _in_order(names)


def _without_header(origin, count, labeled):
    _LOG.info("%s: no column names; read as text, %d choices and label", origin, count)
    header = ["first column", *(f"column {number}" for number in range(2, count + 2)), "last column"]
    return Layout(header[0], header[1:-1], None if labeled is None else header[-1], header=header)
