"""Reads user data: rows of a `Source` with a text column, optionally a second one, and optionally labels.

CSV is quoted as in spreadsheets (RFC 4180), with commas, semicolons or tabs between columns. TSV has one line per row,
as in GLUE; only a field that is quoted as a whole is unquoted, all other quotes are literal. Text with tabs or line
breaks requires CSV or JSONL. The first line of CSV and TSV contains the column names.

Class names are the stripped labels of the files: JSON's `true` is "true", its numbers 1 and 1.0 are "1".
"""

import dataclasses
import functools

from keras_bert.data.sources import Rows, as_list, converted, finite_number, missing, source, text_cell
from keras_bert.tasks.class_names import class_ids, class_name, class_numbers

_LARGEST = 1e15  # The loss of larger numbers, their square, leaves the range of float32.


@dataclasses.dataclass(frozen=True)
class Examples(Rows):
    """The rows of a data set. Arrays are converted to lists."""

    text: list  # Strings.
    pair: list | None  # The second sentences, or `None` for single sentences.
    # Class ids, tuples of them for several labels, floats for regression, or strings of unknown classes; or `None`.
    labels: list | None
    ids: list  # Row ids, ints.
    skipped: int = 0  # Number of unreadable rows that were skipped.

    content, places = ("text", "pair", "labels"), ("ids",)

    def __post_init__(self):
        for name in (*self.content, *self.places):
            column = getattr(self, name)
            if column is not None:
                object.__setattr__(self, name, as_list(column))

    @property
    def texts(self):
        """The texts by name, for reports."""
        return dict(zip(("text", "pair"), self.columns, strict=False))

    @property
    def columns(self):
        """The texts, or the two columns of pairs."""
        return [self.text] if self.pair is None else [self.text, self.pair]


def read_table(
    path, text_column, pair_column=None, label_column=None, labels=None, regression=False, skip_bad_rows=None
):
    """Reads the columns of the first sentence, the second one and the label of a `Source` or the file of a path.

    Without `labels`, the classes by id, `Examples.labels` are strings, for `discover_labels`; for `regression`, floats.
    Up to `skip_bad_rows` rows with missing text, label or columns are skipped with a warning, by default none. Unknown
    labels are always an error. The ids are row numbers from 0.
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    read_label = functools.partial(_label, column=label_column, regression=regression)
    columns = [] if label_column is None else [label_column]
    return read_examples(path, text_column, pair_column, columns, read_label, labels, skip_bad_rows)


def read_examples(path, text_column, pair_column, label_columns, read_label, labels=None, skip_bad_rows=None):
    """Reads `Examples` as `read_table` does, with labels by a function.

    `read_label` returns the label of a row, or a tuple of labels, given its place and the row. It reads the
    `label_columns`; without any, the rows have no labels.
    """
    numbers = class_numbers(labels)
    flags = {text_column: "text_column", pair_column: "pair_column", **dict.fromkeys(label_columns, "label_column")}
    origin = source(path)
    rows = origin.rows({column: flag for column, flag in flags.items() if column is not None})

    def row(place, record):
        text, pair = (column and text_cell(place, record, column) for column in (text_column, pair_column))
        return place, text, pair, read_label(place, record) if label_columns else None

    _, ids, results = zip(*converted(origin, rows, row, skip_bad_rows), strict=True)
    places, text, pair, found = zip(*results, strict=True)
    if numbers is not None and label_columns:  # Unknown labels are an error, also if unreadable rows are skipped.
        found = [class_ids(place, label, numbers) for place, label in zip(places, found, strict=True)]
    return Examples(
        text, pair if pair_column else None, found if label_columns else None, ids, skipped=len(rows) - len(ids)
    )


def _label(place, record, column, regression):
    label = record[column]
    if not isinstance(label, str | int | float) or (regression and isinstance(label, bool)):
        raise ValueError(
            f"{place}: column `{column}` must be a string or a number. Received: {label!r}{missing(label)}"
        )
    if regression or isinstance(label, float):
        label = finite_number(place, column, label)
    if regression:
        if abs(label) > _LARGEST:
            raise ValueError(
                f"{place}: column `{column}` must be between -{_LARGEST:g} and {_LARGEST:g}. Received: {label:g}"
            )
        return label
    if not class_name(label):
        raise ValueError(f"{place}: column `{column}` is empty")
    return class_name(label)
