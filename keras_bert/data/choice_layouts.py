"""Where the columns of a question with choices are: those of known data sets, of tables, and of lists in JSON.

A layout has a column of the text, one or several of the choices, and one of the right choice. Where the text is a
context, the question about it has a column of its own.
"""

import dataclasses
import logging
import re

from keras_bert.data.cells import cell
from keras_bert.data.choice_labels import is_key, key_names

_LOG = logging.getLogger("keras_bert")
# Columns by which rows are recognized as questions with choices, by the data set that has them.
_DATA_SETS = {
    "texts with lists": {"choices"},
    "ARC, CommonsenseQA, QASC": {"question", "choices"},
    "the same in their own files, with the choices in the question": {"question", "answerKey"},
    "OpenBookQA": {"question_stem", "choices"},
    "questions about a context": {"question", "context", "choices"},
    "RACE": {"article", "question", "options"},
    "SWAG": {"ending0", "ending1"},
    "HellaSwag": {"ctx", "endings"},
    "Social IQa": {"context", "question", "answerA", "answerB"},
    "CosmosQA": {"context", "question", "answer0", "answer1"},
    "COPA": {"premise", "choice1", "choice2"},
    "PIQA": {"goal", "sol1", "sol2"},
    "WinoGrande": {"sentence", "option1", "option2"},
    "tables with letters": {"question", "A", "B"},
    "tables with choices": {"question", "choice1", "choice2"},
    "tables with options": {"question", "option1", "option2"},
}
COLUMNS = tuple(_DATA_SETS.values())
# Data to answer may also have ReClor's columns, which are those of a question about a context.
COLUMNS_TO_ANSWER = (*COLUMNS, {"context", "question", "answers"})
# Usual columns of a text and of the question about it: the first row counts of which a file has all.
_TEXTS = (
    ("context", "question"),  # Social IQa, CosmosQA, ReClor
    ("context", "question_stem"),
    ("article", "question"),  # RACE
    ("article", "question_stem"),
    ("premise", "question"),  # COPA
    ("premise", "question_stem"),
    ("passage", "question"),
    ("passage", "question_stem"),
    ("question", None),  # ARC, CommonsenseQA, QASC
    ("text", None),
    ("question_stem", None),  # OpenBookQA
    ("ctx", None),  # HellaSwag
    ("goal", None),  # PIQA
    ("sentence", None),  # WinoGrande
    ("premise", None),
)
DEFAULT_TEXT = "question"  # The column that messages name.
_LISTS = ("choices", "options", "endings", "answers")  # Usual columns of a list of choices, the first one counts.
# Usual columns of single choices: `A`, `choice1`, `option_b`, `answer C`, `ending0`, `sol1`.
_CHOICE = re.compile(
    r"((?i:choice|option|answer|ending|sol)(?:[ _-]|(?![a-z])))?"  # A word.
    r"([0-9]{1,9}|[A-Za-z])"  # The number or letter.
)
# Columns of the right choice, the first one counts.
TARGETS = ("label", "answer", "key", "answerKey")
# The column of the right choice of rows from Python: its index, from 0.
INDEX = "index of the right choice"
# Columns that SWAG's files have.
_SWAG_TEXT = "sent1"
_SWAG_QUESTION = "sent2"
_SWAG = {_SWAG_TEXT, _SWAG_QUESTION, "ending0", "ending1"}
# What SWAG and HellaSwag have beside: parts of the texts that are read, or what tasks do not use.
_UNUSED = {"startphrase", "gold-ending", "ctx_a", "ctx_b", "activity_label"}
_UNUSED |= {"distractor-0", "distractor-1", "distractor-2", "distractor-3"}


@dataclasses.dataclass(frozen=True)
class NamedColumns:
    """The columns that a caller names; `None` for those to find."""

    text: str | None = None
    choices: list | None = None
    label: str | None = None

    @property
    def all(self):
        """The names, of which a table must have the first line."""
        names = [self.text, *(self.choices or ()), self.label]
        return [name for name in names if name]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of a file."""

    text: str
    choices: list
    label: str | None  # `None` in files without labels.
    question: str | None = None  # The column with the start of every choice.
    first_label: int | None = None  # The number of the first choice, if the layout defines it.
    header: list | None = None  # Names for the columns of a table without column names.

    @property
    def is_swag(self):
        """Whether the columns are SWAG's."""
        return self.question == _SWAG_QUESTION

    @property
    def required(self):
        """The columns that the rows must have, and the parameters that name them, `None` for those without one."""
        if self.header:
            return {DEFAULT_TEXT: None}
        parameters = {self.text: "text_column"}
        parameters.update(dict.fromkeys(self.choices, "choice_columns"))
        if self.label:
            parameters[self.label] = "label_column"
        if self.question:
            parameters[self.question] = None
        return parameters

    @property
    def known(self):
        """The columns that are read, or that no task reads."""
        return {self.text, self.question, self.label, *self.choices, *_UNUSED, *TARGETS}

    def cell(self, place, column):
        """Returns how messages call a value of a row."""
        if self.header:
            return f"{place}: the {column}"
        return cell(place, column)


def find_layout(origin, named, labeled):
    """Returns the `Layout` of a source.

    Args:
        origin: the `Source`.
        named: the `NamedColumns`.
        labeled: bool, whether there must be labels, `False` for those that may be there, or `None` for none.
    """
    wanted = ()
    if not origin.typed:  # The names of its columns tell the delimiter of a table.
        wanted = named.all or [DEFAULT_TEXT]
    names = origin.names(wanted)
    if not names:
        raise ValueError(f"{origin}: no rows")
    if not origin.typed and not named.all and _has_no_header(names):
        return _layout_without_header(origin, len(names), labeled)
    label = _label_column(names, named.label, labeled)
    if _has_swag_columns(names) and named.text is None and named.choices is None:
        return _swag_layout(origin, names, label)
    question = None
    text = named.text
    if text is None:
        text, question = _text_columns(names)
    choices = _choice_columns(origin, names, named.choices, (text, label))
    first_label = None
    if named.label is None and INDEX in names:
        first_label = 0
    return Layout(text, choices, label, question=question, first_label=first_label)


def _has_swag_columns(names):
    """Whether names of columns are SWAG's."""
    return set(names) >= _SWAG


def _swag_layout(origin, names, label):
    """Returns the layout of SWAG: the text is `sent1`, the choices are `sent2` with each ending, labels are from 0."""
    endings = [name for name in names if re.fullmatch("ending[0-9]+", name)]
    return Layout(
        text=_SWAG_TEXT,
        choices=_in_sequence(origin, endings),
        label=label,
        question=_SWAG_QUESTION,
        first_label=0,
    )


def _label_column(names, named, labeled):
    """Returns the column of the right choice, or `None` if none is read."""
    if labeled is None:
        return None
    label = named or _first_in(names, (INDEX, *TARGETS)) or TARGETS[0]
    if labeled or label in names:
        return label
    return None


def _text_columns(names):
    """Returns the column of the text, and that of the question about it or `None`."""
    for text, question in _TEXTS:
        if text in names and (question is None or question in names):
            return text, question
    return DEFAULT_TEXT, None  # Which an error names.


def _choice_columns(origin, names, named, others):
    """Returns the columns of the choices, or the one of a list of them, without the `others` of the layout."""
    listed = _first_in(names, _LISTS)
    if named is not None:
        choices = _ordered(origin, named)
    elif listed:
        choices = [listed]
    else:
        single = [name for name in names if _CHOICE.fullmatch(name) and name not in others]
        choices = _in_sequence(origin, single)
    choices = [name for name in choices if name not in others]
    if not choices:
        examples = "`A` or `choice1`"
        if origin.typed:
            examples += " or `choices`"
        raise ValueError(
            f"{origin.place(1)}: no columns of choices, such as {examples}. It has: {', '.join(map(repr, names))}. "
            "Name them with `choice_columns`"
        )
    return choices


def _first_in(names, usual):
    """Returns the first of some usual columns that is among the names, or `None`."""
    return next((name for name in usual if name in names), None)


def _ordered(origin, names):
    """Returns the given columns of choices, in the order of the letters or numbers that their names may have."""
    if len(set(names)) < len(names):
        raise ValueError(f"`choice_columns` contains duplicates. Received: {','.join(names)}")
    if len(names) == 1 or not all(_CHOICE.fullmatch(name) for name in names):
        return names
    ordered = _by_letter_or_number(names)
    if not ordered:
        raise ValueError(
            f"{origin.place(1)}: labels cannot name the columns {', '.join(map(repr, names))} by their letters or "
            "numbers. Expected columns from A, 0 or 1 without gaps, or other names"
        )
    return ordered


def _in_sequence(origin, names):
    """Returns columns of choices in the order of their letters or numbers, which must have no gaps."""
    if not names:
        return []
    ordered = _by_letter_or_number(names)
    if not ordered:
        raise ValueError(
            f"{origin.place(1)}: the columns {', '.join(map(repr, names))} are not a sequence of choices, such as A, "
            "B, C or choice1, choice2. Name the choices with `choice_columns`"
        )
    return ordered


def _by_letter_or_number(names):
    """Returns names such as `B`, `A` in order; an empty list unless they are a sequence from A, 0 or 1."""
    words = set()
    places = {}  # The letter or number of each name.
    for name in names:
        word, key = _CHOICE.fullmatch(name).groups("")
        words.add(word.rstrip(" _-").lower())
        places[name] = int(key) if key.isdigit() else key.upper()
    if len(names) < 2 or len(words) > 1:
        return []
    keys = sorted(map(str, places.values()))
    for first in ("A", "0", "1"):
        if keys == sorted(key_names(first, len(names))):
            return sorted(names, key=places.__getitem__)
    return []


def _has_no_header(first):
    """Whether the first row of a table is a question: it ends with a label, and its cells are not names of columns."""
    if len(first) < 4 or not is_key(first[-1]):
        return False
    usual = {*TARGETS, *_SWAG}
    for text, question in _TEXTS:
        if question is None:
            usual.add(text)
    if len(usual & set(first)) >= 2:
        return False
    return not _by_letter_or_number([name for name in first if _CHOICE.fullmatch(name)])


def _layout_without_header(origin, count, labeled):
    """Returns the layout of a table of `count` columns without names: the text, the choices and the label."""
    _LOG.info("%s: no column names; read as text, %d choices and label", origin, count - 2)
    choices = [f"column {number}" for number in range(2, count)]
    text = "first column"
    label = "last column"
    header = [text, *choices, label]
    if labeled is None:
        return Layout(text=text, choices=choices, label=None, header=header)
    return Layout(text=text, choices=choices, label=label, header=header)
