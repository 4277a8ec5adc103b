"""Texts or pairs, with classes, sets of labels or numbers, as rows."""

import dataclasses
import functools
import itertools

import numpy as np

from keras_bert.checks import check_choice
from keras_bert.data.formats import source
from keras_bert.data.sources import check_columns
from keras_bert.heads.registry import head_named
from keras_bert.tasks.classification import glue
from keras_bert.tasks.classification.data import METRICS, Columns, TableReader, columns_of_model, own_data
from keras_bert.tasks.classification.examples import TaskSpec
from keras_bert.tasks.classification.predictions import dense
from keras_bert.tasks.rows import Labeled, RowFormat, first_known

_LABEL = "label"  # The default column of `labeled`.


class TextRows(RowFormat):
    """Rows with `text`, `pair` for a second text, and a class as `label`. `kind` is one of `data.OWN`.

    The classes are sorted, unless the task has a setting `labels`, a list of them in their order.
    """

    expects = "texts or pairs with classes"
    kind = "classification"
    inputs = ("text", "pair")
    needs_train = False

    def recognizes(self, text, targets):
        if isinstance(text, dict):
            return super().recognizes(text, targets)
        return is_text_or_pair(text) and isinstance(first_known(targets), str | int)

    def row(self, place, text, target):
        if isinstance(text, tuple) and len(text) == 2:
            return {"text": text[0], "pair": text[1], self.target_columns[0]: target}
        if isinstance(text, str):
            return {"text": text, self.target_columns[0]: target}
        if isinstance(text, dict):
            return self.with_target(text, target)
        raise ValueError(f"{place} must be a string, or a tuple of two. Received: {text!r:.100}")

    def read(self, train, dev, settings, labels=None, name=None):
        written = dev.written_names() if self.convert else ()
        train_source = self.converted(train, settings)
        dev_source = train_source if dev is train else self.converted(dev, settings)
        columns = Columns(label=self.target_columns[0])
        if "pair" in train_source.names():
            columns = dataclasses.replace(columns, text="text", pair="pair")
        data = own_data(
            self.kind,
            train_source,
            dev_source,
            columns=columns,
            skip_bad_rows=None,
            labels=labels or getattr(settings, "labels", None),
            name=name,
        )
        return dataclasses.replace(data, columns=written)

    def labeled(self, name, directory, facts, path, *, settings=None, task=None, text=None, pair=None, label=_LABEL):
        if _kind_of_labels(facts) != self.kind:
            return None
        labels = facts["labels"]
        if task is None:
            examples = self._own_examples(facts, path, settings, text, pair, label)
            metrics = METRICS[self.kind]
        else:
            examples = _official_examples(task, directory, labels, path)
            metrics = glue.TASKS[task].metrics
        if (examples.pair is not None) != facts["pair"]:
            expected = "pairs" if facts["pair"] else "single texts"
            raise ValueError(f"{directory} takes {expected}. Received: the others")
        spec = TaskSpec(
            name=name,
            title=name,
            text="text",
            pair="pair" if facts["pair"] else None,
            label=label,
            labels=tuple(labels or ()),
            metrics=metrics,
        )
        return Labeled(
            inputs=examples.texts,
            predictions=functools.partial(_predictions_of, head_named(facts["head"])),
            score=self._score_function(examples, spec),
            examples=examples,
            spec=spec,
        )

    def _own_examples(self, facts, path, settings, text, pair, label):
        """Reads the `TextExamples` of a user's file as the model with these facts takes them."""
        label_columns = label.split(",") if self.kind == "multi_label" else [label]
        origin = source(path)
        if self.convert is not None:
            origin = self.converted(self._with_target_column(origin, label), settings)
            label_columns = [self.target_columns[0]]
        text, pair = columns_of_model(origin, label_columns, text, pair, facts.get("columns"))
        if facts["pair"] and pair is None and text == "text" and "pair" in origin.names():
            pair = "pair"  # As in rows of Python.
        return TableReader(self.kind, text, pair, label_columns).read(origin, facts["labels"])

    def _score_function(self, examples, spec):
        """Returns the function from predictions to scores in percent."""
        takes_sets = self.kind == "multi_label"
        targets = dense(examples.labels, len(spec.labels)) if takes_sets else examples.labels

        def score(predictions):
            guesses = np.array(predictions) if takes_sets else predictions
            scores = {}
            for metric in spec.metrics:
                scores[metric.__name__] = 100 * float(metric(targets, guesses))
            return scores

        return score

    def _with_target_column(self, origin, label):
        """Returns a source whose targets are where those of the task are; they may be in the column `label`."""
        if label in self.target_columns:
            return origin

        def convert(place, row):
            if label in row:
                return self.with_named_target(row, label)
            if label != _LABEL:  # Which the user has not named.
                check_columns(place, list(row), {label: "label_column"})
            return row

        return origin.mapped(convert)


class NumberRows(TextRows):
    """Rows with a number as `label`."""

    expects = "texts or pairs with floats"
    kind = "regression"

    def recognizes(self, text, targets):
        known = [target for target in targets or () if target is not None]
        if not (is_text_or_pair(text) and isinstance(first_known(targets), int | float)):
            return False
        if not any(isinstance(target, float) for target in known):
            return False
        if all(float(target).is_integer() for target in known):
            raise ValueError(
                "the targets are whole numbers as floats. Expected task='regression', or task='classification' if "
                f"they are classes. Received: targets such as {first_known(targets)!r}"
            )
        return True


class LabelSetRows(TextRows):
    """Rows with a list of labels as `label`."""

    expects = "texts or pairs with lists of labels"
    kind = "multi_label"

    def recognizes(self, text, targets):
        example = first_known(targets)
        if not (is_text_or_pair(text) and isinstance(example, list | tuple)):
            return False
        if isinstance(example[0], float):
            raise ValueError(
                "the targets are lists of floats, as one-hot vectors are. Expected the class of each text, such as "
                f"targets.argmax(-1), or lists of labels. Received: targets such as {example!r:.100}"
            )
        if not isinstance(example[0], str | int):
            return False
        if all(target is not None and len(target) == 1 for target in targets):
            raise ValueError(
                "the targets are lists of one label, as one-hot vectors are. Expected the class of each text, such as "
                f"targets.argmax(-1), or task='multi_label'. Received: targets such as {example!r:.100}"
            )
        return True

    def read(self, train, dev, settings, labels=None, name=None):
        if labels is None:
            _check_sets([row[self.target_columns[0]] for _, row in train.values])
        return super().read(train, dev, settings, labels, name)


def is_text_or_pair(text):
    """Whether a text of Python is a string, or a pair."""
    return isinstance(text, str | tuple)


def _kind_of_labels(facts):
    """Returns what the labels of a model with these facts are, one of `data.OWN`."""
    if facts["multi_label"]:
        return "multi_label"
    return "classification" if facts["labels"] else "regression"


def _official_examples(name, directory, labels, path):
    """Reads the dev rows of a task of GLUE, whose labels the model in a directory must have."""
    check_choice("task", name, glue.TASKS)
    task = glue.TASKS[name]
    if list(task.labels) != list(labels or ()):
        raise ValueError(f"{directory} must have the labels of {name}. Received: labels={labels}")
    return glue.read(task, path, "dev")


def _predictions_of(head, outputs):
    """Returns the predictions of the outputs of a SavedModel: numbers, classes, or lists of 0 and 1."""
    if "predicted" in outputs:
        return outputs["predicted"].tolist()
    logits = head.class_logits(outputs)
    if logits.shape[-1] == 1:
        return logits[:, 0].astype(float).tolist()
    return logits.argmax(-1).tolist()


def _check_sets(targets):
    """Raises for lists of 0 and 1 where each text has a list of its labels."""
    rows = [target for target in targets if target is not None]
    sizes = {len(row) for row in rows}
    if len(sizes) != 1 or min(sizes) <= 1:
        return
    if all(flag in (0, 1) for flag in itertools.chain.from_iterable(rows)):
        raise ValueError(
            "the targets are lists of 0 and 1. Expected a list of the labels of each text, or an array with a column "
            f"for each label: np.array(targets). Received: targets such as {rows[0]!r:.100}"
        )
