"""Classification and regression of sentences and pairs: a task, its examples, its scores and predictions."""

import dataclasses
import pathlib

import numpy as np

from keras_bert.tasks.rows import column_names
from keras_bert.tasks.table import Examples, balance, discover_labels, read_table
from keras_bert.training.metrics import accuracy, macro_f1, matthews_correlation, pearson, spearman

OWN = ("classification", "regression")


@dataclasses.dataclass(frozen=True)
class Task:
    """A classification or regression task of sentences or pairs of them.

    Args:
        name: our name.
        title: what people call it.
        text: the column of the first sentence.
        pair: the column of the second, `None` for single sentences.
        label: the column of the label.
        labels: names of the classes in the order of their numbers; empty for regression.
        metrics: functions of (labels, predictions), the first chooses the best run.
        epochs: how often the data is seen, if the user does not say; the paper's.
        batch_size: examples of a step, likewise.
    """

    name: str
    title: str
    text: str
    pair: str | None
    label: str
    labels: tuple
    metrics: tuple
    epochs: int = dataclasses.field(default=3, kw_only=True)
    batch_size: int = dataclasses.field(default=32, kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))

    @property
    def num_classes(self):
        """The width of the head; 1 is regression."""
        return len(self.labels) or 1

    @property
    def main_metric(self):
        """The name of the metric that chooses the best run."""
        return self.metrics[0].__name__


@dataclasses.dataclass(frozen=True)
class Data:
    """A task and its examples.

    Args:
        task: the `Task`.
        train: the training `Examples`.
        dev: `Examples` with labels by name; the first, of the task's own name, chooses the best run.
        test: `Examples` to predict, by name.
        categories: of each row of the diagnostics, `None` without them.
    """

    task: Task
    train: Examples
    dev: dict
    test: dict
    categories: list | None = None

    def balance(self):
        """One line about the training labels: the share of each class, or the range of the scores."""
        return balance(self.train.labels, self.task.labels)


def own_data(kind, train_file, dev_file, test_file=None, text="text", pair=None, label="label", skip_bad_rows=0):
    """A user's own tables, see `tasks.table`.

    Args:
        kind: "classification", whose classes are the labels of the training data, sorted, or "regression".
        train_file: CSV, TSV or JSONL to train on.
        dev_file: one to choose the best run by; a label that the training data lacks is an error.
        test_file: one to predict; if it has labels, it is scored.
        text: the column of the text.
        pair: the column of the second text, for pairs.
        label: the column of the label.
        skip_bad_rows: how many rows that cannot be read are left out of the training and the dev data each, see
            `read_table`. Of the test data none is: a prediction belongs to each row.
    """
    if kind not in OWN:
        raise ValueError(f"`kind` must be one of {', '.join(OWN)}. Received: kind={kind!r}")
    numbers = {"regression": True} if kind == "regression" else {}
    train = read_table(train_file, text, pair, label, **numbers, skip_bad_rows=skip_bad_rows)
    labels = None
    if kind == "classification":
        labels = discover_labels(train.labels)
        places = {label: number for number, label in enumerate(labels)}
        train = dataclasses.replace(train, labels=[places[label] for label in train.labels])
        numbers = {"labels": labels}
    metrics = (spearman, pearson) if labels is None else (accuracy, macro_f1, matthews_correlation)
    task = Task(kind, kind.capitalize(), text, pair, label, tuple(labels or ()), metrics)
    dev = {kind: read_table(dev_file, text, pair, label, **numbers, skip_bad_rows=skip_bad_rows)}
    test = {}
    if test_file is not None:
        with_labels = label in column_names(pathlib.Path(test_file), [text, *([pair] if pair else [])])
        test = {kind: read_table(test_file, text, pair, label if with_labels else None, **numbers)}
    return Data(task, train, dev, test)


def predict(task, logits):
    """Class numbers, or the numbers of a regression, of `logits` `(rows, num_classes)`."""
    logits = np.asarray(logits)
    if logits.ndim != 2 or logits.shape[1] != task.num_classes:
        raise ValueError(f"`logits` must have shape (rows, {task.num_classes}). Received: shape {logits.shape}")
    if not np.isfinite(logits).all():
        raise ValueError("`logits` must be finite. Received: NaN or infinity: the training has diverged")
    return logits.argmax(-1).tolist() if task.labels else logits[:, 0].tolist()


def predictions_table(logits, labels):
    """Lines of tab-separated predictions, a header first: the class and the probability of each, or the score.

    Labels with tabs or line breaks stand in quotes, see `quoted`.

    Args:
        logits: `(rows, num_classes)`.
        labels: names of the classes, empty for regression.
    """
    if not len(labels):
        return ["score", *(f"{score:.4f}" for score in logits[:, 0])]
    return probabilities_table(np.exp(logits - np.logaddexp.reduce(logits, -1, keepdims=True)), labels)


def probabilities_table(probabilities, labels):
    """The lines of `predictions_table` where the probabilities `(rows, classes)` are known."""
    names = [quoted(str(label)) for label in labels]
    return ["\t".join(["label", *names])] + [
        "\t".join([names[row.argmax()], *(f"{value:.4f}" for value in row)]) for row in probabilities
    ]


def multi_label_table(logits, labels, probabilities=None):
    """The lines of a table of predictions where several labels may be right: those, joined by `|`, come first.

    Args:
        logits: `(rows, labels)`; a label with a logit of at least 0 is predicted.
        labels: names of the labels.
        probabilities: those of the sigmoids; `None` computes them.
    """
    if probabilities is None:
        probabilities = 1 / (1 + np.exp(-np.asarray(logits, "float64")))
    chosen = [
        quoted("|".join(str(label) for label, logit in zip(labels, row, strict=True) if logit >= 0)) for row in logits
    ]
    rows = [[name, *(f"{value:.4f}" for value in row)] for name, row in zip(chosen, probabilities, strict=True)]
    return ["\t".join(["labels", *(quoted(str(label)) for label in labels)]), *map("\t".join, rows)]


def quoted(field):
    """A field of a table with tabs between, as `csv` (`excel-tab`), pandas and spreadsheets read it.

    What has a tab or a line break, or begins with a quote, is put in quotes and its own quotes are doubled; all else
    stands as it is.
    """
    if field and field[0] != '"' and not any(char in field for char in "\t\n\r"):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def score(task, labels, logits):
    """The task's metrics by name, 0 to 1 (correlations from -1), the main one first."""
    predictions = predict(task, logits)
    return {metric.__name__: metric(labels, predictions) for metric in task.metrics}
