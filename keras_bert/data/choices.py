"""Reads questions with choices: SWAG's CSV, other tables with a column for each choice, and rows of JSON.

Rows may have different numbers of choices. An empty choice is absent: it keeps its place, and is never the answer. The
right choice is named by its letter, by its number from 0 or 1, or by one of the names that the row gives its choices.

A question about a context is the start of every choice, as in SWAG: the context is the text, which is truncated if the
row is too long, and the question is kept.
"""

import collections
import dataclasses
import functools
import itertools
import logging
from typing import NamedTuple

from keras_bert.data import in_memory
from keras_bert.data.cells import cell
from keras_bert.data.choice_labels import (
    Numbering,
    SeenLabel,
    described_keys,
    find_numbering,
    index_of,
    is_letter,
    label_text,
)
from keras_bert.data.choice_layouts import COLUMNS_TO_ANSWER, NamedColumns, find_layout
from keras_bert.data.conversion import converted, readable
from keras_bert.data.formats import source
from keras_bert.data.sources import AskedRow, PythonRows
from keras_bert.data.task_data import Rows

_LOG = logging.getLogger("keras_bert")
_HIDDEN = (None, "", -1, "-1")  # Labels of test data that are not public.
# What COPA asks in its column `question`.
_COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
_LOOKED_AT = 100  # Rows whose columns may have texts.


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
    aside: tuple = ()  # Columns with other texts, which are not read.

    content = ("text", "choices", "labels")
    places = ("lines", "ids")

    @property
    def file_rows(self):
        return self.ids

    def counts(self):
        """Returns the number of choices of each row, without absent ones."""
        return [_count_present(choices) for choices in self.choices]


def read(path, text=None, choices=None, label=None, first_label=None, labeled=True, skip_bad_rows=None):
    """Reads `ChoiceExamples` from a source, or the file of a path.

    SWAG's columns are recognized: the text is `sent1`, the choices are `sent2` with each of `ending0`, `ending1`, ...
    Other rows with a context, such as `article`, and a question are read in the same way. A table without column names
    must have the text in its first column, the label in its last one, and the choices between them.

    Args:
        text: string, the column of the text. Defaults to the first of the usual names: the context of a question, or
            else `question`, `text`, ...
        choices: list of the columns of the choices; for JSONL also the name of a list, or of a dict of lists `text` and
            `label`, whose labels name the right choice. Defaults to `choices`, `options`, `endings` or `answers`, or
            all columns with names such as `A`, `choice1` and `option_b`, in the order of their letters or numbers.
        label: string, the column of the right choice. Defaults to `label`, `answer`, `key` or `answerKey`.
        first_label: int, the number of the first choice, 0 or 1. Defaults to the one that the labels show.
        labeled: bool, whether labels are required. `False` reads them if there are any that are not empty or -1,
            `None` never.
        skip_bad_rows: int, maximum number of unreadable rows to skip with a warning; `None`: any bad row is an error.
    """
    origin = _flattened(source(path))
    layout = find_layout(origin, NamedColumns(text, choices, label), labeled)
    raw_rows = origin.rows(layout.required, layout.header)
    if labeled is False and layout.label and _are_hidden(origin, raw_rows, layout):
        layout = dataclasses.replace(layout, label=None)
    if first_label is None:
        first_label = layout.first_label
    numbering = _numbering(origin, raw_rows, layout, first_label, skip_bad_rows)
    read_row = functools.partial(_read_example, layout, numbering.first)
    rows = converted(origin, raw_rows, read_row, skip_bad_rows)
    labels = None
    if layout.label is not None:
        labels = [row.result.label for row in rows]
    return ChoiceExamples(
        text=[row.result.text for row in rows],
        choices=[row.result.choices for row in rows],
        labels=labels,
        lines=[row.line for row in rows],
        ids=[row.number for row in rows],
        first_key=numbering.first_key,
        first_label=numbering.first,
        swag=layout.is_swag,
        aside=_texts_aside(layout, raw_rows),
    )


def stream_asked(path, text=None, choices=None):
    """Yields an `AskedRow` for each row of a source or file, with its text and its choices, see `read`.

    Labels are ignored.
    """
    original = source(path)
    origin = _flattened(original)
    layout = find_layout(origin, NamedColumns(text, choices), labeled=None)
    rows = origin.stream(layout.required, layout.header)
    first_rows = list(itertools.islice(rows, _LOOKED_AT))
    if not first_rows:
        raise ValueError(f"{origin}: no rows")
    _warn_of_texts(origin, _texts_aside(layout, first_rows))
    is_flattened = origin is not original
    original_rows = original.stream()
    for number, row in itertools.chain(first_rows, rows):
        if isinstance(row, ValueError):
            raise row
        if is_flattened:
            _, record = next(original_rows)
        elif layout.header:
            record = None
        else:
            record = row
        example = _read_example(layout, None, origin.place(number), row)
        yield AskedRow(record, {"text": example.text, "choices": example.choices})


def with_columns(texts, known=None):
    """Returns texts for multiple choice, `{"text": ..., "choices": [...]}`, of dicts or frames with other columns.

    Their columns are those of a layout of `read`, or the `known` ones, which a model was trained on: the names by
    input, "text" and "choices". Other texts stay as they are.
    """
    is_single = isinstance(texts, dict)
    if is_single:
        rows = [texts]
    elif in_memory.is_frame(texts):
        rows = in_memory.frame_dicts(texts)
    else:
        rows = texts
    if not in_memory.are_dicts(rows):
        return texts
    columns = _known_columns(known or {}, rows[0])
    if rows[0].keys() == {"text", "choices"} or not (columns.all or _has_known_layout(rows[0])):
        return rows if in_memory.is_frame(texts) else texts
    origin = PythonRows("texts", rows)
    asked = [row.texts for row in stream_asked(origin, columns.text, columns.choices)]
    return asked[0] if is_single else asked


def _known_columns(known, row):
    """Returns the columns that a model was trained on, if a row has them all."""
    columns = NamedColumns(known.get("text"), known.get("choices"))
    if set(columns.all) <= row.keys():
        return columns
    return NamedColumns()


def _has_known_layout(row):
    """Whether a row is a question with choices of a known layout."""
    if isinstance(row.get("question"), dict):
        return True
    return any(columns <= row.keys() for columns in COLUMNS_TO_ANSWER)


def _flattened(origin):
    """Returns a source whose rows have question and choices as columns.

    The files of ARC, CommonsenseQA, OpenBookQA and QASC have `{"question": {"stem": ..., "choices": [...]}}`.
    """
    if not origin.typed:
        return origin
    first = next((row for _, row in origin.stream() if isinstance(row, dict)), {})
    if not isinstance(first.get("question"), dict):
        return origin
    return origin.mapped(_flat_row)


def _flat_row(place, row):
    """Returns a row with the parts of its question as columns."""
    question = row.get("question")
    if not isinstance(question, dict):
        raise ValueError(f"{cell(place, 'question')} must be an object, as in other rows. Received: {question!r:.80}")
    flat = dict(row)
    del flat["question"]
    for name, value in question.items():
        if name != "stem":
            flat[name] = value
    flat["question"] = question.get("stem")
    return flat


# Rows: from the file to the example.


class _Example(NamedTuple):
    """What is read of a row."""

    text: str
    choices: list
    label: int | None  # The index of the right choice.


@dataclasses.dataclass(frozen=True)
class _ChoiceQuestion:
    """A row as it is in the file."""

    text: str
    choices: list
    label: str | int | None  # `None` in files without labels.
    names: list | None  # Those that the row gives its choices, for the label.

    @property
    def last(self):
        """The number of the last choice that is there, counted from 1."""
        return max(number for number, choice in enumerate(self.choices, 1) if choice)


@dataclasses.dataclass(frozen=True)
class _NamedChoices:
    """The choices of a row as they are in its columns, or in the list of one column."""

    values: list
    columns: list  # The column of each, or its place in the list.
    names: list | None = None  # Those that the row gives its choices, for the label.


def _read_example(layout, first, place, record):
    """Returns the `_Example` of a row; `first` is the number of the first choice, or `None` for 0."""
    question = _read_question(layout, place, record)
    label = None
    if layout.label is not None:
        label = _right_choice(question, first, layout.cell(place, layout.label))
    return _Example(question.text, question.choices, label)


def _right_choice(question, first, place):
    """Returns the index of the choice that the label names; `place` is what messages call the label."""
    if question.names is None:
        index = index_of(question.label, first)
        expected = described_keys(first, len(question.choices))
    else:
        name = label_text(question.label)
        index = question.names.index(name) if name in question.names else None
        expected = f"one of {', '.join(question.names)}"
    if index is None or not 0 <= index < len(question.choices):
        raise ValueError(f"{place} must be {expected}. Received: {question.label!r:.80}")
    if not question.choices[index]:
        raise ValueError(f"{place} names an empty choice. Received: {question.label!r}")
    return index


def _read_question(layout, place, record):
    """Returns the `_ChoiceQuestion` of a row, whose choices begin with the question about its text if there is one."""
    text_place = layout.cell(place, layout.text)
    text = _checked_string(text_place, record[layout.text])
    if not text.strip():
        raise ValueError(f"{text_place} is empty")
    named = _named_choices(layout, place, record)
    choices = []
    for column, value in zip(named.columns, named.values, strict=True):
        if value is None:  # JSON's `null` is an empty choice.
            choices.append("")
        else:
            choices.append(_checked_string(layout.cell(place, column), value).strip())
    if layout.question:
        question = _checked_string(layout.cell(place, layout.question), record[layout.question])
        choices = _with_question(_COPA_QUESTIONS.get(question, question), choices)
    count = _count_present(choices)
    if count < 2:
        raise ValueError(f"{place}: expected at least 2 choices, got {count}")
    label = None if layout.label is None else record[layout.label]
    return _ChoiceQuestion(text, choices, label, named.names)


def _with_question(question, choices):
    """Returns choices that begin with a question; absent ones stay absent."""
    asked = []
    for choice in choices:
        if choice:
            choice = f"{question} {choice}".strip()
        asked.append(choice)
    return asked


def _count_present(choices):
    """Returns the number of choices that are not absent."""
    return len(choices) - choices.count("")


def _named_choices(layout, place, record):
    """Returns the `_NamedChoices` of a row: one in each column, or all in one column."""
    if len(layout.choices) > 1:
        return _NamedChoices([record[name] for name in layout.choices], layout.choices)
    (column,) = layout.choices
    return _choices_of_cell(cell(place, column), column, record[column])


def _choices_of_cell(place, column, value):
    """Returns the `_NamedChoices` in a cell: a list of texts, or texts with labels."""
    labeled = _labeled_texts(value)
    names = None
    if labeled is not None:
        texts = labeled["text"]
        names = _names_of_choices(place, labeled)
    elif isinstance(value, list):
        texts = value
    else:
        raise ValueError(f"{place} must be a list of strings. Received: {value!r:.80}")
    columns = [f"{column}[{index}]" for index in range(len(texts))]
    return _NamedChoices(texts, columns, names)


def _labeled_texts(value):
    """Returns a dict with a list `text`, and `label`, of a cell that has texts with labels, or `None`.

    ARC, CommonsenseQA, OpenBookQA and QASC have `{"text": [...], "label": [...]}` on the hub, and a list of objects
    with `text` and `label` in their own files.
    """
    if in_memory.are_dicts(value) and all("text" in part for part in value):
        texts = [part["text"] for part in value]
        labels = [part.get("label") for part in value]
        return {"text": texts, "label": labels}
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        return value
    return None


def _names_of_choices(place, labeled):
    """Returns the labels that a row gives its choices as texts; each choice must have another one."""
    labels = labeled.get("label")
    has_each = isinstance(labels, list) and len(labels) == len(labeled["text"])
    if not has_each or len(set(map(str, labels))) < len(labels):
        raise ValueError(f"{place} must have a different `label` for each `text`. Received: {labeled!r:.80}")
    return [label_text(label) for label in labels]


def _checked_string(place, value):
    """Returns a value that is a string; raises for any other."""
    if not isinstance(value, str):
        raise ValueError(f"{place} must be a string. Received: {value!r:.80}")
    return value


# All rows of a file: their labels, and texts that are not read.


def _are_hidden(origin, raw_rows, layout):
    """Whether no row has a label, as in test data whose labels are not public."""
    questions = readable(origin, raw_rows, functools.partial(_read_question, layout))
    return all(question.label in _HIDDEN for _, question in questions)


def _numbering(origin, raw_rows, layout, first_label, skip_bad_rows):
    """Returns the `Numbering` of the labels of all rows that can be read."""
    if layout.label is None:
        return Numbering(has_letters=False, first=first_label)
    labels = list(_seen_labels(origin, raw_rows, layout))
    try:
        return find_numbering(origin, layout, labels, first_label)
    except ValueError:
        # Too many unreadable rows are the first problem to report.
        converted(origin, raw_rows, functools.partial(_read_question, layout), skip_bad_rows)
        raise


def _seen_labels(origin, raw_rows, layout):
    """Yields the `SeenLabel` of each row that can be read; reading reports the others."""
    for line, question in readable(origin, raw_rows, functools.partial(_read_question, layout)):
        # A number that the row itself explains says nothing about others.
        if question.names is None or is_letter(question.label):
            yield SeenLabel(line, question.label, question.last)


def _texts_aside(layout, raw_rows):
    """Returns the columns with texts that are not read: most of their values have several words."""
    if layout.header:
        return ()
    known = layout.known
    records = [record for _, record in raw_rows[:_LOOKED_AT] if isinstance(record, dict)]
    counts = collections.Counter()
    for record in records:
        for name, value in record.items():
            if isinstance(value, str) and len(value.split()) > 1 and name not in known:
                counts[name] += 1
    aside = [name for name, count in counts.items() if 2 * count > len(records)]
    return tuple(aside)


def tell_aside(origin, examples):
    """Warns of columns with texts that are not read."""
    _warn_of_texts(origin, examples.aside)


def _warn_of_texts(origin, names):
    """Warns of columns with texts that are not read, if there are any."""
    if names:
        quoted = ", ".join([f"`{name}`" for name in names])
        _LOG.warning("%s: %s not read, name the column of the text with `text_column`", origin, quoted)
