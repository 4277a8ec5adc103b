"""Texts, or pairs of them, with labels: settings, data, and how rows of users' own tables become examples.

Class names are the stripped labels of the files: JSON's `true` is "true", its numbers 1 and 1.0 are "1". Several labels
of a row are a sorted tuple of class ids.
"""

import collections
import dataclasses
import functools
import itertools
import math
import pathlib

from keras_bert.checks import check_choice
from keras_bert.data.cells import all_problems, cell, finite_number, missing, text_cell
from keras_bert.data.conversion import convert_rows
from keras_bert.data.formats import source
from keras_bert.data.in_memory import CLASSIFIED_PAIRS
from keras_bert.data.sources import Place
from keras_bert.data.splits import split_numbers
from keras_bert.data.task_data import Rows
from keras_bert.settings import AnswerSettings, CalibrationSettings, WindowSettings, setting
from keras_bert.tasks.class_names import (
    MANY,
    REGRESSION,
    are_numbers,
    balance,
    class_ids,
    class_name,
    class_numbers,
    discover_labels,
)
from keras_bert.training.metrics import (
    accuracy,
    exact_match,
    macro_f1,
    matthews_correlation,
    micro_f1,
    pearson,
    spearman,
)

SEPARATOR = "|"  # Of several labels in a cell.
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
class Task:
    """A classification or regression task on sentences or sentence pairs, with its default training settings."""

    name: str  # In flags and file names.
    title: str  # In reports.
    text: str  # Columns of the first sentence, the second one (`None` for single sentences), the label.
    pair: str | None
    label: str
    labels: tuple  # Class names by id; empty for regression.
    metrics: tuple  # Functions of (labels, predictions). The first one selects the best run.
    multi_label: bool = dataclasses.field(default=False, kw_only=True)
    epochs: int = dataclasses.field(default=3, kw_only=True)  # As in the paper.
    batch_size: int = dataclasses.field(default=32, kw_only=True)
    learning_rates: tuple = dataclasses.field(default=(3e-5,), kw_only=True)

    official = False  # Whether it is one of GLUE.

    @property
    def num_classes(self):
        """The number of outputs of the head; 1 for regression."""
        return len(self.labels) or 1

    @property
    def main_metric(self):
        """The name of the metric that selects the best run."""
        return self.metrics[0].__name__


@dataclasses.dataclass(frozen=True)
class Examples(Rows):
    """The rows of a data set."""

    text: list  # Strings.
    pair: list | None  # The second sentences, or `None` for single sentences.
    # Class ids, tuples of them for several labels, floats for regression, or strings of unknown classes; or `None`.
    labels: list | None
    ids: list  # Row ids, ints.
    skipped: int = 0  # Number of unreadable rows that were skipped.

    content, places = ("text", "pair", "labels"), ("ids",)

    @property
    def file_rows(self):
        return self.ids

    @property
    def least_of_fold(self):
        """Rows that the scores of a fold need: a single number has no correlation."""
        return 2 if self.labels and isinstance(self.labels[0], float) else 1

    def groups(self):
        return whole_texts(self)

    def strata(self):
        """Returns the labels; sets of labels as ranks, the rarest label first."""
        if isinstance(self.labels[0], tuple):
            return _rarest_first(self.labels)
        return self.labels

    @property
    def texts(self):
        """The texts by name, for reports."""
        return dict(zip(("text", "pair"), self.columns, strict=False))

    @property
    def columns(self):
        """The texts, or the two columns of pairs."""
        return [self.text] if self.pair is None else [self.text, self.pair]


@dataclasses.dataclass(frozen=True)
class Data:
    """A task and its `Examples`: to train on, of labelled `dev` data by name, and to predict by name."""

    task: Task
    train: Examples
    dev: dict  # The first, named like the task, selects the best run.
    test: dict
    categories: list | None = None  # Of each row of the GLUE diagnostics.
    source: str | None = None  # Name of the file of the first dev set, if it is a user's.
    train_source: str | None = None
    typed: bool = False  # Whether that file has rows of JSON.
    columns: tuple = ()  # Of a task with rows of its own, for the model card.
    submissions: pathlib.Path | None = None  # The folder of the files for the server of GLUE.

    @property
    def held_out(self):
        """Whether dev has other rows than those to train on."""
        return self.dev[self.task.name] is not self.train

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        first = dataclasses.replace(self, train=self.train.first(count))
        return first if self.held_out else first.on_train()

    def split(self, share, seed):
        """Returns the same data with a share of the rows to train on, drawn at random, as dev."""
        data = self.parted(*split_numbers(len(self.train), share, seed))
        if self.task.labels:
            self._check_trained(data.train, data.dev[self.task.name])
        return data

    def parted(self, train, held_out):
        """Returns the same data with some of the rows to train on, by their numbers, as dev, and others to train on."""
        return dataclasses.replace(self, train=self.train.at(train), dev={self.task.name: self.train.at(held_out)})

    @property
    def divided(self):
        """The rows that folds divide."""
        return self.train

    def on_train(self):
        """Returns the same data whose dev is what is trained on."""
        return dataclasses.replace(self, dev={self.task.name: self.train})

    def _check_trained(self, train, dev):
        """Raises an error for a class that only has rows of dev."""
        several = self.task.multi_label
        known, met = (
            set(itertools.chain.from_iterable(part.labels)) if several else set(part.labels) for part in (train, dev)
        )
        if left := sorted(met - known):
            raise ValueError(
                f"{self.train_source}: all rows with the label {self.task.labels[left[0]]!r} are drawn by "
                "`validation_split`. Expected some of each label to train on: more rows of it, or another `seed`"
            )

    def per_part(self, function):
        """Returns the results of a function for train, dev and test; for users' files, named like the flags."""
        names = ("train", "dev", "test") if self.task.official else ("train_file", "dev_file", "predict_file")
        dev = {name: function(part) for name, part in self.dev.items()}
        test = {name: function(part) for name, part in self.test.items()}
        return dict(zip(names, (function(self.train), dev, test), strict=True))

    def fingerprints(self):
        """Returns hashes of the rows, which must be the same when runs resume."""
        return self.per_part(Examples.fingerprint)

    def balance(self):
        """Returns a summary of the training labels, see `class_names.balance`."""
        labels, names = self.train.labels, self.task.labels
        if not self.task.multi_label:
            return balance(labels, names)
        counts = balance(list(itertools.chain.from_iterable(labels)), names, total=len(labels))
        mean, empty = sum(map(len, labels)) / len(labels), labels.count(())
        return f"{counts}; {mean:.2f} labels per row; rows without a label: {empty:,} ({empty / len(labels):.1%})"


@dataclasses.dataclass(frozen=True)
class RegressionSettings(WindowSettings):
    """Settings of texts with numbers."""

    sequence_length: int = setting(128, "Maximum number of tokens of a sequence.", section="data", least=3)
    language_model_weight: float = setting(
        0.0,
        "Weight of a language model loss on the texts, for left-to-right models; GPT: 0.5.",
        section="training",
        least=0,
    )


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(AnswerSettings, RegressionSettings):
    """Settings of texts with classes. In Python, `class_weight` may be a dict of weights by class, 1 for others."""

    class_weight: str = setting(
        None, "Weights the loss so that all classes count equally.", values=["balanced"], section="training"
    )


@dataclasses.dataclass(frozen=True)
class MultiLabelSettings(CalibrationSettings, WindowSettings):
    """Settings of texts with several labels; `threshold` may be a number, see `choose_thresholds`."""

    sequence_length: int = setting(128, "Maximum number of tokens of a sequence.", section="data", least=3)
    class_weight: str = setting(
        None, "Weights the loss so that all classes count equally.", values=["balanced"], section="training"
    )
    threshold: str = setting(
        "0.5",
        "multi_label: probability from which labels are predicted; shared or per_label: chosen on dev.",
        section="training",
    )


def parse_threshold(value):
    """Reads the flag `--threshold`: "shared", "per_label", or a number between 0 and 1."""
    if value in ("shared", "per_label"):
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < 1:
        raise ValueError(
            f"`threshold` must be shared, per_label, or a number between 0 and 1. Received: threshold={value}"
        )
    return number


def own_data(
    kind,
    train_file,
    dev_file=None,
    test_file=None,
    text=None,
    pair=None,
    label="label",
    skip_bad_rows=0,
    labels=None,
    name=None,
):
    """Reads `Data` of a user's own texts from sources or paths, see `read_table` and `read_multi_label`.

    `kind` is "classification", "multi_label" or "regression". Labels of dev that are not in train are an error; test
    data, which must have no unreadable rows, is scored if it has labels. Without `text`, the columns are those of
    `TEXTS`; `label` may be a list of columns for "multi_label". Up to `skip_bad_rows` unreadable rows of train
    and of dev are skipped. Without `dev_file`, as in a cross-validation, dev is train. `labels` are the classes, by
    default the sorted ones of train, and `name` is that of the task, by default `kind`.
    """
    check_choice("kind", kind, OWN)
    columns = [label] if isinstance(label, str) else list(label)
    _check_labels(columns)
    train_file, dev_file, test_file = (
        path if path is None else source(path) for path in (train_file, dev_file, test_file)
    )
    if text is None:
        text, pair = usual_columns(train_file, [*columns, *([pair] if pair else [])], pair)
    read = functools.partial(read_kind, kind, text, pair)
    train = read(columns, train_file, skip_bad_rows, labels)
    same = dev_file is None or dev_file is train_file
    if labels is None:
        if kind == "classification" and _all_differ(train.labels):
            dev = train if same else read(columns, dev_file, skip_bad_rows)
            _check_classes(train_file, columns[0], train, dev)
        labels, train = _with_classes(kind, columns, train, train_file)
    several, name = kind == "multi_label", name or kind
    title = f"{'Multi-label classification' if name == 'multi_label' else name.capitalize()} of {train_file.name}"
    task = Task(
        name, title, text, pair, ",".join(columns), tuple(map(str, labels or ())), METRICS[kind], multi_label=several
    )
    dev = train if same else read(columns, dev_file, skip_bad_rows, labels)
    test = {}
    if test_file is not None:
        test = {name: read(_present(test_file, columns, text, pair), test_file, None, labels)}
    own, dev = dev_file or train_file, {name: dev}
    return Data(task, train, dev, test, None, own.name, train_file.name, own.typed)


def _all_differ(labels):
    """Whether every row has another label, and the rows are not few."""
    return len(labels) >= MANY and len(set(labels)) == len(labels)


def _check_classes(path, column, train, dev):
    """Raises for labels that all differ, unless other rows, those of dev, have the same ones.

    One row a class is little, but can be meant; names, numbers and texts of rows are no classes.
    """
    names = set(train.labels)
    if dev is train or not names.issuperset(dev.labels):
        advice = f". {REGRESSION}" if are_numbers(names) else ""
        raise ValueError(
            f"{cell(str(path), column)} has another label in each of {len(train):,} rows. Expected classes that rows "
            f"share, such as those of another column{advice}"
        )


def _present(origin, columns, text, pair):
    """Returns the columns of labels, if a source has any of them, and a label in a row."""
    wanted = [text, *([pair] if pair else [])]
    if not set(columns) & set(origin.names(wanted)):
        return []
    for _, row in origin.stream(wanted):
        if isinstance(row, dict) and any(row.get(name) not in (None, -1, "-1") for name in columns):
            return columns
    return []


def usual_columns(origin, wanted, pair=None):
    """Returns the columns of the text and of its pair, by their usual names; the source has the `wanted` columns."""
    names = origin.names(() if origin.typed else [*wanted, TEXTS[0][0]])  # These tell the delimiter of CSV.
    text, *usual = next((row for row in TEXTS if set(row) <= set(names)), TEXTS[0])
    return text, pair or next(iter(usual), None)


def columns_of_model(origin, labels, text, pair, known):
    """Returns the columns of the text and of its pair: the given ones, those that a model knows, or the usual ones.

    `known` are the columns that the model was trained on by input, "text" and "pair", or `None`.
    """
    if text:
        return text, pair
    if known and "text" in known:
        columns = {**known, "pair": pair} if pair else known
        names = origin.names(() if origin.typed else [*columns.values(), *labels])
        if set(columns.values()) <= set(names):
            return columns["text"], columns.get("pair")
    return usual_columns(origin, labels, pair)


def read_kind(kind, text, pair, columns, path, skip_bad_rows, labels=None):
    """Reads one file of a kind of labels, one of `OWN`; without `columns`, it has no labels."""
    if kind == "multi_label":
        return read_multi_label(path, text, pair, columns, labels, skip_bad_rows)
    column = columns[0] if columns else None
    return read_table(path, text, pair, column, labels, kind == "regression", skip_bad_rows)


def _with_classes(kind, columns, train, path):
    """Returns the names of the classes, `None` for regression, and the training data with class ids."""
    if kind == "regression":
        return None, train
    several, place = kind == "multi_label", cell(str(path), columns[0])
    labels = _discover_several(columns, train.labels) if several else discover_labels(set(train.labels), place=place)
    places = {label: number for number, label in enumerate(labels)}
    ids = [tuple(sorted(map(places.get, row))) if several else places[row] for row in train.labels]
    return labels, dataclasses.replace(train, labels=ids)


def _discover_several(label_columns, labels):
    """Returns the classes: the columns if there are several, or else the sorted names in `labels`, a list of tuples."""
    if len(label_columns) > 1:
        return [*label_columns]
    (column,) = label_columns
    found = discover_labels(itertools.chain.from_iterable(labels), fewest=1)
    if all(len(row) == 1 for row in labels) and all(name.lower() in _BOOLEANS for name in found):
        raise ValueError(
            f"`label_column` must be several columns of 0 and 1, or one column of lists of labels. The column "
            f"`{column}` alone contains only {', '.join(found)}: use `task=classification` for a single label"
        )
    return found


def _check_labels(label_columns):
    """Raises an error if columns cannot be labels."""
    for column in label_columns:
        if not column or label_columns.count(column) > 1:
            raise ValueError(f"`label_column` must be different names. Received: {','.join(label_columns)}")
        if len(label_columns) > 1 and SEPARATOR in column:
            raise ValueError(f"`label_column`: `|` separates labels in predictions. Rename the column {column!r}")


def read_table(
    path, text_column, pair_column=None, label_column=None, labels=None, regression=False, skip_bad_rows=None
):
    """Reads the columns of the first sentence, the second one and the label of a `Source` or the file of a path.

    Without `labels`, the classes by id, `Examples.labels` are strings, for `own_data`; for `regression`, floats.
    Up to `skip_bad_rows` rows with missing text, label or columns are skipped with a warning, by default none. Unknown
    labels are always an error. The ids are row numbers from 0.
    """
    if regression and labels is not None:
        raise ValueError(f"`labels` must be None for regression, which has no classes. Received: labels={labels}")
    types = {}
    read_label = functools.partial(_label, column=label_column, regression=regression, types=types)
    columns = [] if label_column is None else [label_column]
    examples = _read_examples(path, text_column, pair_column, columns, read_label, labels, skip_bad_rows)
    _check_one_type(label_column, types)
    return examples


def _check_one_type(column, types):
    """Raises an error if labels of JSON are strings in some rows and numbers in others, as `fit` does.

    `types` has the place and the first label that is a string, under `True`, and the first one that is none.
    """
    if len(types) > 1:
        place, text = types[True]
        other_place, number = types[False]
        raise ValueError(
            f"{cell(place, column)} is the string {text!r:.50}, and in {other_place} {number!r:.50}. Expected one "
            "type: strings or numbers"
        )


def _read_examples(path, text_column, pair_column, label_columns, read_label, labels=None, skip_bad_rows=None):
    """Reads `Examples` as `read_table` does, with labels by a function.

    `read_label` returns the label of a row, or a tuple of labels, given its place and the row. It reads the
    `label_columns`; without any, the rows have no labels.
    """
    numbers = class_numbers(labels)
    flags = {text_column: "text_column"}
    if pair_column is not None:
        flags[pair_column] = "pair_column"
    flags |= dict.fromkeys(label_columns, "label_column")
    origin = source(path)

    columns = [column for column in (text_column, pair_column) if column is not None]
    readers = [functools.partial(text_cell, column=column) for column in columns]
    if label_columns:
        readers.append(read_label)

    def row(place, record):
        try:
            text = text_cell(place, record, text_column)
            pair = text_cell(place, record, pair_column) if pair_column else None
            label = read_label(place, record) if label_columns else None
        except ValueError:
            raise all_problems(place, record, readers) from None
        return text, pair, label

    results, skipped = convert_rows(origin, origin.stream(flags), row, skip_bad_rows)
    lines, ids, rows = zip(*results, strict=True)
    text, pair, found = map(list, zip(*rows, strict=True))
    if numbers is not None and label_columns:  # Unknown labels are an error, also if unreadable rows are skipped.
        places = (Place(origin, line) for line in lines)
        found = [class_ids(place, label, numbers) for place, label in zip(places, found, strict=True)]
    pair = pair if pair_column else None
    found = found if label_columns else None
    return Examples(text, pair, found, list(ids), skipped=skipped)


def _label(place, record, column, regression, types):
    label = record[column]
    if not isinstance(label, str | int | float) or (regression and isinstance(label, bool)):
        raise ValueError(f"{cell(place, column)} must be a string or a number. Received: {label!r}{missing(label)}")
    if regression or isinstance(label, float):
        label = finite_number(place, column, label)
    if regression:
        if abs(label) > _LARGEST:
            raise ValueError(
                f"{cell(place, column)} must be between -{_LARGEST:g} and {_LARGEST:g}. Received: {label:g}"
            )
        return label
    name = class_name(label)
    if not name:
        raise ValueError(f"{cell(place, column)} is empty")
    types.setdefault(isinstance(label, str), (place, label))
    return name


def read_multi_label(path, text_column, pair_column=None, label_columns=(), labels=None, skip_bad_rows=None):
    """Reads `Examples` of a source, see `read_table`. Ids are row numbers from 0.

    Each of several `label_columns` is a label, and contains 0 or 1, or true or false. One column contains the labels of
    a row: separated by `|` in CSV and TSV, where an empty field means no label; a list in JSONL. Without columns, the
    rows have no labels. `labels` are the classes by id; by default, `Examples.labels` contains tuples of names, for
    `own_data`.
    """
    path = source(path)
    if len(label_columns) > 1:
        read = functools.partial(_flags, columns=label_columns)
    else:
        read = functools.partial(_listed_labels, columns=label_columns, is_json=path.typed)
    return _read_examples(path, text_column, pair_column, label_columns, read, labels, skip_bad_rows)


def _flags(place, record, columns):
    """Returns the names of the columns that contain 1 or true."""
    found = []
    for column in columns:
        value = record[column]
        if class_name(value).lower() not in _BOOLEANS:
            raise ValueError(f"{place}: column `{column}` must be 0 or 1, or true or false. Received: {value!r:.100}")
        if _BOOLEANS[class_name(value).lower()]:
            found.append(column)
    return tuple(found)


def _listed_labels(row_place, record, columns, is_json):
    """Returns the labels in the column."""
    (column,) = columns
    place, value = cell(row_place, column), record[column]
    if is_json and (not isinstance(value, list) or not all(isinstance(name, str | int | float) for name in value)):
        raise ValueError(f"{place} must be a list of strings or numbers. Received: {value!r:.100}")
    if not is_json:
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            raise ValueError(f"{place} must be labels separated by `|`, without brackets. Received: {value!r:.100}")
        value = value.split(SEPARATOR) if value else []
    names = [class_name(finite_number(row_place, column, name) if isinstance(name, float) else name) for name in value]
    for name in names:
        if not name or SEPARATOR in name:
            wrong = f"the label {name!r}: `|` separates labels" if name else "an empty label"
            raise ValueError(f"{place} contains {wrong}. Received: {record[column]!r:.100}")
        if names.count(name) > 1:
            raise ValueError(f"{place} contains the label {name!r} twice. Received: {record[column]!r:.100}")
    return tuple(names)


def whole_texts(examples):
    """Returns the texts of the rows, tuples for pairs."""
    return examples.text if examples.pair is None else list(zip(examples.text, examples.pair, strict=True))


def _rarest_first(labels):
    """Returns the labels of each row as ranks, from the rarest to the most frequent label."""
    counts = collections.Counter(itertools.chain.from_iterable(labels))
    ranks = {label: rank for rank, (label, _) in enumerate(reversed(counts.most_common()))}
    return [tuple(sorted(ranks[label] for label in row)) for row in labels]
