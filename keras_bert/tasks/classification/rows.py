"""Texts or pairs, with classes, sets of labels or numbers, as rows."""

import dataclasses
import functools

import numpy as np

from keras_bert.checks import check_choice
from keras_bert.data.formats import source
from keras_bert.data.sources import check_columns
from keras_bert.heads.registry import head_named
from keras_bert.tasks.classification import glue
from keras_bert.tasks.classification.data import METRICS, Task, columns_of_model, own_data, read_kind
from keras_bert.tasks.classification.predictions import dense
from keras_bert.tasks.rows import Labelled, RowFormat, first_known

_LABEL = "label"  # The default column of `labelled`.


class TextRows(RowFormat):
    """Rows with `text`, `pair` for a second text, and a class as `label`. `kind` is one of `data.OWN`.

    The classes are sorted, unless the task has a setting `labels`, a list of them in their order.
    """

    expects = "texts or pairs with classes"
    kind, inputs = "classification", ("text", "pair")
    needs_train = False

    def recognizes(self, text, targets):
        if isinstance(text, dict):
            return super().recognizes(text, targets)
        return is_text(text) and isinstance(first_known(targets), str | int)

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
        is_same = dev is train
        train = self.converted(train, settings)
        dev = train if is_same else self.converted(dev, settings)
        has_pair = "pair" in train.names()
        data = own_data(
            self.kind,
            train,
            dev,
            text="text" if has_pair else None,
            pair="pair" if has_pair else None,
            label=self.target_columns[0],
            skip_bad_rows=None,
            labels=labels or getattr(settings, "labels", None),
            name=name,
        )
        return dataclasses.replace(data, columns=written)

    def labelled(self, name, directory, facts, path, *, settings=None, task=None, text=None, pair=None, label=_LABEL):
        labels, several = facts["labels"], facts["multi_label"]
        kind = "multi_label" if several else "classification" if labels else "regression"
        if kind != self.kind:
            return None
        if task is not None:
            check_choice("task", task, glue.TASKS)
        if task is None:
            columns, metrics = label.split(",") if several else [label], METRICS[kind]
            origin = source(path)
            if self.convert is not None:
                origin = self.converted(self._with_target_column(origin, label), settings)
                columns = [self.target_columns[0]]
            text, pair = columns_of_model(origin, columns, text, pair, facts.get("columns"))
            if facts["pair"] and pair is None and text == "text" and "pair" in origin.names():
                pair = "pair"  # As in rows of Python.
            examples = read_kind(kind, text, pair, columns, origin, None, labels)
        elif list(glue.TASKS[task].labels) != list(labels or ()):
            raise ValueError(f"{directory} must have the labels of {task}. Received: labels={labels}")
        else:
            examples, metrics = glue.read(glue.TASKS[task], path, "dev"), glue.TASKS[task].metrics
        if (examples.pair is not None) != facts["pair"]:
            raise ValueError(f"{directory} takes {'pairs' if facts['pair'] else 'single texts'}. Received: the others")
        targets = dense(examples.labels, len(labels)) if several else examples.labels

        def score(predictions):
            guesses = np.array(predictions) if several else predictions
            return {metric.__name__: 100 * float(metric(targets, guesses)) for metric in metrics}

        return Labelled(
            inputs=dict(zip(("text", "pair"), examples.columns, strict=False)),
            predictions=functools.partial(_answered, head_named(facts["head"])),
            score=score,
            examples=examples,
            spec=Task(name, name, "text", "pair" if facts["pair"] else None, label, tuple(labels or ()), metrics),
        )

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
        if not (is_text(text) and isinstance(first_known(targets), int | float)):
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
        if not (is_text(text) and isinstance(example, list | tuple)):
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


def is_text(text):
    """Whether a text of Python is a string, or a pair."""
    return isinstance(text, str | tuple)


def _answered(head, outputs):
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
    if len(sizes) == 1 and min(sizes) > 1 and all(flag in (0, 1) for row in rows for flag in row):
        raise ValueError(
            "the targets are lists of 0 and 1. Expected a list of the labels of each text, or an array with a column "
            f"for each label: np.array(targets). Received: targets such as {rows[0]!r:.100}"
        )
