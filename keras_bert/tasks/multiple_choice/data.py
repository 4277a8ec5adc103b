"""Reads questions with choices: SWAG's CSV, other tables with a column for each choice, and JSONL.

Rows may have different numbers of choices. An empty choice is absent: it keeps its place, and is never the answer. The
right choice is named by its letter, or by its number from 0 or 1.
"""

import dataclasses
import functools
import logging
import pathlib
import re

from keras_bert.files import fingerprint
from keras_bert.tasks.multiple_choice import keys
from keras_bert.tasks.rows import column_names, good_rows, lines_of_table, read_rows, table_row, valid_text

_LOG = logging.getLogger("keras_bert")
_SWAG = ["sent1", "sent2", "ending0", "ending1"]
# Default names of the columns, the first one that a file has.
_TEXTS = ("question", "text")
_LABELS = ("label", "answer", "key", "answerKey")
_CHOICE = re.compile(r"(?i:choice|option|answer|ending)(?:[ _-]?[0-9]+|[ _-][a-z]|[ _-]?[A-Z])|[A-Za-z]|[0-9]+")


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """Texts with choices.

    Args:
        text: list of strings.
        choices: list of lists of strings, `""` for an absent choice.
        labels: list of the indices of the right choices, or `None`.
        lines: list of ints, the line of each row in its file.
        ids: list of ints, the number of each row in its file, from 0.
        first_key: string, the label of the first choice in the file: "A", "0" or "1".
        swag: bool, whether the file has SWAG's columns.
    """

    text: list
    choices: list
    labels: list | None
    lines: list
    ids: list
    first_key: str = "A"
    swag: bool = False

    def __len__(self):
        return len(self.text)

    def first(self, count):
        """Returns the first `count` rows, or all rows for `None`."""
        columns = {name: getattr(self, name) for name in ("text", "choices", "labels", "lines", "ids")}
        return dataclasses.replace(self, **{name: column and column[:count] for name, column in columns.items()})

    def fingerprint(self):
        """Returns a hash of the rows, to recognize changed data."""
        return fingerprint([self.text, self.choices, self.labels])

    def counts(self):
        """Returns the number of choices of each row, without absent ones."""
        return [sum(map(bool, choices)) for choices in self.choices]


@dataclasses.dataclass(frozen=True)
class Data:
    """The `ChoiceExamples` of a task, and the names of their files.

    Args:
        train, dev: the training data and the data that selects the best run.
        test: the data to predict, or `None`.
        names: dict of the names of their files.
    """

    train: ChoiceExamples
    dev: ChoiceExamples
    test: ChoiceExamples | None
    names: dict

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        return dataclasses.replace(self, train=self.train.first(count))

    @property
    def keys(self):
        """The labels of all choices, in the style of the training data: letters, or numbers from 0 or 1."""
        width = max(len(row) for part in (self.train, self.dev, self.test) if part for row in part.choices)
        return keys.names(self.train.first_key, width)


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The columns of a file; `before` is the column of SWAG with the start of every choice."""

    text: str
    choices: list
    label: str | None
    before: str | None = None
    first_label: int | None = None
    header: list | None = None  # Names that were given to the columns of a file without them.


def read_all(train_file, dev_file, predict_file=None, text=None, choices=None, label=None, first_label=None, skip=0):
    """Reads `Data`; unless `first_label` is given, numbers are those of the training data in all files.

    Args:
        train_file, dev_file: paths of labeled data.
        predict_file: path of the data to predict, which is scored if it has labels. Defaults to `None`.
        text, choices, label, first_label: see `read`.
        skip: int, maximum unreadable rows to skip in train and dev each. Defaults to 0.
    """
    columns = {"text": text, "choices": choices, "label": label}
    train = read(train_file, **columns, first_label=first_label, skip_bad_rows=skip)
    if train.first_key != "A":
        first_label = int(train.first_key)
    dev = read(dev_file, **columns, first_label=first_label, skip_bad_rows=skip)
    test = predict_file and read(predict_file, **columns, first_label=first_label, labeled=False)
    names = {"train": train_file, "dev": dev_file, **({"test": predict_file} if predict_file else {})}
    return Data(train, dev, test or None, {split: pathlib.Path(path).name for split, path in names.items()})


def read(path, text=None, choices=None, label=None, first_label=None, labeled=True, skip_bad_rows=None):
    """Reads a `.csv`, `.tsv` or `.jsonl` file in UTF-8.

    SWAG's columns are recognized: the text is `sent1`, the choices are `sent2` with each of `ending0`, `ending1`, ...
    A table without column names must have the text in its first column, the label in its last one, and the choices
    between them.

    Args:
        path: the file.
        text: string, the column of the text. Defaults to `question` or `text`.
        choices: list of the columns of the choices; for JSONL also the name of a list. Defaults to `choices`, or all
            columns with names such as `A`, `choice1` and `option_b`.
        label: string, the column of the right choice. Defaults to `label`, `answer`, `key` or `answerKey`.
        first_label: int, the number of the first choice, 0 or 1. Defaults to the one that the labels show.
        labeled: bool, whether labels are required. Otherwise they are read if there are any. Defaults to `True`.
        skip_bad_rows: int, maximum number of unreadable rows to skip with a warning. Defaults to `None`, any bad row
            is an error.

    Returns:
        `ChoiceExamples`.
    """
    path = pathlib.Path(path)
    layout = _layout(path, text, choices, label, labeled)
    if layout.header:
        raw_rows = lines_of_table(path, _TEXTS[:1])
        parse = functools.partial(table_row, path, layout.header)
    else:
        flags = {layout.text: "text_column", **dict.fromkeys(layout.choices, "choice_columns")}
        flags |= {name: "label_column" for name in (layout.label, layout.before) if name}
        raw_rows, parse = read_rows(path, flags)
    start = layout.first_label if first_label is None else first_label
    letters, start = _numbering(path, layout, raw_rows, parse, start)
    row = functools.partial(_row, path, layout, parse, start)
    lines, ids, rows = zip(*good_rows(path, raw_rows, row, skip_bad_rows), strict=True)
    texts, options, labels = map(list, zip(*rows, strict=True))
    first_key = "A" if letters or start is None else str(start)
    labels = None if layout.label is None else labels
    return ChoiceExamples(texts, options, labels, list(lines), list(ids), first_key, layout.before is not None)


def _layout(path, text, choices, label, labeled):
    """Returns the columns of a file, by their names."""
    given = [name for name in (text, *(choices or ()), label) if name]
    is_table = path.suffix.lower() != ".jsonl"
    found = column_names(path, (given or _TEXTS[:1]) if is_table else ())
    if not found:
        raise ValueError(f"{path}: no rows")
    if is_table and not given and _has_no_header(found):
        letters = keys.names("A", len(found) - 2)
        _LOG.info("%s: no column names; read as text, %d choices and label", path, len(letters))
        return _Layout("text", [f"choice {letter}" for letter in letters], "label", header=_header(letters))
    label = label or next((name for name in _LABELS if name in found), _LABELS[0])
    label = label if labeled or label in found else None
    if set(_SWAG) <= set(found) and text is None and choices is None:
        endings = [name for name in found if re.fullmatch("ending[0-9]+", name)]
        return _Layout("sent1", endings, label, before="sent2", first_label=0)
    text = text or next((name for name in _TEXTS if name in found), _TEXTS[0])
    if choices is None:
        choices = ["choices"] if "choices" in found else [name for name in found if _CHOICE.fullmatch(name)]
    choices = [name for name in choices if name not in (text, label)]
    if not choices:
        raise ValueError(
            f"{path}:1: no columns of choices, such as `A` or `choice1`{'' if is_table else ' or `choices`'}. "
            f"It has: {', '.join(map(repr, found))}. Name them with --choice_columns=..."
        )
    return _Layout(text, choices, label)


def _header(letters):
    return ["text", *(f"choice {letter}" for letter in letters), "label"]


def _has_no_header(first):
    """Whether the first row of a table is a question: it ends with a label and has no usual name."""
    names = {*_TEXTS, *_LABELS, *_SWAG}
    letters = all(len(name) == 1 and name.isalpha() for name in first[1:-1])
    return len(first) >= 4 and keys.is_key(first[-1]) and not letters and not names & set(first)


def _row(path, layout, parse, start, line, raw):
    """Returns the text of a row, its choices, and the index of the right one or `None`."""
    record, place = parse(line, raw), f"{path}:{line}"
    text = _string(place, layout.text, record[layout.text])
    if not text.strip():
        raise ValueError(f"{place}: column `{layout.text}` is empty")
    choices = _choices(place, layout, record)
    if layout.before:
        before = _string(place, layout.before, record[layout.before])
        choices = [f"{before} {choice}".strip() if choice else "" for choice in choices]
    if sum(map(bool, choices)) < 2:
        raise ValueError(f"{place}: expected at least 2 choices, got {sum(map(bool, choices))}")
    if layout.label is None:
        return text, choices, None
    label = record[layout.label]
    number = keys.index(label, start)
    if number is None or not 0 <= number < len(choices):
        expected = keys.described(start, len(choices))
        raise ValueError(f"{place}: column `{layout.label}` must be {expected}. Received: {label!r:.80}")
    if not choices[number]:
        raise ValueError(f"{place}: column `{layout.label}` names an empty choice. Received: {label!r}")
    return text, choices, number


def _choices(place, layout, record):
    """Returns the stripped choices of a record; JSON's `null` is an empty choice."""
    values = [record[name] for name in layout.choices]
    names = layout.choices
    if len(values) == 1:
        if not isinstance(values[0], list):
            raise ValueError(f"{place}: column `{names[0]}` must be a list of strings. Received: {values[0]!r:.80}")
        values, names = values[0], [f"{names[0]}[{index}]" for index in range(len(values[0]))]
    return [
        "" if value is None else _string(place, name, value).strip() for name, value in zip(names, values, strict=True)
    ]


def _string(place, column, value):
    if not isinstance(value, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {value!r:.80}")
    return valid_text(value)


def _numbering(path, layout, raw_rows, parse, start):
    """Returns `keys.numbering` of the labels of all rows that can be read."""
    found = []
    for line, raw in raw_rows if layout.label else ():
        try:
            record = parse(line, raw)
        except ValueError:
            continue  # Reported when the row is read.
        first = record[layout.choices[0]]
        count = len(first) if isinstance(first, list) else len(layout.choices)
        found.append((line, record[layout.label], count))
    return keys.numbering(path, layout.label, found, start)
