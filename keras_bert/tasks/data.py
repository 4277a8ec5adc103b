"""All that a model of one task learns from and is asked: GLUE's files, or a user's own."""

import dataclasses
import logging
import pathlib

from keras_bert.tasks import glue
from keras_bert.tasks.rows import column_names
from keras_bert.tasks.table import Examples, balance, discover_labels, read_table
from keras_bert.tasks.task import Task
from keras_bert.training.metrics import accuracy, macro_f1, matthews_correlation, pearson, spearman

_LOG = logging.getLogger("keras_bert")
OWN = ("classification", "regression")


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


def glue_data(task, data_dir=None, skip_bad_rows=0, diagnostics=None):
    """A task of GLUE with all that its model is asked: for MNLI also the mismatched genres and the diagnostics.

    Args:
        task: one of `glue.TASKS`.
        data_dir: the official files; `None` takes those of TensorFlow Datasets.
        skip_bad_rows: how many rows with a wrong number of columns a file may have.
        diagnostics: `diagnostic-full.tsv`, with which a model of MNLI is scored as on dev.

    Returns:
        `Data`. Test files that are not in `data_dir` are left out and logged.
    """
    tasks = [
        glue.TASKS[name] for name in ((task.name, "mnli_mismatched", "ax") if task.name == "mnli" else [task.name])
    ]

    def read(part, split):
        if data_dir is None:
            return glue.read_tfds(part, split)
        if (part.name != task.name and not glue.has(part, data_dir, split)) or split == "test":
            return _read_if_there(part, data_dir, split, skip_bad_rows)
        return glue.read(part, data_dir, split, skip_bad_rows)

    train = read(task, "train")
    dev = {part.name: read(part, "dev") for part in tasks if "dev" in part.files}
    test = {part.name: read(part, "test") for part in tasks}
    categories = None
    if diagnostics is not None and task.name == "mnli":
        dev["ax"], categories = glue.read_diagnostics(diagnostics)
    return Data(task, train, _there(dev), _there(test), categories)


def _read_if_there(task, data_dir, split, skip_bad_rows):
    if glue.has(task, data_dir, split):
        return glue.read(task, data_dir, split, skip_bad_rows)
    _LOG.warning("%s has no %s file of %s: nothing is predicted for it", data_dir, split, task.name)
    return None


def _there(examples):
    return {name: part for name, part in examples.items() if part is not None}


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
