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
import re
import string

from keras_bert.data import in_memory
from keras_bert.data.cells import cell
from keras_bert.data.conversion import converted, readable
from keras_bert.data.formats import source
from keras_bert.data.sources import PythonRows
from keras_bert.data.task_data import Rows

_LOG = logging.getLogger("keras_bert")
# Default names of the columns, the first one that a file has.
# OpenBookQA has `question_stem`, HellaSwag `ctx`, PIQA `goal`, WinoGrande `sentence`, COPA `premise`.
_TEXTS = ("question", "text", "question_stem", "ctx", "goal", "sentence", "premise")
# Texts that a question is about: Social IQa and CosmosQA, RACE, COPA.
_CONTEXTS = ("context", "article", "premise", "passage")
_QUESTIONS = ("question", "question_stem")
_LISTS = ("choices", "options", "endings", "answers")  # RACE has `options`, HellaSwag `endings`.
TARGETS = ("label", "answer", "key", "answerKey")
# The column of the right choice of rows from Python: its index, from 0.
INDEX = "index of the right choice"
_SWAG = ["sent1", "sent2", "ending0", "ending1"]
_HIDDEN = (None, "", -1, "-1")  # Labels of test data that are not public.
# Columns of which the first rows of a data set have all, or those of one of these sets.
COLUMNS = (
    {"choices"},
    {"question", "choices"},
    {"question", "answerKey"},
    {"question_stem", "choices"},
    {"question", "context", "choices"},
    {"article", "question", "options"},
    {"ctx", "endings"},
    {"question", "A", "B"},
    {"question", "choice1", "choice2"},
    {"question", "option1", "option2"},
    {"ending0", "ending1"},
    {"premise", "choice1", "choice2"},
    {"context", "question", "answerA", "answerB"},
    {"context", "question", "answer0", "answer1"},
    {"goal", "sol1", "sol2"},
    {"sentence", "option1", "option2"},
)
# Those of data to answer, where ReClor's columns are no question about a context.
_ASKED_COLUMNS = (*COLUMNS, {"context", "question", "answers"})
# What COPA asks in its column `question`.
_ASKED = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
# Columns with parts of the texts that are read, or that tasks do not use: SWAG's, then HellaSwag's.
_PARTS = {"startphrase", "gold-ending", "distractor-0", "distractor-1", "distractor-2", "distractor-3"}
_PARTS |= {"ctx_a", "ctx_b", "activity_label"}
_CHOICE = re.compile(r"((?i:choice|option|answer|ending|sol)(?:[ _-]|(?![a-z])))?([0-9]{1,9}|[A-Za-z])")
_LOOKED_AT = 100  # Rows whose columns may have texts.
_LETTER, _NUMBER = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]{1,9}")
_FIX = "Give the number of the first choice: `first_label=0` or 1"


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

    content, places = ("text", "choices", "labels"), ("lines", "ids")

    @property
    def file_rows(self):
        return self.ids

    def counts(self):
        """Returns the number of choices of each row, without absent ones."""
        return [sum(map(bool, choices)) for choices in self.choices]


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
    columns = _layout(origin, text, choices, label, labeled)
    raw_rows = origin.rows(_wanted(columns), columns.header)
    if labeled is False and columns.label and _are_hidden(origin, raw_rows, columns):
        columns = dataclasses.replace(columns, label=None)
    start = columns.first_label if first_label is None else first_label
    letters, start = _numbering(origin, raw_rows, columns, start, skip_bad_rows)
    row = functools.partial(_row, columns, start)
    lines, ids, rows = zip(*converted(origin, raw_rows, row, skip_bad_rows), strict=True)
    texts, options, labels = map(list, zip(*rows, strict=True))
    first_key = "A" if letters or start is None else str(start)
    labels = None if columns.label is None else labels
    return ChoiceExamples(
        text=texts,
        choices=options,
        labels=labels,
        lines=list(lines),
        ids=list(ids),
        first_key=first_key,
        first_label=start,
        swag=columns.before == "sent2",
        aside=() if columns.header else _left_aside(columns, raw_rows),
    )


def _flattened(origin):
    """Returns a source whose rows have question and choices as columns.

    The files of ARC, CommonsenseQA, OpenBookQA and QASC have `{"question": {"stem": ..., "choices": [...]}}`.
    """
    if not origin.typed:
        return origin
    first = next((row for _, row in origin.stream() if isinstance(row, dict)), {})
    if not isinstance(first.get("question"), dict):
        return origin

    def flatten(place, row):
        inner = row.get("question")
        if not isinstance(inner, dict):
            raise ValueError(f"{cell(place, 'question')} must be an object, as in other rows. Received: {inner!r:.80}")
        others = {name: value for name, value in row.items() if name != "question"}
        flat = {name: value for name, value in inner.items() if name != "stem"}
        return {**others, **flat, "question": inner.get("stem")}

    return origin.mapped(flatten)


@dataclasses.dataclass(frozen=True)
class _Question:
    """A row as it is in the file."""

    text: str
    choices: list
    label: str | int | None  # `None` in files without labels.
    names: list | None  # Those that the row gives its choices, for the label.


def _wanted(columns):
    """Returns the columns that the rows must have, and the parameters that name them."""
    if columns.header:
        return _TEXTS[:1]
    flags = {columns.text: "text_column", **dict.fromkeys(columns.choices, "choice_columns")}
    flags |= {name: "label_column" for name in (columns.label, columns.before) if name}
    return flags


def stream_texts(path, text=None, choices=None):
    """Yields each row of a source or file, and a dict of its text and its choices, see `read`; labels are ignored.

    Of a table without names of columns, the row is `None`.
    """
    original = source(path)
    origin = _flattened(original)
    columns = _layout(origin, text, choices, None, None)
    rows = origin.stream(_wanted(columns), columns.header)
    head = list(itertools.islice(rows, _LOOKED_AT))
    if not head:
        raise ValueError(f"{origin}: no rows")
    if not columns.header:
        _tell_aside(origin, _left_aside(columns, head))
    records = original.stream() if origin is not original else None
    for line, row in itertools.chain(head, rows):
        if isinstance(row, ValueError):
            raise row
        question, options, _ = _row(columns, None, origin.place(line), row)
        record = None if columns.header else row
        if records is not None:  # As it is in the file.
            _, record = next(records)
        yield record, {"text": question, "choices": options}


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
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return texts
    names = rows[0].keys()
    text, choices = (known or {}).get("text"), (known or {}).get("choices")
    if not {*([text] if text else []), *(choices or [])} <= names:
        text, choices = None, None
    is_nested = isinstance(rows[0].get("question"), dict)
    has_layout = text or choices or is_nested or any(columns <= names for columns in _ASKED_COLUMNS)
    if names == {"text", "choices"} or not has_layout:
        return rows if in_memory.is_frame(texts) else texts
    found = [asked for _, asked in stream_texts(PythonRows("texts", rows), text, choices)]
    return found[0] if is_single else found


def _question(columns, place, record):
    """Returns the `_Question` of a row."""
    text = _string(columns.cell(place, columns.text), record[columns.text])
    if not text.strip():
        raise ValueError(f"{columns.cell(place, columns.text)} is empty")
    choices, names = _choices(place, columns, record)
    if columns.before:
        before = _string(columns.cell(place, columns.before), record[columns.before])
        before = _ASKED.get(before, before)
        choices = [f"{before} {choice}".strip() if choice else "" for choice in choices]
    if sum(map(bool, choices)) < 2:
        raise ValueError(f"{place}: expected at least 2 choices, got {sum(map(bool, choices))}")
    label = None if columns.label is None else record[columns.label]
    return _Question(text, choices, label, names)


def _row(columns, start, place, record):
    """Returns the text of a row, its choices, and the index of the right one or `None`."""
    question = _question(columns, place, record)
    choices, label = question.choices, question.label
    if columns.label is None:
        return question.text, choices, None
    place = columns.cell(place, columns.label)
    if question.names is None:
        number = _index_of(label, start)
        expected = _described_keys(start, len(choices))
    else:
        number = question.names.index(_text(label)) if _text(label) in question.names else None
        expected = f"one of {', '.join(question.names)}"
    if number is None or not 0 <= number < len(choices):
        raise ValueError(f"{place} must be {expected}. Received: {label!r:.80}")
    if not choices[number]:
        raise ValueError(f"{place} names an empty choice. Received: {label!r}")
    return question.text, choices, number


def _choices(place, columns, record):
    """Returns the stripped choices of a record, and their names or `None`; JSON's `null` is an empty choice."""
    columns_or_items = columns.choices
    values = [record[name] for name in columns.choices]
    names = None
    if len(values) == 1:
        (column,) = columns.choices
        values, names = _listed(cell(place, column), values[0])
        columns_or_items = [f"{column}[{index}]" for index in range(len(values))]
    texts = []
    for name, value in zip(columns_or_items, values, strict=True):
        texts.append("" if value is None else _string(columns.cell(place, name), value).strip())
    return texts, names


def _listed(place, value):
    """Returns the choices in a cell, and their names or `None`: a list of texts, or texts with labels.

    ARC, CommonsenseQA, OpenBookQA and QASC have `{"text": [...], "label": [...]}` on the hub, and a list of objects
    with `text` and `label` in their own files.
    """
    if isinstance(value, list) and value and all(isinstance(part, dict) and "text" in part for part in value):
        value = {"text": [part["text"] for part in value], "label": [part.get("label") for part in value]}
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        texts, names = value["text"], value.get("label")
        if not isinstance(names, list) or len(names) != len(texts) or len({*map(str, names)}) < len(names):
            raise ValueError(f"{place} must have a different `label` for each `text`. Received: {value!r:.80}")
        return texts, list(map(_text, names))
    if not isinstance(value, list):
        raise ValueError(f"{place} must be a list of strings. Received: {value!r:.80}")
    return value, None


def _left_aside(columns, raw_rows):
    """Returns the columns with texts that are not read: most of their values have several words."""
    used = {columns.text, columns.before, columns.label, *columns.choices, *_PARTS, *TARGETS}
    counts = collections.Counter()
    records = [record for _, record in raw_rows[:_LOOKED_AT] if isinstance(record, dict)]
    for record in records:
        for name, value in record.items():
            if isinstance(value, str) and len(value.split()) > 1 and name not in used:
                counts[name] += 1
    return tuple(name for name, count in counts.items() if 2 * count > len(records))


def _string(place, value):
    if not isinstance(value, str):
        raise ValueError(f"{place} must be a string. Received: {value!r:.80}")
    return value


def tell_aside(origin, examples):
    """Warns of columns with texts that are not read."""
    _tell_aside(origin, examples.aside)


def _tell_aside(origin, names):
    if names:
        names = ", ".join(f"`{name}`" for name in names)
        _LOG.warning("%s: %s not read, name the column of the text with `text_column`", origin, names)


def _are_hidden(origin, raw_rows, columns):
    """Whether no row has a label, as in test data whose labels are not public."""
    found = readable(origin, raw_rows, functools.partial(_question, columns))
    return all(question.label in _HIDDEN for _, question in found)


def _labels(origin, raw_rows, columns):
    """Yields (line, label, number of the last choice) of the rows that can be read; reading reports the others."""
    for line, question in readable(origin, raw_rows, functools.partial(_question, columns)):
        last = max(number for number, choice in enumerate(question.choices, 1) if choice)
        # A number that the row itself explains says nothing about others.
        if question.names is None or _LETTER.fullmatch(_text(question.label)):
            yield line, question.label, last


def _numbering(origin, raw_rows, columns, start, skip_bad_rows):
    """Returns `_letters_and_start` of the labels of all rows that can be read."""
    found = list(_labels(origin, raw_rows, columns)) if columns.label else []
    try:
        return _letters_and_start(origin, columns, found, start)
    except ValueError:
        # Too many unreadable rows are the first problem to report.
        converted(origin, raw_rows, functools.partial(_question, columns), skip_bad_rows)
        raise


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The columns of a file."""

    text: str
    choices: list
    label: str | None  # `None` in files without labels.
    before: str | None = None  # The column with the start of every choice.
    first_label: int | None = None  # The number of the first choice, if the layout defines it.
    header: list | None = None  # Names for the columns of a table without column names.

    def cell(self, place, column):
        """Returns how messages call a value of a row."""
        return f"{place}: the {column}" if self.header else cell(place, column)


def _layout(origin, text, choices, label, labeled):
    """Returns the `_Layout` of a source, see `read`."""
    given = [name for name in (text, *(choices or ()), label) if name]
    names = origin.names(() if origin.typed else given or _TEXTS[:1])
    is_index = label is None and INDEX in names
    if not names:
        raise ValueError(f"{origin}: no rows")
    if not origin.typed and not given and _has_no_header(names):
        return _without_header(origin, len(names) - 2, labeled)
    label = label or next((name for name in (INDEX, *TARGETS) if name in names), TARGETS[0])
    label = label if labeled or (labeled is False and label in names) else None
    if set(_SWAG) <= set(names) and text is None and choices is None:
        endings = _sequence(origin, [name for name in names if re.fullmatch("ending[0-9]+", name)])
        return _Layout("sent1", endings, label, before="sent2", first_label=0)
    before = None
    if text is None:
        text, before = _text_columns(names)
    if choices is None:
        named = [name for name in names if _CHOICE.fullmatch(name) and name not in (text, label)]
        lists = [name for name in _LISTS if name in names]
        choices = lists[:1] or _sequence(origin, named)
    else:
        choices = _ordered(origin, choices)
    choices = [name for name in choices if name not in (text, label)]
    if not choices:
        raise ValueError(
            f"{origin.place(1)}: no columns of choices, such as `A` or `choice1`"
            f"{' or `choices`' if origin.typed else ''}. It has: {', '.join(map(repr, names))}. Name them with "
            "`choice_columns`"
        )
    return _Layout(text, choices, label, before=before, first_label=0 if is_index else None)


def _text_columns(names):
    """Returns the column of the text, and that of the question about it or `None`."""
    context = next((name for name in _CONTEXTS if name in names), None)
    question = next((name for name in _QUESTIONS if name in names), None)
    if context and question:
        return context, question
    return next((name for name in _TEXTS if name in names), _TEXTS[0]), None


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
    wanted = [key_names(first, len(names)) for first in ("A", "0", "1")]
    if len(names) < 2 or len(words) > 1 or sorted(map(str, places.values())) not in map(sorted, wanted):
        return []
    return sorted(names, key=places.__getitem__)


def _has_no_header(first):
    """Whether the first row of a table is a question: it ends with a label, and its cells are not names of columns."""
    names = [name for name in first if _CHOICE.fullmatch(name)]
    usual = {*_TEXTS, *TARGETS, *_SWAG} & set(first)
    return len(first) >= 4 and _is_key(first[-1]) and len(usual) < 2 and not _in_order(names)


def _without_header(origin, count, labeled):
    _LOG.info("%s: no column names; read as text, %d choices and label", origin, count)
    header = ["first column", *(f"column {number}" for number in range(2, count + 2)), "last column"]
    return _Layout(header[0], header[1:-1], None if labeled is None else header[-1], header=header)


def key_names(first_key, count):
    """Returns the labels of the first `count` choices; `first_key` is "A", "0" or "1"."""
    if first_key == "A" and count <= len(string.ascii_uppercase):
        return list(string.ascii_uppercase[:count])
    start = 0 if first_key == "0" else 1
    return [str(start + index) for index in range(count)]


def _is_key(label):
    """Whether a label is a letter or a number."""
    return bool(_LETTER.fullmatch(_text(label)) or _NUMBER.fullmatch(_text(label)))


def _index_of(label, start):
    """Returns the index of a choice by its label, with numbers from `start`; `None` for other labels."""
    if _LETTER.fullmatch(_text(label)):
        return string.ascii_uppercase.index(_text(label).upper())
    return int(_text(label)) - (start or 0) if _NUMBER.fullmatch(_text(label)) else None


def _described_keys(start, count):
    """Describes the labels of `count` choices; `start` is the first number, or `None` if it is unknown."""
    firsts = ["A", *("01" if start is None else str(start))]
    *others, last = (f"{kind[0]} to {kind[-1]}" for kind in (key_names(first, count) for first in firsts))
    return f"{', '.join(others)} or {last}"


def _letters_and_start(origin, columns, found, start=None):
    """Finds out how labels name their choices: whether any is a letter, and the number of the first choice.

    `found` is a list of (line, label, number of the last choice, counted from 1). Unless `start` is given, numbers
    start at 0 if one is 0, and at 1 if one is the number of the last choice; the result is `None` if no label is a
    number.
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
            f"{columns.cell(origin.place(last), columns.label)} is numbered from 1 here, up to the last choice, but "
            f"from 0 in {origin.unit} {zero}. {_FIX}"
        )
    if zero is None and last is None:
        place = columns.cell(origin.place(numbers[0][0]), columns.label)
        raise ValueError(f"{place} has neither 0 nor the number of the last choice. {_FIX}")
    return letters, 0 if last is None else 1


def _text(label):
    """Returns a label as text; JSON's `true` is not a label."""
    return "" if isinstance(label, bool) or not isinstance(label, str | int) else str(label).strip()
