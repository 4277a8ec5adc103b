"""Reads questions with choices: SWAG's CSV, other tables with a column for each choice, and JSONL.

Rows may have different numbers of choices. An empty choice is absent: it keeps its place, and is never the answer. The
right choice is named by its letter, or by its number from 0 or 1.
"""

import dataclasses
import functools

from keras_bert.data import choice_keys as keys
from keras_bert.data.choice_columns import TEXTS, layout
from keras_bert.data.sources import Rows, converted, readable, source


@dataclasses.dataclass(frozen=True)
class ChoiceExamples(Rows):
    """Texts with choices."""

    text: list
    choices: list  # Lists of strings, `""` for an absent choice.
    labels: list | None  # Indices of the right choices, or `None`.
    lines: list  # The line of each row in its file.
    ids: list  # The number of each row in its file, from 0.
    first_key: str = "A"  # The label of the first choice in the file: "A", "0" or "1".
    first_label: int | None = None  # The number of the first choice; `None` in files without numbers.
    swag: bool = False  # Whether the file has SWAG's columns.

    content, places = ("text", "choices", "labels"), ("lines", "ids")

    def counts(self):
        """Returns the number of choices of each row, without absent ones."""
        return [sum(map(bool, choices)) for choices in self.choices]


def read(path, text=None, choices=None, label=None, first_label=None, labeled=True, skip_bad_rows=None):
    """Reads `ChoiceExamples` from a source, or the file of a path.

    SWAG's columns are recognized: the text is `sent1`, the choices are `sent2` with each of `ending0`, `ending1`, ... A
    table without column names must have the text in its first column, the label in its last one, and the choices
    between them.

    Args:
        text: string, the column of the text. Defaults to `question` or `text`.
        choices: list of the columns of the choices; for JSONL also the name of a list. Defaults to `choices`, or all
            columns with names such as `A`, `choice1` and `option_b`, in the order of their letters or numbers.
        label: string, the column of the right choice. Defaults to `label`, `answer`, `key` or `answerKey`.
        first_label: int, the number of the first choice, 0 or 1. Defaults to the one that the labels show.
        labeled: bool, whether labels are required. `False` reads them if there are any that are not empty or -1,
            `None` never.
        skip_bad_rows: int, maximum number of unreadable rows to skip with a warning; `None`: any bad row is an error.
    """
    origin = source(path)
    columns = layout(origin, text, choices, label, labeled)
    flags = {columns.text: "text_column", **dict.fromkeys(columns.choices, "choice_columns")}
    flags |= {name: "label_column" for name in (columns.label, columns.before) if name}
    raw_rows = origin.rows(TEXTS[:1] if columns.header else flags, columns.header)
    if labeled is False and columns.label and _are_hidden(origin, raw_rows, columns):
        columns = dataclasses.replace(columns, label=None)
    start = columns.first_label if first_label is None else first_label
    letters, start = _numbering(origin, raw_rows, columns, start, skip_bad_rows)
    row = functools.partial(_row, columns, start)
    lines, ids, rows = zip(*converted(origin, raw_rows, row, skip_bad_rows), strict=True)
    texts, options, labels = map(list, zip(*rows, strict=True))
    first_key = "A" if letters or start is None else str(start)
    labels = None if columns.label is None else labels
    swag = columns.before is not None
    return ChoiceExamples(texts, options, labels, list(lines), list(ids), first_key, start, swag)


def _question(columns, place, record):
    """Returns the text of a row, its choices, and the label as it is in the file or `None`."""
    text = _string(place, columns.described(columns.text), record[columns.text])
    if not text.strip():
        raise ValueError(f"{place}: {columns.described(columns.text)} is empty")
    choices = _choices(place, columns, record)
    if columns.before:
        before = _string(place, columns.described(columns.before), record[columns.before])
        choices = [f"{before} {choice}".strip() if choice else "" for choice in choices]
    if sum(map(bool, choices)) < 2:
        raise ValueError(f"{place}: expected at least 2 choices, got {sum(map(bool, choices))}")
    return text, choices, columns.label and record[columns.label]


def _row(columns, start, place, record):
    """Returns the text of a row, its choices, and the index of the right one or `None`."""
    text, choices, label = _question(columns, place, record)
    if columns.label is None:
        return text, choices, None
    place, number = f"{place}: {columns.described(columns.label)}", keys.index(label, start)
    if number is None or not 0 <= number < len(choices):
        raise ValueError(f"{place} must be {keys.described(start, len(choices))}. Received: {label!r:.80}")
    if not choices[number]:
        raise ValueError(f"{place} names an empty choice. Received: {label!r}")
    return text, choices, number


def _choices(place, columns, record):
    """Returns the stripped choices of a record; JSON's `null` is an empty choice."""
    values = [record[name] for name in columns.choices]
    names = columns.choices
    if len(values) == 1:
        if not isinstance(values[0], list):
            raise ValueError(f"{place}: column `{names[0]}` must be a list of strings. Received: {values[0]!r:.80}")
        values, names = values[0], [f"{names[0]}[{index}]" for index in range(len(values[0]))]
    return [
        "" if value is None else _string(place, columns.described(name), value).strip()
        for name, value in zip(names, values, strict=True)
    ]


def _string(place, column, value):
    if not isinstance(value, str):
        raise ValueError(f"{place}: {column} must be a string. Received: {value!r:.80}")
    return value


def _are_hidden(origin, raw_rows, columns):
    """Whether no row has a label, as in test data whose labels are not public."""
    return all(label in (None, "", -1, "-1") for _, label, _ in _labels(origin, raw_rows, columns))


def _labels(origin, raw_rows, columns):
    """Yields (line, label, number of the last choice) of the rows that can be read; reading reports the others."""
    for line, (_, choices, label) in readable(origin, raw_rows, functools.partial(_question, columns)):
        yield line, label, max(number for number, choice in enumerate(choices, 1) if choice)


def _numbering(origin, raw_rows, columns, start, skip_bad_rows):
    """Returns `keys.numbering` of the labels of all rows that can be read."""
    found = list(_labels(origin, raw_rows, columns)) if columns.label else []
    try:
        return keys.numbering(origin, columns.described(columns.label), found, start)
    except ValueError:
        # Too many unreadable rows are the first problem to report.
        converted(origin, raw_rows, functools.partial(_question, columns), skip_bad_rows)
        raise
