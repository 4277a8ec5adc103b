"""Scores of SavedModels on labelled data, to compare one with another: int8 with float32."""

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (Registers the ops of the tokenizer.)

from keras_bert.exporting import assets
from keras_bert.files import read_json
from keras_bert.tasks.registry import TASKS

_TOGETHER = 32  # Texts of similar length in a request.


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The scores of a SavedModel and of a reference, if there is one, by metric in percent, the main one first.

    `agreement` is the percentage of the rows with the same prediction; `None` without a reference, or for numbers.
    """

    rows: int
    scores: dict
    reference: dict | None = None
    agreement: float | None = None

    @property
    def drop(self):
        """By how many points the main score is below that of the reference."""
        name = next(iter(self.scores))
        return self.reference[name] - self.scores[name]

    def __str__(self):
        parts = []
        for name, value in self.scores.items():
            against = "" if self.reference is None else f" (reference {self.reference[name]:.2f})"
            parts.append(f"{name} {value:.2f}{against}")
        same = [] if self.agreement is None else [f"the same prediction for {self.agreement:.2f} %"]
        return f"{self.rows:,} rows, {', '.join(parts + same)}"


def compare(directory, path, reference=None, task=None, text=None, pair=None, label="label"):
    """Returns the `Comparison` of a SavedModel and a reference, with the same inputs and labels, on labelled data.

    The SavedModel is for classification, regression or question answering. `path` is a table, as for `read_table`, with
    these columns; for question answering a file in SQuAD's format; with a GLUE `task` the folder of the official files.
    """
    facts = _facts(directory)
    if reference is not None:
        other = _facts(reference)
        for name in ("head", "labels", "pair"):
            if facts[name] != other[name]:
                raise ValueError(
                    f"{reference} must be the same model as {directory}. Received: {name}={other[name]!r} and "
                    f"{name}={facts[name]!r}"
                )
    data = _read(directory, facts, path, task=task, text=text, pair=pair, label=label)
    predictions = data.predictions(answers(directory, data.inputs))
    scores, rows = data.score(predictions), len(predictions)
    if reference is None:
        return Comparison(rows, scores)
    expected = data.predictions(answers(reference, data.inputs))
    numbers = all(isinstance(value, float) for value in expected)
    same = None if numbers else 100 * float(np.mean([a == b for a, b in zip(predictions, expected, strict=True)]))
    return Comparison(rows, scores, data.score(expected), same)


def answers(directory, inputs):
    """Returns the outputs of `serving_default` for lists of strings, an array for each output."""
    loaded = tf.saved_model.load(str(directory))
    signature = loaded.signatures["serving_default"]
    lengths = [sum(map(len, row)) for row in zip(*inputs.values(), strict=True)]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    parts = []
    for start in range(0, len(order), _TOGETHER):
        rows = order[start : start + _TOGETHER]
        part = {name: tf.constant([values[row].encode() for row in rows]) for name, values in inputs.items()}
        parts.append({name: value.numpy() for name, value in signature(**part).items() if value.shape.rank <= 2})
    back = np.argsort(order)
    return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}


def _facts(directory):
    path = pathlib.Path(directory, assets.FOLDER, assets.FACTS)
    if not path.is_file():
        raise ValueError(f"{directory}: no {assets.FOLDER}/{assets.FACTS}, which `export` writes")
    return read_json(path)


def _read(directory, facts, path, **options):
    """Returns the `Labelled` data of the first task that such a model is of."""
    tasks = [task for task in TASKS if task.head == facts["head"]]
    found = (task.rows.labelled(task.name, directory, facts, path, **options) for task in tasks)
    labelled = next(filter(None, found), None)
    if labelled is None:
        raise ValueError(
            f"{directory}: labelled data is for classification, regression and question answering. "
            f"Received: head={facts['head']!r}"
        )
    return labelled
