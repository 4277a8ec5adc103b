"""Reads texts to predict from files and lines, as dicts that `LoadedBert.predict` takes."""

from keras_bert.data import choices as multiple_choice
from keras_bert.data.sources import converted, source
from keras_bert.data.text_files import is_blank

# The argument of `read_texts` that names the column of an input.
_ARGUMENTS = {"text": "text_column", "question": "text_column", "pair": "pair_column", "context": "pair_column"}


def read_texts(path, allowed, text_column=None, pair_column=None, choice_columns=None):
    """Returns the rows of a source, or of the file of a path, as dicts of strings; `choices` is a list of strings.

    Other columns are ignored; texts may be empty, except for multiple choice. Of `allowed`, the inputs that the model
    takes, such as `[("text",), ("text", "pair")]`, the last one whose columns the rows have is read. Columns default to
    the names of the inputs; for choices, see `data.choices.read`.
    """
    path = source(path)
    if "choices" in allowed[0]:
        read = multiple_choice.read(path, text_column, choice_columns, labeled=None)
        return [{"text": text, "choices": choices} for text, choices in zip(read.text, read.choices, strict=True)]
    if choice_columns:
        raise ValueError(f"`choice_columns` requires a multiple-choice model. Received: {','.join(choice_columns)}")
    given = {"text_column": text_column, "pair_column": pair_column}
    candidates = [{name: given.get(_ARGUMENTS.get(name)) or name for name in names} for names in allowed]
    # The wanted columns determine the delimiter of CSV.
    found = [path.names(() if path.typed else names.values()) for names in candidates]
    present = [names for names, columns in zip(candidates, found, strict=True) if set(names.values()) <= set(columns)]
    wanted = present[-1] if present else candidates[0]
    rows = path.rows({column: _ARGUMENTS.get(name) for name, column in wanted.items()})

    def row(place, record):
        return {name: _value(place, column, record[column]) for name, column in wanted.items()}

    return [texts for _, _, texts in converted(path, rows, row)]


def read_own(path):
    """Returns the rows of a file as they are, dicts by column, which a task of its own rows takes."""
    path = source(path)
    return [record for _, _, record in converted(path, path.rows(), lambda place, record: record)]


def read_records(path, names, text_column=None, pair_column=None):
    """Returns the rows of a file as dicts by column, of which `read_texts` has read those of the inputs `names`."""
    given = {"text_column": text_column, "pair_column": pair_column}
    wanted = [given.get(_ARGUMENTS.get(name)) or name for name in names if "choices" not in names]
    return [record for _, record in source(path).rows(wanted)]


def _value(place, column, value):
    if not isinstance(value, str):
        raise ValueError(f"{place}: column `{column}` must be a string. Received: {value!r:.100}")
    return value


def from_lines(name, lines, allowed):
    """Converts lines, whose parts are separated by tabs, all like the first one; `name` is that of the file."""
    lines = [(number, line.split("\t")) for number, line in enumerate(lines, 1)]
    if len(lines) > 1 and tuple(lines[0][1]) in allowed:  # Names of columns, not a text.
        lines = lines[1:]
    if len(lines[0][1]) > 1:  # For single texts, a blank line is an empty text.
        lines = [(number, parts) for number, parts in lines if not is_blank(parts)]
    fitting = _fitting(lines[0][1], allowed)
    return [from_parts(f"{name}:{number}", parts, fitting or allowed) for number, parts in lines]


def from_parts(place, parts, allowed):
    """Returns a text and what belongs to it as a dict; raises if their number is not that of any allowed inputs."""
    fitting = _fitting(parts, allowed)
    if not fitting:
        expected = " or ".join(" and ".join(names) for names in allowed).replace("choices", "at least 2 choices")
        raise ValueError(f"{place}: expected {expected}. Received: {len(parts)} text(s)")
    (names,) = fitting
    return {"text": parts[0], "choices": parts[1:]} if "choices" in names else dict(zip(names, parts, strict=True))


def _fitting(parts, allowed):
    """Returns the inputs that the parts are, a list of one, or an empty list."""
    return [names for names in allowed if (len(parts) > 2 if "choices" in names else len(parts) == len(names))][:1]
