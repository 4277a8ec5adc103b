"""Classification and regression of sentences and pairs: tasks, examples, scores and predictions."""

import collections
import dataclasses
import functools
import itertools
import pathlib

import numpy as np

from keras_bert.checks import check_choice
from keras_bert.data import layouts
from keras_bert.data.sources import source
from keras_bert.tasks.class_names import balance, discover_labels
from keras_bert.tasks.classification import multi_label
from keras_bert.tasks.classification.multi_label import predicted
from keras_bert.tasks.examples import Examples, read_table
from keras_bert.tasks.logits import finite, softmax
from keras_bert.tasks.settings import setting
from keras_bert.text.answer_settings import THRESHOLD
from keras_bert.training.metrics import (
    accuracy,
    exact_match,
    macro_f1,
    matthews_correlation,
    micro_f1,
    pearson,
    spearman,
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

    def __post_init__(self):
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))

    @property
    def num_classes(self):
        """The number of outputs of the head; 1 for regression."""
        return len(self.labels) or 1

    @property
    def main_metric(self):
        """The name of the metric that selects the best run."""
        return self.metrics[0].__name__


@dataclasses.dataclass(frozen=True)
class Data:
    """A task and its `Examples`: to train on, of labelled `dev` data by name, and to predict by name."""

    task: Task
    train: Examples
    dev: dict  # The first, named like the task, selects the best run.
    test: dict
    categories: list | None = None  # Of each row of the GLUE diagnostics.
    folds: int | None = None  # Of a cross-validation, for which dev is the training data.
    source: str | None = None  # Name of the file of the first dev set, if it is a user's.
    train_source: str | None = None
    typed: bool = False  # Whether that file has rows of JSON.
    submissions: pathlib.Path | None = None  # The folder of the files for the server of GLUE.

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        train = self.train.first(count)
        return dataclasses.replace(self, train=train, dev={self.task.name: train} if self.folds else self.dev)

    def balance(self):
        """Returns a summary of the training labels, see `class_names.balance`."""
        if self.task.multi_label:
            return multi_label.summary(self.train.labels, self.task.labels)
        return balance(self.train.labels, self.task.labels)


@dataclasses.dataclass(frozen=True)
class RegressionSettings:
    """Settings of texts with numbers."""

    sequence_length: int = setting(128, "Maximum number of tokens of a sequence.", section="data", least=3)
    language_model_weight: float = setting(
        0.0,
        "Weight of a language model loss on the texts, for left-to-right models; GPT: 0.5.",
        section="training",
        least=0,
    )


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(RegressionSettings):
    """Settings of texts with classes. In Python, `class_weight` may be a dict of weights by class, 1 for others."""

    class_weight: str = setting(
        None, "Weights the loss so that all classes count equally.", values=["balanced"], section="training"
    )


@dataclasses.dataclass(frozen=True)
class MultiLabelSettings:
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


def own_data(
    kind,
    train_file,
    dev_file=None,
    test_file=None,
    text=None,
    pair=None,
    label="label",
    skip_bad_rows=0,
    folds=None,
    labels=None,
    name=None,
):
    """Reads `Data` of a user's own texts from sources or paths, see `tasks.examples` and `classification.multi_label`.

    `kind` is "classification", "multi_label" or "regression". Labels of dev that are not in train are an error; test
    data, which must have no unreadable rows, is scored if it has labels. Without `text`, the columns are those of
    `layouts.TEXTS`; `label` may be a list of columns for "multi_label". Up to `skip_bad_rows` unreadable rows of train
    and of dev are skipped. `folds` of a cross-validation of train stand for `dev_file`. `labels` are the classes, by
    default the sorted ones of train, and `name` is that of the task, by default `kind`.
    """
    check_choice("kind", kind, OWN)
    if (dev_file is None) == (folds is None):
        raise ValueError(f"expected either `dev_file` or `folds`. Received: dev_file={dev_file!r}, folds={folds}")
    columns = [label] if isinstance(label, str) else list(label)
    multi_label.check_columns(columns)
    train_file, dev_file, test_file = (
        path if path is None else source(path) for path in (train_file, dev_file, test_file)
    )
    if text is None:
        text, pair = usual_columns(train_file, [*columns, *([pair] if pair else [])], pair)
    read = functools.partial(read_kind, kind, text, pair)
    train = read(columns, train_file, skip_bad_rows, labels)
    if labels is None:
        labels, train = _with_classes(kind, columns, train, train_file)
    several, name = kind == "multi_label", name or kind
    title = f"{'Multi-label classification' if name == 'multi_label' else name.capitalize()} of {train_file.name}"
    task = Task(name, title, text, pair, ",".join(columns), tuple(labels or ()), METRICS[kind], multi_label=several)
    same = folds or dev_file is train_file
    dev = train if same else read(columns, dev_file, skip_bad_rows, labels)
    test = {}
    if test_file is not None:
        test = {name: read(_present(test_file, columns, text, pair), test_file, None, labels)}
    own, dev = dev_file or train_file, {name: dev}
    return Data(task, train, dev, test, None, folds, own.name, train_file.name, own.typed)


def _present(origin, columns, text, pair):
    """Returns the columns of labels, if a source has any of them, and a label in a row."""
    wanted = [text, *([pair] if pair else [])]
    if not set(columns) & set(origin.names(wanted)):
        return []
    rows = [row for _, row in origin.rows(wanted) if isinstance(row, dict)]
    return columns if any(row.get(name) not in (None, -1, "-1") for row in rows for name in columns) else []


def usual_columns(origin, wanted, pair=None):
    """Returns the columns of the text and of its pair, by their usual names; the source has the `wanted` columns."""
    text, usual = layouts.texts(origin, wanted)
    return text, pair or usual


def read_kind(kind, text, pair, columns, path, skip_bad_rows, labels=None):
    """Reads one file of a kind of labels, one of `OWN`; without `columns`, it has no labels."""
    if kind == "multi_label":
        return multi_label.read_multi_label(path, text, pair, columns, labels, skip_bad_rows)
    column = columns[0] if columns else None
    return read_table(path, text, pair, column, labels, kind == "regression", skip_bad_rows)


def _with_classes(kind, columns, train, path):
    """Returns the names of the classes, `None` for regression, and the training data with class ids."""
    if kind == "regression":
        return None, train
    several, place = kind == "multi_label", f"{path}: column `{columns[0]}`"
    labels = multi_label.discover(columns, train.labels) if several else discover_labels(train.labels, place=place)
    places = {label: number for number, label in enumerate(labels)}
    ids = [tuple(sorted(map(places.get, row))) if several else places[row] for row in train.labels]
    return labels, dataclasses.replace(train, labels=ids)


def assign_folds(examples, folds, seed):
    """Returns the fold of each row, 1 to `folds`: an integer array.

    Each fold has the same share of each class, of each set of labels, or of low and high values for regression. Rows
    with the same text are in the same fold.
    """
    texts = examples.text if examples.pair is None else list(zip(examples.text, examples.pair, strict=True))
    first = {text: row for row, text in reversed(list(enumerate(texts)))}
    if len(first) < folds or folds < 2:
        raise ValueError(
            f"`folds` must be from 2 to the number of different texts, {len(first)}. Received: folds={folds}"
        )
    rows, labels = np.random.default_rng(seed).permutation(sorted(first.values())).tolist(), examples.labels
    if isinstance(labels[0], tuple):
        labels = _rarest_first(labels)
    rows.sort(key=labels.__getitem__)
    fold = dict(zip(rows, itertools.cycle(range(1, folds + 1)), strict=False))
    return np.array([fold[first[text]] for text in texts])


def _rarest_first(labels):
    """Returns the labels of each row as ranks, from the rarest to the most frequent label."""
    counts = collections.Counter(itertools.chain.from_iterable(labels))
    ranks = {label: rank for rank, (label, _) in enumerate(reversed(counts.most_common()))}
    return [tuple(sorted(ranks[label] for label in row)) for row in labels]


def balanced_weights(labels, classes):
    """Returns a weight for each class, `rows / (classes that occur * rows of the class)`, so that all count equally."""
    counts = np.bincount(labels, minlength=classes)
    return [float(len(labels) / (np.count_nonzero(counts) * count)) if count else 1.0 for count in counts]


def predict(task, logits, thresholds=THRESHOLD):
    """Converts `logits` `(rows, num_classes)` to class ids, or to scores for regression.

    For multi-label classification, returns a bool array `(rows, num_classes)`; `thresholds` are those of the
    probabilities, one for all labels or one for each.
    """
    logits = finite(logits)
    if logits.ndim != 2 or logits.shape[1] != task.num_classes:
        raise ValueError(f"`logits` must have shape (rows, {task.num_classes}). Received: shape {logits.shape}")
    if task.multi_label:
        return predicted(logits, thresholds)
    return logits.argmax(-1).tolist() if task.labels else logits[:, 0].tolist()


def same_prediction(task, logits, thresholds=THRESHOLD):
    """Returns the labels or the score that are predicted for every row; `None` if the predictions differ."""
    predictions = predict(task, logits, thresholds)
    if task.multi_label:
        names = [label for label, predicted in zip(task.labels, predictions[0], strict=True) if predicted]
        return None if (predictions != predictions[0]).any() else ", ".join(names) or "no label"
    first, *others = set(predictions)
    return None if others else str(task.labels[first] if task.labels else first)


def predictions_table(logits, labels):
    """Returns tab-separated lines with a header: predicted class and all probabilities, or the regression value."""
    if not len(labels):
        return ["value", *(f"{score:.6g}" for score in logits[:, 0])]
    return probabilities_table(softmax(logits), labels)


def probabilities_table(probabilities, labels):
    """Returns the lines of `predictions_table` for probabilities `(rows, classes)`."""
    return _table("label", labels, [str(labels[row.argmax()]) for row in probabilities], probabilities)


def multi_label_table(predicted, labels, probabilities):
    """Returns lines of multi-label predictions: the predicted labels, joined by `|`, and the probabilities of all.

    `predicted`, bool, and `probabilities` are arrays `(rows, labels)`.
    """
    chosen = [
        multi_label.SEPARATOR.join(str(label) for label, is_in in zip(labels, row, strict=True) if is_in)
        for row in predicted
    ]
    return _table("labels", labels, chosen, probabilities)


def _table(title, labels, chosen, probabilities):
    header = [title, *(quoted(str(label)) for label in labels)]
    rows = [[quoted(name), *(f"{value:.4f}" for value in row)] for name, row in zip(chosen, probabilities, strict=True)]
    return ["\t".join(row) for row in [header, *rows]]


def with_columns(lines, columns):
    """Appends columns of texts, by name, to the lines of a table with a header; `None` is no column."""
    columns = [[name, *texts] for name, texts in columns.items() if texts is not None]
    return ["\t".join([line, *map(quoted, row)]) for line, *row in zip(lines, *columns, strict=True)]


def quoted(field):
    """Quotes a field of a tab-separated table if necessary, readable by `csv` (`excel-tab`) and spreadsheets."""
    if field and field[0] != '"' and not any(char in field for char in "\t\n\r"):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def score(task, labels, logits, thresholds=THRESHOLD):
    """Computes the task's metrics by name, 0 to 1 (correlations from -1), main metric first.

    For multi-label classification, `labels` are tuples of class ids or an array of 0 and 1, `(rows, num_classes)`.
    """
    predictions = predict(task, logits, thresholds)
    if task.multi_label and not isinstance(labels, np.ndarray):
        labels = multi_label.dense(labels, task.num_classes)
    return {metric.__name__: metric(labels, predictions) for metric in task.metrics}
