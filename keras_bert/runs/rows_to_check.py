"""The file of the rows to train on, with what speaks against their labels: to be corrected and trained on again."""

import pathlib

from keras_bert.data.sources import Source
from keras_bert.files import csv_text, json_text, write_text

NAME = "rows_to_check"
_ADDED = ("rank", "predicted", "loss")


def write(output, source, examples, checks):
    """Writes the file to a folder; returns its name, or `None` if its rows are not those of `examples`.

    It has all rows of the source that can be read, in the columns of the source: first those of the checks, in their
    order, with their rank, the prediction and the loss in more columns. Files of sentences keep their order, with a
    comment above each sentence that has a doubtful tag. Articles in SQuAD's format stay whole, in the order of their
    worst questions, which have the added values.

    Args:
        output: path of the folder.
        source: the `Source` of the rows to train on.
        examples: the `Rows` that were made of them, all or the first ones.
        checks: list of `JudgedLabel`s, the most doubtful first.
    """
    folder = pathlib.Path(output)
    if hasattr(examples, "write_comments"):
        name = f"{NAME}{pathlib.Path(source.name).suffix or '.txt'}"
        examples.write_comments(folder / name, _comments(checks))
        return name
    if not isinstance(source, Source):
        return None
    if hasattr(examples, "with_notes"):
        document = examples.with_notes(source.document, _notes(checks))
        if document:
            name = f"{NAME}.json"
            write_text(folder / name, json_text(document, measured=True, indent=1) + "\n")
            return name
    rows = [row for _, row in source.stream()]
    numbers = _row_numbers(rows, examples, source)
    if numbers is None:
        return None
    ordered = _ordered(rows, numbers, checks, source.typed)
    if source.typed:
        name = f"{NAME}.jsonl"
        text = _json_lines(ordered)
    else:
        name = f"{NAME}.csv"
        text = _csv_lines(ordered)
    write_text(folder / name, text)
    return name


def _row_numbers(rows, examples, source):
    """Returns the number of the row of each example; `None` if the rows are not those of the examples."""
    numbers = examples.file_rows
    if numbers is None:
        if len(rows) < len(examples):
            return None  # Such as articles with several questions.
        numbers = range(len(examples))
    if max(numbers) >= len(rows) or any(isinstance(rows[number], ValueError) for number in numbers):
        raise ValueError(f"{source} has changed since it was read. Expected {max(numbers) + 1:,} rows or more")
    return numbers


def _notes(checks):
    """Returns the rank, the prediction and the loss by row, the most doubtful first."""
    notes = {}
    for rank, check in enumerate(checks, 1):
        notes[check.row] = _note(rank, check)
    return notes


def _note(rank, check):
    """Returns the rank, the prediction and the loss of a check."""
    return {"rank": rank, "predicted": check.predicted, "loss": float(f"{check.loss:.6g}")}


def _ordered(rows, numbers, checks, typed):
    """Returns the rows as dicts, those of the checks first, with the added columns."""
    by_row = {}
    for rank, check in enumerate(checks, 1):
        by_row.setdefault(check.row, []).append((rank, check))
    names = {name: _free(name, rows) for name in _ADDED}
    ordered = []
    for row, ranked in by_row.items():
        ordered.append(rows[numbers[row]] | _added(names, ranked, typed))
    checked = {numbers[row] for row in by_row}
    nothing = dict.fromkeys(names.values(), None if typed else "")
    for number, row in enumerate(rows):
        if number not in checked and not isinstance(row, ValueError):
            ordered.append(row | nothing)
    return ordered


def _added(names, ranked, typed):
    """Returns the values of the added columns; of a row with several words, those of its doubtful words."""
    rank, first = ranked[0]
    values = _note(rank, first)
    if first.word is not None:
        values["predicted"] = []
        for _, check in ranked:
            if check.label != check.predicted:
                values["predicted"].append(check.to_dict())
    elif not typed and isinstance(first.predicted, list):
        values["predicted"] = "|".join(map(str, first.predicted))
    return {names[name]: value for name, value in values.items()}


def _free(name, rows):
    """Returns a name of a column that no row has: the given one, or the same with underscores."""
    free = name
    while any(isinstance(row, dict) and free in row for row in rows):
        free = f"{free}_"
    return free


def _json_lines(rows):
    return "".join(f"{json_text(row, measured=True)}\n" for row in rows)


def _csv_lines(rows):
    return csv_text(list(rows[0]), rows)


def _comments(checks):
    """Returns the lines of comments by sentence."""
    comments = {}
    for rank, check in enumerate(checks, 1):
        if check.label == check.predicted and not check.same_text:
            continue
        start, end = check.span
        word = check.text[start:end]
        predicted = f"{check.label}, predicted {check.predicted}, loss {check.loss:.3g}"
        comments.setdefault(check.row, []).append(f"# rank {rank:,}: {word} {predicted}")
    return comments
