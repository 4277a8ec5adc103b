"""What a row of data means to a task: how it is recognized and read, and where its target is."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_bert.data.sources import check_columns


@dataclasses.dataclass(frozen=True)
class Labeled:
    """Labeled data for a SavedModel.

    `inputs` are lists of strings by the names of the inputs of `serving_default`. `predictions` turns its outputs, a
    dict of arrays, into a list with a prediction for each row, and `score` these into scores in percent, the main one
    first. For a report of a user's own, there are the `examples` as they were read, and `spec`, which tells the classes
    and metrics.
    """

    inputs: dict
    predictions: Callable
    score: Callable
    examples: Any = None
    spec: Any = None


def first_known(targets):
    """Returns the first target that is neither missing nor an empty list or tuple, or `None`."""
    for target in targets or ():
        if target is not None and target not in ([], ()):
            return target
    return None


def not_registered(name, model, settings=()):
    """Returns an error for a model of a task that shapes its texts, by these stored settings, if any."""
    reason = "it makes the texts of the rows"
    if settings:
        reason = f"its settings shape the texts: {', '.join(settings)}"
    return ValueError(
        f"the task {name!r} of {model} is not registered, but {reason}. Import the module of its class, which calls "
        "`register_task`, or name it by `plugins`"
    )


class RowFormat:
    """What the rows of a task mean: the first of its three parts. A subclass states what differs.

    A row is a dict by column. Rows of files come from a `Source`; texts and targets of Python become rows by `row`.

    Attributes:
        expects: string, the texts and targets that a row has, for messages.
        columns: tuple of sets of names of columns; rows with all columns of a set are recognized as those of this task,
            if no other task has a larger set.
        target_columns: tuple of the names of columns in which `read` finds the targets of rows. Rows whose targets are
            elsewhere have them in the first one, see `with_target`.
        needs_targets: bool, whether rows without targets teach nothing. Defaults to `True`.
        needs_train: bool, whether the training data decide more than the classes, so that `evaluate` needs as many rows
            of them. Defaults to `True`.
        convert: method of the place of a row in messages, the row and the settings of the task that returns what the
            head reads of it, a dict with `text` and, for pairs, `pair`. The row has no targets, as in `predict`; they
            stay as they are. Defaults to `None`: the head reads rows as they are.
        inputs: tuple of the keys that the dicts of `convert` may have. Defaults to none, which allows all.

    Example:
        class ReplyRows(RowFormat):
            expects = "dicts with turns, the newest one first, and intents"
            columns = ({"turns"},)

            def convert(self, place, row, settings):
                return {"text": " ".join(row["turns"])}
    """

    expects: str = "texts with targets"
    columns: tuple = ()
    target_columns: tuple = ("label",)
    needs_targets: bool = True
    needs_train: bool = True
    convert: Any = None
    inputs: tuple = ()

    def recognizes(self, text, targets):
        """Whether a text, the first one, and the targets of all texts, a list or `None`, are those of this task."""
        return isinstance(text, dict) and any(names <= text.keys() for names in self.columns)

    def row(self, place, text, target):
        """Returns a text and its target of Python as a row; `place` is what messages call them."""
        if isinstance(text, dict):
            return self.with_target(text, target)
        raise ValueError(f"{place} must be a dict. Expected {self.expects}. Received: {text!r:.100}")

    def without_targets(self, row):
        """Returns a row without its targets."""
        return {name: value for name, value in row.items() if name not in self.target_columns}

    def with_target(self, row, target):
        """Returns a row of a data set with a target where `read` finds it, and no other target."""
        return self.without_targets(row) | {self.target_columns[0]: target}

    def with_named_target(self, row, column):
        """Returns a row of a data set whose target is in a column that the user named, and no other target."""
        target = row.get(column)
        others = {name: value for name, value in row.items() if name != column}
        if column not in self.target_columns:
            return self.with_target(others, target)
        return self.without_targets(others) | {column: target}

    def read(self, train, dev, settings, labels=None, name=None):
        """Returns the data of two sources, which may be the same one.

        `labels` are the classes of a model that is not trained; by default, those of the training data. `name` is that
        of the task. The settings of a task of the package read its data, before TensorFlow is loaded.
        """
        return settings.read(train, dev)

    def converted(self, source, settings):
        """Returns a source whose rows are those that the head reads, with their targets."""
        if self.convert is None:
            return source

        def convert(place, row):
            new_row = dict(self.as_read(place, self.without_targets(row), settings))
            for name, value in row.items():
                if name in self.target_columns:
                    new_row[name] = value
            if self.needs_targets and new_row.keys().isdisjoint(self.target_columns):
                check_columns(place, list(row), self.target_columns[:1])  # Raises with the columns of the user.
            return new_row

        return source.mapped(convert)

    def as_read(self, place, row, settings):
        """Returns what `convert` makes of a row; raises for what the head cannot read."""
        try:
            new_row = self.convert(place, row, settings)
        except Exception as error:
            if isinstance(error, ValueError) and str(error).startswith(str(place)):
                raise
            problem = f"{type(error).__name__}: {error}"
            raise ValueError(f"{place}: `convert` must take such a row. Received: {row!r:.100}, {problem}") from error
        self._check_inputs(place, new_row)
        return new_row

    def _check_inputs(self, place, new_row):
        """Raises an error unless what `convert` returns is a dict of inputs of the head, and of targets."""
        if isinstance(new_row, dict):
            unknown = new_row.keys() - {*self.inputs, *self.target_columns}
            if not self.inputs or not unknown:
                return
            received = ", ".join(map(str, unknown))
        else:
            received = f"{new_row!r:.100}"
        expected = " and ".join(self.inputs) or "the inputs of the head"
        raise ValueError(f"{place}: `convert` must return a dict of {expected} alone. Received: {received}")

    def asked(self, place, text, settings):
        """Returns a text of `predict` as the head takes it: a string, a tuple of two for a pair, or a dict."""
        row = text if isinstance(text, dict) else self.row(place, text, None)
        new_row = self.as_read(place, self.without_targets(row), settings)
        inputs = self.without_targets(new_row)
        if not inputs.keys() <= {"text", "pair"}:
            return inputs
        if inputs.get("pair") is None:
            return inputs["text"]
        return inputs["text"], inputs["pair"]

    def labeled(self, name, directory, facts, path, *, settings=None, **options):
        """Returns the `Labeled` data of a file for a SavedModel with these facts; `None` if it is of another task.

        `name` is that of the task, and `settings` the stored ones; `options` are those of `saved_model_scores.compare`.
        """
        return None
