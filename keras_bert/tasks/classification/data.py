"""Users' own tables of texts, or pairs of them, with labels: how their rows become examples, and files a data set."""

import dataclasses
import functools
import itertools
from typing import Any

from keras_bert.checks import check_choice
from keras_bert.data.cells import all_problems, cell, finite_number, missing, text_cell
from keras_bert.data.conversion import convert_rows
from keras_bert.data.formats import source
from keras_bert.data.in_memory import CLASSIFIED_PAIRS
from keras_bert.data.sources import Place
from keras_bert.tasks.class_names import (
    MANY,
    REGRESSION,
    are_numbers,
    class_ids,
    class_name,
    class_numbers,
    discover_labels,
)
from keras_bert.tasks.classification.examples import SEPARATOR, TaskSpec, TextData, TextExamples
from keras_bert.training.metrics import (
    accuracy,
    exact_match,
    macro_f1,
    matthews_correlation,
    micro_f1,
    pearson,
    spearman,
)

_LARGEST = 1e15  # The loss of larger numbers, their square, leaves the range of float32.
_BOOLEANS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
# Usual names of the columns of the text, and of its pair if there is one: of several rows, the first one whose columns
# a source has counts. What other programs and the hub call them is a row here.
TEXTS = (
    ("text",),  # Its pair has no usual name in files.
    *CLASSIFIED_PAIRS[1:],
    ("sentence",),  # CoLA, SST-2
)
OWN = ("classification", "multi_label", "regression")
METRICS = {
    "classification": (accuracy, macro_f1, matthews_correlation),
    "multi_label": (micro_f1, macro_f1, exact_match),
    "regression": (spearman, pearson),
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """Names of the columns of a table.

    Args:
        text: string, the column of the text. Defaults to `None`, the usual columns of a text and its pair, see `TEXTS`.
        pair: string, the column of the second text, or `None`.
        label: string, the column of the labels; for "multi_label", it may be a list of columns.
    """

    text: str | None = None
    pair: str | None = None
    label: Any = "label"

    @property
    def labels(self):
        """The columns of the labels, a list."""
        return [self.label] if isinstance(self.label, str) else list(self.label)


@dataclasses.dataclass(frozen=True)
class TableReader:
    """Reads tables with the same columns and the same kind of labels.

    Args:
        kind: string, one of `OWN`.
        text: string, the column of the text.
        pair: string, the column of the second text; `None` for single texts.
        labels: list of the columns of the labels, several ones only for "multi_label". Without any, the rows have none.
    """

    kind: str
    text: str
    pair: str | None
    labels: list

    def read(self, path, classes=None, skip_bad_rows=None):
        """Reads the `TextExamples` of a source or path.

        `classes` are the names of the classes by id; without them, the labels of the examples are names. Up to
        `skip_bad_rows` unreadable rows are skipped, by default none.
        """
        if self.kind == "multi_label":
            return read_multi_label(path, self.text, self.pair, self.labels, classes, skip_bad_rows)
        column = self.labels[0] if self.labels else None
        return read_table(
            path,
            self.text,
            self.pair,
            column,
            labels=classes,
            regression=self.kind == "regression",
            skip_bad_rows=skip_bad_rows,
        )

    def read_to_predict(self, origin, classes):
        """Reads the `TextExamples` of a source to predict: with labels if it has any, and no row is skipped."""
        reader = self
        if not self._finds_labels(origin):
            reader = dataclasses.replace(self, labels=[])
        return reader.read(origin, classes)

    def _finds_labels(self, origin):
        """Whether a source has any of the columns of labels, and a label in a row."""
        wanted = [self.text]
        if self.pair:
            wanted.append(self.pair)
        if not set(self.labels) & set(origin.names(wanted)):
            return False
        for _, row in origin.stream(wanted):
            if isinstance(row, dict) and self._has_label(row):
                return True
        return False

    def _has_label(self, row):
        return any(row.get(column) not in (None, -1, "-1") for column in self.labels)

    def discover_classes(self, labels, origin):
        """Returns the names of the classes, given the labels of a source without ids; `None` for regression."""
        if self.kind == "regression":
            return None
        if self.kind == "classification":
            return discover_labels(set(labels), place=cell(str(origin), self.labels[0]))
        if len(self.labels) > 1:
            return list(self.labels)
        return _discover_listed(self.labels[0], labels)


def own_data(
    kind,
    train_file,
    dev_file=None,
    test_file=None,
    columns=None,
    *,
    skip_bad_rows=0,
    labels=None,
    name=None,
):
    """Reads `TextData` of a user's own texts from sources or paths, see `read_table` and `read_multi_label`.

    Labels of dev that are not in train are an error; test data, which must have no unreadable rows, is scored if it has
    labels. Without `dev_file`, as in a cross-validation, dev is train.

    Args:
        kind: string, "classification", "multi_label" or "regression".
        train_file, dev_file, test_file: sources or paths.
        columns: `Columns` of all files. Defaults to the usual ones.
        skip_bad_rows: int, the most unreadable rows of train and of dev to skip. Defaults to 0.
        labels: the classes. Defaults to the sorted ones of train.
        name: string, the name of the task. Defaults to `kind`.
    """
    check_choice("kind", kind, OWN)
    columns = columns or Columns()
    _check_label_columns(columns.labels)
    train_source = source(train_file)
    dev_source = train_source if dev_file is None else source(dev_file)
    test_source = None if test_file is None else source(test_file)

    reader = _reader(kind, columns, train_source)
    train = reader.read(train_source, labels, skip_bad_rows)
    classes = labels
    if classes is None:
        if kind == "classification" and _all_differ(train.labels):  # Dev, read here before its turn, may have the same.
            _check_classes(reader, train, train_source, dev_source, skip_bad_rows)
        classes = reader.discover_classes(train.labels, train_source)
        train = _with_ids(train, classes)
    dev = train
    if dev_source is not train_source:
        dev = reader.read(dev_source, classes, skip_bad_rows)
    # Neither dev nor test depends on the other: both need the classes alone.
    name = name or kind
    test = {}
    if test_source is not None:
        test[name] = reader.read_to_predict(test_source, classes)
    return TextData(
        task=_task_spec(reader, name, classes, train_source),
        train=train,
        dev={name: dev},
        test=test,
        source=dev_source.name,
        train_source=train_source.name,
        typed=dev_source.typed,
    )


def _reader(kind, columns, origin):
    """Returns the `TableReader` of `Columns`, given a source, whose columns tell the usual ones."""
    text = columns.text
    pair = columns.pair
    if text is None:
        wanted = list(columns.labels)
        if pair:
            wanted.append(pair)
        text, pair = usual_columns(origin, wanted, pair)
    return TableReader(kind, text, pair, columns.labels)


def _task_spec(reader, name, classes, train_source):
    """Returns the `TaskSpec` of a user's task."""
    title = "Multi-label classification" if name == "multi_label" else name.capitalize()
    return TaskSpec(
        name=name,
        title=f"{title} of {train_source.name}",
        text=reader.text,
        pair=reader.pair,
        label=",".join(reader.labels),
        labels=tuple(map(str, classes or ())),
        metrics=METRICS[reader.kind],
        multi_label=reader.kind == "multi_label",
    )


def _all_differ(labels):
    """Whether every row has another label, and the rows are not few."""
    return len(labels) >= MANY and len(set(labels)) == len(labels)


def _check_classes(reader, train, train_source, dev_source, skip_bad_rows):
    """Raises for labels that all differ, unless other rows, those of dev, have the same ones.

    One row a class is little, but can be meant; names, numbers and texts of rows are no classes.
    """
    names = set(train.labels)
    if dev_source is not train_source:
        dev = reader.read(dev_source, skip_bad_rows=skip_bad_rows)
        if names.issuperset(dev.labels):
            return
    advice = f". {REGRESSION}" if are_numbers(names) else ""
    raise ValueError(
        f"{cell(str(train_source), reader.labels[0])} has another label in each of {len(train):,} rows. Expected "
        f"classes that rows share, such as those of another column{advice}"
    )


def _with_ids(examples, classes):
    """Returns examples with class ids instead of names, given the names by id; numbers, `None`, stay."""
    if classes is None:
        return examples
    numbers = {name: number for number, name in enumerate(classes)}
    ids = []
    for label in examples.labels:
        if isinstance(label, tuple):
            ids.append(tuple(sorted(map(numbers.get, label))))
        else:
            ids.append(numbers[label])
    return dataclasses.replace(examples, labels=ids)


def _discover_listed(column, labels):
    """Returns the sorted names in a column of lists of labels; `labels` are tuples of names."""
    names = discover_labels(itertools.chain.from_iterable(labels), fewest=1)
    are_single = all(len(row) == 1 for row in labels)
    if are_single and all(name.lower() in _BOOLEANS for name in names):
        raise ValueError(
            f"`label_column` must be several columns of 0 and 1, or one column of lists of labels. The column "
            f"`{column}` alone contains only {', '.join(names)}: use `task=classification` for a single label"
        )
    return names


def _check_label_columns(columns):
    """Raises an error if columns cannot be labels."""
    for column in columns:
        if not column or columns.count(column) > 1:
            raise ValueError(f"`label_column` must be different names. Received: {','.join(columns)}")
        if len(columns) > 1 and SEPARATOR in column:
            raise ValueError(f"`label_column`: `|` separates labels in predictions. Rename the column {column!r}")


def usual_columns(origin, wanted, pair=None):
    """Returns the columns of the text and of its pair, by their usual names; the source has the `wanted` columns."""
    default = TEXTS[0]
    needed = []
    if not origin.typed:  # They tell the delimiter of CSV.
        needed = [*wanted, default[0]]
    names = set(origin.names(needed))
    usual = next((columns for columns in TEXTS if names.issuperset(columns)), default)
    usual_pair = usual[1] if len(usual) > 1 else None
    return usual[0], pair or usual_pair


def columns_of_model(origin, labels, text, pair, known):
    """Returns the columns of the text and of its pair: the given ones, those that a model knows, or the usual ones.

    `known` are the columns that the model was trained on by input, "text" and "pair", or `None`.
    """
    if text:
        return text, pair
    if known and "text" in known:
        columns = dict(known)
        if pair:
            columns["pair"] = pair
        wanted = [] if origin.typed else [*columns.values(), *labels]
        if set(columns.values()) <= set(origin.names(wanted)):
            return columns["text"], columns.get("pair")
    return usual_columns(origin, labels, pair)


def read_table(
    path,
    text_column,
    pair_column=None,
    label_column=None,
    labels=None,
    regression=False,
    skip_bad_rows=None,
):
    """Reads the columns of the first sentence, the second one and the label of a `Source` or the file of a path.

    Without `labels`, the classes by id, the labels of the `TextExamples` are strings, for `own_data`; for `regression`,
    floats. Up to `skip_bad_rows` rows with missing text, label or columns are skipped with a warning, by default none.
    Unknown labels are always an error. The ids are row numbers from 0.
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    rows = _RowReader(text_column, pair_column)
    if label_column is None:
        return rows.read(path, labels, skip_bad_rows)
    if regression:
        read_number = functools.partial(_number, column=label_column)
        return rows.with_labels([label_column], read_number).read(path, labels, skip_bad_rows)
    read_class = _ClassReader(label_column)
    examples = rows.with_labels([label_column], read_class).read(path, labels, skip_bad_rows)
    read_class.check_one_type()
    return examples


def read_multi_label(
    path,
    text_column,
    pair_column=None,
    label_columns=(),
    labels=None,
    skip_bad_rows=None,
):
    """Reads the `TextExamples` of a source, see `read_table`. Ids are row numbers from 0.

    Each of several `label_columns` is a label, and contains 0 or 1, or true or false. One column contains the labels of
    a row: separated by `|` in CSV and TSV, where an empty field means no label; a list in JSONL. Without columns, the
    rows have no labels. `labels` are the classes by id; by default, the labels of the examples are tuples of names, for
    `own_data`.
    """
    origin = source(path)
    rows = _RowReader(text_column, pair_column)
    if len(label_columns) > 1:
        read_flags = functools.partial(_flagged_columns, columns=label_columns)
        rows = rows.with_labels(label_columns, read_flags)
    elif label_columns:
        read_list = _listed_names if origin.typed else _separated_names
        (column,) = label_columns
        rows = rows.with_labels(label_columns, functools.partial(read_list, column=column))
    return rows.read(origin, labels, skip_bad_rows)


@dataclasses.dataclass(frozen=True)
class _RowReader:
    """Reads texts and, by `read_label`, a function of the place of a row and the row, the labels in some columns."""

    text_column: str
    pair_column: str | None
    label_columns: tuple = ()
    read_label: Any = None

    def with_labels(self, columns, read_label):
        """Returns a reader of rows with labels in these columns."""
        return dataclasses.replace(self, label_columns=columns, read_label=read_label)

    def read(self, path, labels, skip_bad_rows):
        """Reads the `TextExamples` of a source or path, see `read_table`."""
        numbers = class_numbers(labels)
        origin = source(path)
        rows = origin.stream(self._parameters())
        results, skipped = convert_rows(origin, rows, self._read_row, skip_bad_rows)
        texts = []
        pairs = []
        found_labels = []
        ids = []
        for line, row_id, (text, pair, label) in results:
            # Unknown labels are an error, also if unreadable rows are skipped.
            if numbers is not None and self.read_label is not None:
                label = class_ids(Place(origin, line), label, numbers)
            texts.append(text)
            pairs.append(pair)
            found_labels.append(label)
            ids.append(row_id)
        return TextExamples(
            text=texts,
            pair=None if self.pair_column is None else pairs,
            labels=None if self.read_label is None else found_labels,
            ids=ids,
            skipped=skipped,
        )

    def _parameters(self):
        """Returns the names of the parameters that name the columns, by column, for messages."""
        parameters = {self.text_column: "text_column"}
        if self.pair_column is not None:
            parameters[self.pair_column] = "pair_column"
        for column in self.label_columns:
            parameters[column] = "label_column"
        return parameters

    def _read_row(self, place, row):
        """Returns the text, its pair and the label of a row, each `None` where there is no column of it."""
        pair = label = None
        try:
            text = text_cell(place, row, self.text_column)
            if self.pair_column is not None:
                pair = text_cell(place, row, self.pair_column)
            if self.read_label is not None:
                label = self.read_label(place, row)
        except ValueError:
            raise all_problems(place, row, self._readers()) from None
        return text, pair, label

    def _readers(self):
        """Returns the functions that read the parts of a row."""
        readers = [functools.partial(text_cell, column=self.text_column)]
        if self.pair_column is not None:
            readers.append(functools.partial(text_cell, column=self.pair_column))
        if self.read_label is not None:
            readers.append(self.read_label)
        return readers


def _number(place, row, column):
    """Returns the number in a column of a row."""
    value = row[column]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise _not_a_label(place, column, value)
    number = finite_number(place, column, value)
    if abs(number) > _LARGEST:
        raise ValueError(f"{cell(place, column)} must be between -{_LARGEST:g} and {_LARGEST:g}. Received: {number:g}")
    return number


def _not_a_label(place, column, value):
    return ValueError(f"{cell(place, column)} must be a string or a number. Received: {value!r}{missing(value)}")


class _ClassReader:
    """Reads the class in a column of a row, and remembers a string and a number, see `check_one_type`."""

    def __init__(self, column):
        self._column = column
        self._first_string = None  # Its place, and the label.
        self._first_number = None

    def __call__(self, place, row):
        """Returns the name of the class."""
        label = row[self._column]
        if not isinstance(label, str | int | float):
            raise _not_a_label(place, self._column, label)
        if isinstance(label, float):
            finite_number(place, self._column, label)  # Raises for others.
        name = class_name(label)
        if not name:
            raise ValueError(f"{cell(place, self._column)} is empty")
        if isinstance(label, str):
            self._first_string = self._first_string or (place, label)
        else:
            self._first_number = self._first_number or (place, label)
        return name

    def check_one_type(self):
        """Raises an error if labels of JSON are strings in some rows and numbers in others, as `fit` does."""
        if self._first_string is None or self._first_number is None:
            return
        place, text = self._first_string
        other_place, number = self._first_number
        raise ValueError(
            f"{cell(place, self._column)} is the string {text!r:.50}, and in {other_place} {number!r:.50}. Expected "
            "one type: strings or numbers"
        )


def _flagged_columns(place, row, columns):
    """Returns the names of the columns that contain 1 or true."""
    names = []
    for column in columns:
        value = row[column]
        flag = _BOOLEANS.get(class_name(value).lower())
        if flag is None:
            raise ValueError(f"{place}: column `{column}` must be 0 or 1, or true or false. Received: {value!r:.100}")
        if flag:
            names.append(column)
    return tuple(names)


def _separated_names(row_place, row, column):
    """Returns the names of the labels in a cell of CSV or TSV."""
    place = cell(row_place, column)
    text = row[column].strip()
    if text.startswith("[") and text.endswith("]"):
        raise ValueError(f"{place} must be labels separated by `|`, without brackets. Received: {text!r:.100}")
    names = [class_name(label) for label in text.split(SEPARATOR)] if text else []
    _check_names(place, names, row[column])
    return tuple(names)


def _listed_names(row_place, row, column):
    """Returns the names of the labels in a list of JSON."""
    place = cell(row_place, column)
    labels = row[column]
    is_list = isinstance(labels, list)
    if not is_list or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError(f"{place} must be a list of strings or numbers. Received: {labels!r:.100}")
    names = []
    for label in labels:
        if isinstance(label, float):
            finite_number(row_place, column, label)  # Raises for others.
        names.append(class_name(label))
    _check_names(place, names, labels)
    return tuple(names)


def _check_names(place, names, value):
    """Raises an error if the labels of a row, whose value is for the message, cannot be names, or occur twice."""
    for name in names:
        if not name or SEPARATOR in name:
            wrong = f"the label {name!r}: `|` separates labels" if name else "an empty label"
            raise ValueError(f"{place} contains {wrong}. Received: {value!r:.100}")
        if names.count(name) > 1:
            raise ValueError(f"{place} contains the label {name!r} twice. Received: {value!r:.100}")
