"""What is learned from texts, or pairs of them, with labels: the classes and metrics, and the rows of all data sets.

Class names are the stripped labels of the files: JSON's `true` is "true", its numbers 1 and 1.0 are "1". Several labels
of a row are a sorted tuple of class ids.
"""

import collections
import dataclasses
import itertools
import pathlib

from keras_bert.data.splits import split_numbers
from keras_bert.data.task_data import Rows
from keras_bert.tasks.class_names import balance

SEPARATOR = "|"  # Of several labels in a cell.


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Classification or regression of sentences or sentence pairs: names, classes, metrics and default settings."""

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
class TextExamples(Rows):
    """The rows of a data set."""

    text: list  # Strings.
    pair: list | None  # The second sentences, or `None` for single sentences.
    # Class ids, tuples of them for several labels, floats for regression, or strings of unknown classes; or `None`.
    labels: list | None
    ids: list  # Row ids, ints.
    skipped: int = 0  # Number of unreadable rows that were skipped.

    content = ("text", "pair", "labels")
    places = ("ids",)

    @property
    def file_rows(self):
        return self.ids

    @property
    def least_of_fold(self):
        """Rows that the scores of a fold need: a single number has no correlation."""
        are_numbers = bool(self.labels) and isinstance(self.labels[0], float)
        return 2 if are_numbers else 1

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
        if self.pair is None:
            return [self.text]
        return [self.text, self.pair]


def whole_texts(examples):
    """Returns the texts of the rows, tuples for pairs."""
    if examples.pair is None:
        return examples.text
    return list(zip(examples.text, examples.pair, strict=True))


def _rarest_first(labels):
    """Returns the labels of each row as ranks, from the rarest to the most frequent label."""
    counts = collections.Counter(itertools.chain.from_iterable(labels))
    ranks = {}
    for label, _ in reversed(counts.most_common()):
        ranks[label] = len(ranks)
    return [tuple(sorted(map(ranks.get, row))) for row in labels]


@dataclasses.dataclass(frozen=True)
class TextData:
    """A task and its `TextExamples`: to train on, of labeled `dev` data by name, and to predict by name."""

    task: TaskSpec
    train: TextExamples
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
        dev = {self.task.name: self.train.at(held_out)}
        return dataclasses.replace(self, train=self.train.at(train), dev=dev)

    @property
    def divided(self):
        """The rows that folds divide."""
        return self.train

    def on_train(self):
        """Returns the same data whose dev is what is trained on."""
        return dataclasses.replace(self, dev={self.task.name: self.train})

    def _check_trained(self, train, dev):
        """Raises an error for a class that only has rows of dev."""
        only_dev = self._classes_of(dev) - self._classes_of(train)
        if only_dev:
            label = self.task.labels[min(only_dev)]
            raise ValueError(
                f"{self.train_source}: all rows with the label {label!r} are drawn by "
                "`validation_split`. Expected some of each label to train on: more rows of it, or another `seed`"
            )

    def _classes_of(self, examples):
        """Returns the set of the class ids of labeled rows."""
        if self.task.multi_label:
            return set(itertools.chain.from_iterable(examples.labels))
        return set(examples.labels)

    def per_part(self, function):
        """Returns the results of a function for train, dev and test; for users' files, named like the flags."""
        names = ("train_file", "dev_file", "predict_file")
        if self.task.official:
            names = ("train", "dev", "test")
        train = function(self.train)
        dev = {name: function(examples) for name, examples in self.dev.items()}
        test = {name: function(examples) for name, examples in self.test.items()}
        return dict(zip(names, (train, dev, test), strict=True))

    def fingerprints(self):
        """Returns hashes of the rows, which must be the same when runs resume."""
        return self.per_part(TextExamples.fingerprint)

    def balance(self):
        """Returns a summary of the training labels, see `class_names.balance`."""
        labels = self.train.labels
        names = self.task.labels
        if not self.task.multi_label:
            return balance(labels, names)
        count = len(labels)
        counts = balance(list(itertools.chain.from_iterable(labels)), names, total=count)
        mean = sum(map(len, labels)) / count
        empty = labels.count(())
        without = f"rows without a label: {empty:,} ({empty / count:.1%})"
        return f"{counts}; {mean:.2f} labels per row; {without}"
