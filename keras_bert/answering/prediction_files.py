"""Texts to predict, from files and lines, as dicts that `LoadedBert.predict` takes; its answers as lines and files."""

import itertools
import logging
import math

import numpy as np

from keras_bert.data import choices as multiple_choice
from keras_bert.data import in_memory
from keras_bert.data.formats import source
from keras_bert.data.sources import AskedRow, Place
from keras_bert.data.text_files import is_blank, without_formula
from keras_bert.files import LinesFile, csv_text, json_text
from keras_bert.heads.answer_forms import form_of
from keras_bert.heads.answers import flat
from keras_bert.tasks.classification.predictions import (
    multi_label_table,
    predictions_table,
    probabilities_table,
    quoted,
)
from keras_bert.text.token_counts import without_counts

_LOG = logging.getLogger("keras_bert")
# The argument of `stream_texts` that names the column of an input.
_ARGUMENTS = {
    "text": "text_column",
    "question": "text_column",
    "pair": "pair_column",
    "context": "pair_column",
}
_SHOWN = 40  # Characters of a text in a table.
_AROUND = 200  # Number of context characters to show on each side of an answer.


def read_texts(path, allowed, **columns):
    """Returns the rows of a source, or of the file of a path, as dicts of strings, see `stream_texts`."""
    return [row.texts for row in stream_texts(path, allowed, **columns)]


def stream_texts(path, allowed, text_column=None, pair_column=None, choice_columns=None, known=None, words=False):
    """Yields an `AskedRow` for each row of a source, or of the file of a path.

    Other columns are ignored; texts may be empty, except for multiple choice. For columns see `columns_of`; for those
    of choices `data.choices.read`. With `words`, of a tagger, a text may be a list of words,
    whose column may have one of the names of `data.in_memory.WORDS`.
    """
    origin = source(path)
    if "choices" in allowed[0]:
        text, choices = _choice_columns(origin, text_column, choice_columns, known)
        yield from multiple_choice.stream_asked(origin, text, choices)
        return
    if words and not text_column:
        text_column = _word_column(origin, known)
    wanted = columns_of(origin, allowed, text_column, pair_column, choice_columns, known)
    is_empty = True
    arguments = {column: _ARGUMENTS.get(name) for name, column in wanted.items()}
    for number, record in origin.stream(arguments):  # A number of lines, or of what else `origin.unit` says.
        if isinstance(record, ValueError):
            raise record
        place = Place(origin, number)
        texts = {}
        for name, column in wanted.items():
            texts[name] = _checked_value(place, column, record[column], words)
        yield AskedRow(record, texts)
        is_empty = False
    if is_empty:
        raise ValueError(f"{origin}: no rows")


def columns_of(origin, allowed, text_column=None, pair_column=None, choice_columns=None, known=None):
    """Returns the columns of the inputs by name, from the head of a source.

    Of `allowed`, the inputs that the model takes, such as `[("text",), ("text", "pair")]`, the last one whose columns
    the rows have is read. Columns default to the `known` ones, those that the model was trained on, by input; if the
    source lacks them, to the names of the inputs.
    """
    if choice_columns:
        raise ValueError(f"`choice_columns` requires a multiple-choice model. Received: {','.join(choice_columns)}")
    given = {"text_column": text_column, "pair_column": pair_column}
    by_name = []
    remembered = []
    for names in allowed:
        by_name.append(_columns_of_inputs(names, given, known={}))
        remembered.append(_columns_of_inputs(names, given, known=known or {}))
    found = _last_present(origin, remembered)
    if found is None and remembered != by_name:
        found = _last_present(origin, by_name)
        if found is not None:
            _tell_others(origin, remembered[-1].values(), found.values())
    return found or by_name[0]


def _columns_of_inputs(names, given, known):
    """Returns the column of each input: the given one, else the known one, else the one with its name."""
    columns = {}
    for name in names:
        argument = _ARGUMENTS.get(name)
        columns[name] = given.get(argument) or known.get(name) or name
    return columns


def _last_present(origin, candidates):
    """Returns the last columns by input that a source has, or `None`."""
    found = None
    for columns in candidates:
        # The wanted columns determine the delimiter of CSV.
        names = origin.names(() if origin.typed else columns.values())
        if set(columns.values()) <= set(names):
            found = columns
    return found


def _choice_columns(origin, text_column, choice_columns, known):
    """Returns the column of the text and those of the choices: the given ones, or those that the model knows."""
    if text_column or choice_columns or not known:
        return text_column, choice_columns
    text = known.get("text")
    choices = known.get("choices")
    wanted = list(choices or [])
    if text:
        wanted.insert(0, text)
    names = origin.names(() if origin.typed else wanted)
    if set(wanted) <= set(names):
        return text, choices
    return None, None


def _tell_others(origin, missing, columns):
    """Logs that other columns are read than those that the model was trained on."""
    _LOG.info(
        "%s: no %s, which the model was trained on; read as %s",
        origin,
        _listed_names(missing),
        _listed_names(columns),
    )


def _listed_names(names):
    return " and ".join(f"`{name}`" for name in names)


def stream_own(path, convert):
    """Yields an `AskedRow` for each row of a file, whose texts are the row as it is: a task of its own rows takes it.

    `convert` is a function of the place of a row and the row, which raises for one that the task cannot read.
    """
    origin = source(path)
    is_empty = True
    for number, record in origin.stream():
        if isinstance(record, ValueError):
            raise record
        convert(origin.place(number), record)
        yield AskedRow(record, texts=record)
        is_empty = False
    if is_empty:
        raise ValueError(f"{origin}: no rows")


def _word_column(origin, known):
    """Returns the first column of words or texts that a source has: the known one, or a usual one; `None` without."""
    names = origin.names()
    for name in [(known or {}).get("text"), *in_memory.WORDS]:
        if name in names:
            return name
    return None


def _checked_value(place, column, value, words):
    """Returns the value of a column; raises for what is no text, nor with `words` a list of words."""
    is_text = isinstance(value, str)
    are_words = words and isinstance(value, list) and all(isinstance(word, str) for word in value)
    if not is_text and not are_words:
        expected = "a string or a list of strings" if words else "a string"
        raise ValueError(f"{place}: column `{column}` must be {expected}. Received: {value!r:.100}")
    return value


def from_lines(name, lines, allowed):
    """Yields the texts of lines, whose parts are separated by tabs, all like the first one; `name` is the file's."""
    numbered = enumerate((line.split("\t") for line in lines), 1)
    first_number, first = next(numbered)
    if tuple(first) in allowed:  # Names of columns, not a text, if there are texts below.
        first_number, first = next(numbered, (first_number, first))
    is_single = len(first) == 1
    fitting = None
    for number, parts in itertools.chain([(first_number, first)], numbered):
        if not is_single and is_blank(parts):  # For single texts, a blank line is an empty text.
            continue
        if fitting is None:
            names = _fitting_names(parts, allowed)
            fitting = allowed if names is None else [names]
        yield from_parts(f"{name}:{number}", parts, fitting)


def from_parts(place, parts, allowed):
    """Returns a text and what belongs to it as a dict; raises if their number is not that of any allowed inputs."""
    names = _fitting_names(parts, allowed)
    if names is None:
        forms = [" and ".join(inputs) for inputs in allowed]
        expected = " or ".join(forms).replace("choices", "at least 2 choices")
        raise ValueError(f"{place}: expected {expected}. Received: {len(parts)} text(s)")
    if "choices" in names:
        return {"text": parts[0], "choices": parts[1:]}
    return dict(zip(names, parts, strict=True))


def _fitting_names(parts, allowed):
    """Returns the names of the inputs that the parts are, the first ones of those that are allowed, or `None`."""
    for names in allowed:
        if "choices" in names:
            is_fitting = len(parts) > 2
        else:
            is_fitting = len(parts) == len(names)
        if is_fitting:
            return names
    return None


def table(answers):
    """Returns tab-separated lines with a header for answers with classes or a single number; `None` for others."""
    forms = {form_of(answer) for answer in answers}
    if forms == {"class"}:
        return _class_table(answers, several=False)
    if forms == {"classes"}:
        return _class_table(answers, several=True)
    first = without_counts(answers[0])
    name = next(iter(first), None)
    if not all(_is_number(name, without_counts(answer)) for answer in answers):
        return None
    numbers = np.array([[answer[name]] for answer in answers])
    _, *lines = predictions_table(numbers, [])
    return [name, *lines]


def _class_table(answers, several):
    """Returns the lines of `table` for answers with the scores of all classes; `None` if some lack a class."""
    labels = list(answers[0]["scores"])
    if any(list(answer["scores"]) != labels for answer in answers):
        return None
    probabilities = np.array([list(answer["scores"].values()) for answer in answers])
    if not several:
        is_answered = [answer["label"] is not None for answer in answers]
        return probabilities_table(probabilities, labels, is_answered)
    chosen = []
    for answer in answers:
        chosen.append([label in answer["labels"] for label in labels])
    return multi_label_table(chosen, labels, probabilities)


def _is_number(name, answer):
    return answer.keys() == {name} and isinstance(answer[name], float)


def json_line(row, answer, keep=False):
    """Returns a text and its answer as JSON; unless `keep`, without the context of a question, which may be long."""
    shown = dict(row)
    if not keep:
        shown.pop("context", None)
    values = _merged(shown, _rounded(answer))
    return json_text(values, measured=True).encode("utf-8", "replace").decode()


def write(path, parts, delimiter=None):
    """Writes answers, see `AnswersFile`."""
    with AnswersFile(path, delimiter) as file:
        file.write(parts)


class AnswersFile(LinesFile):
    """A file of answers, which grows by whole lines: a table, or without `delimiter` a line of JSON for each text."""

    def __init__(self, path, delimiter=None):
        super().__init__(path)
        self.count = 0  # Of the answers.
        self._delimiter = delimiter
        self._columns = None

    def write(self, parts):
        """Appends answers; `parts` are (record, row, answer): the row of the file, or `None`; the texts; the answer."""
        answered = list(parts)
        if self._delimiter is None:
            lines = []
            for record, row, answer in answered:
                lines.append(json_line(record or row, answer, keep=record is not None) + "\n")
            self.append("".join(lines))
        else:
            self.append(self._table_lines(answered))
        self.count += len(answered)

    def _table_lines(self, parts):
        """Returns the lines of a table; the first ones begin with the names of its columns."""
        rows = []
        for record, row, answer in parts:
            answer_cells = _without_formulas(_cells(_rounded(flat(answer))))
            rows.append(_merged(_cells(record or row), answer_cells))  # Columns of the user stay as they are.
        is_new = self._columns is None
        if is_new:
            columns = {}  # In order.
            for row in rows:
                columns.update(dict.fromkeys(row))
            self._columns = list(columns)
        self._check_columns(rows)
        return csv_text(self._columns, rows, delimiter=self._delimiter, with_header=is_new)

    def _check_columns(self, rows):
        """Raises for a row with a column that those which are written, and the header, do not have."""
        known = set(self._columns)
        for number, row in enumerate(rows, self.count + 1):
            others = [name for name in row if name not in known]
            if others:
                names = ", ".join(map("`{}`".format, others))
                raise ValueError(
                    f"row {number:,} has {names}, which the rows before do not have, and the table is begun. Expected "
                    "the same columns in all rows, or an `output` that ends in .jsonl"
                )


def _merged(columns, answer):
    """Appends an answer to columns; its fields that have the name of a column are called `predicted_...`."""
    merged = dict(columns)
    for name, value in answer.items():
        free = name
        while free in merged:
            free = f"predicted_{free}"
        merged[free] = value
    return merged


def _cells(columns):
    """Returns columns as cells of a table: lists and dicts as JSON, numbers that are not finite as nothing."""
    nested = (dict, list, bool, type(None))
    cells = {}
    for name, value in columns.items():
        if isinstance(value, nested):
            cells[name] = json_text(value, measured=True)
        elif isinstance(value, float) and not math.isfinite(value):
            cells[name] = ""
        else:
            cells[name] = value
    return cells


def _without_formulas(cells):
    """Returns cells that spreadsheets do not take for formulas."""
    return {without_formula(name): without_formula(str(cell)) for name, cell in cells.items()}


def with_texts(lines, rows):
    """Appends the texts, cut to 40 characters, to the lines of `table`, and aligns the columns for a terminal."""
    texts = ["text"]
    for row in rows:
        text = _one_line(" | ".join(map(str, row.values())))
        if len(text) > _SHOWN:
            text = text[: _SHOWN - 3] + "..."
        texts.append(text)
    cells = [line.split("\t") for line in lines]
    for line in cells:
        for column, cell in enumerate(line):
            if cell == '""':
                line[column] = "(none)"
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = []
    for line, text in zip(cells, texts, strict=True):
        padded = [f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)]
        aligned.append("  ".join([*padded, text]).rstrip())
    return aligned


def _one_line(text):
    """Returns a text in one line, without signs that cannot be printed."""
    signs = [sign if sign.isprintable() else " " for sign in text]
    return " ".join("".join(signs).split())


def _rounded(value):
    """Returns nested values for JSON, with numbers of six significant digits; answers may have values of NumPy."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def readable(row, answer):
    """Returns an answer as lines to read: tab-separated, scores first; one without a form of its own as JSON."""
    match form_of(answer):
        case "entities":
            return _entities(answer["entities"])
        case "span" if "context" in row:
            return _answers(row["context"], answer.get("answers") or [answer])
        case "fills" if "text" in row:
            return _fills(row["text"], answer["fills"])
        case "choice" if len(row.get("choices", ())) == len(answer["scores"]):
            return _choices(row["choices"], answer)
        case "translation" if "translations" in answer:
            return [f"{each['score']:.4f}\t{each['translation']}" for each in answer["translations"]]
        case "translation":
            return [answer["translation"]]
    return [json_line(row, answer)]


def _entities(entities):
    """Returns a line for each entity."""
    lines = []
    for entity in entities:
        lines.append(f"{entity['score']:.4f}\t{entity['label']}\t{quoted(entity['text'])}")
    return lines or ["no entities"]


def _choices(choices, answer):
    """Returns a line for each choice, the most probable one first."""
    scores = answer["scores"]
    lines = []
    for index in sorted(range(len(scores)), key=lambda index: -scores[index]):
        lines.append(f"{scores[index]:.4f}\t{quoted(choices[index])}")
    if answer["choice"] is None:
        return ["no answer", *lines]
    return lines


def _fills(text, masks):
    """Returns a line for each [MASK], with its tokens."""
    if masks:
        lines = []
        for fills in masks:
            lines.append("\t".join(f"{fill['token']} {fill['score']:.4f}" for fill in fills))
        return lines
    if "[MASK]" in text:
        return ["the [MASK] is beyond the longest text that the model takes"]
    return ["no [MASK]; write [MASK] in the text"]


def _answers(context, answers):
    """Returns two lines for each answer to a question: the answer, and where it is in the context."""
    lines = []
    for answer in answers:
        if answer["answer"]:
            lines.extend(_answer_lines(context, answer))
    return lines or ["no answer"]


def _answer_lines(context, answer):
    """Returns an answer with its probability, and the context around it with the answer [[marked]]."""
    line = quoted(answer["answer"])
    if "score" in answer:
        line += f"\t{answer['score']:.4f}"
    before = context[: answer["start"]]
    behind = context[answer["end"] :]
    left = before[-_AROUND:]
    if len(before) > _AROUND:
        left = "..." + left
    right = behind[:_AROUND]
    if len(behind) > _AROUND:
        right += "..."
    marked = f"{left}[[{answer['answer']}]]{right}"
    return [line, " ".join(marked.split())]
