"""Scores of SavedModels on labelled data, to compare one with another: int8 with float32."""

import dataclasses
import pathlib
import types

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (Registers the ops of the tokenizer.)

from keras_bert.checks import is_ours
from keras_bert.exporting import assets
from keras_bert.files import read_json
from keras_bert.heads.registry import head_named
from keras_bert.tasks.registry import TASKS, exported_task

_TOGETHER = 32  # Texts of similar length in a request.


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The scores of a SavedModel and of a reference, if there is one, by metric in percent, the main one first.

    `agreement` is the percentage of the rows with the same prediction; `None` without a reference, or for numbers.
    `note` tells which scores are missing, if any.
    """

    rows: int
    scores: dict
    reference: dict | None = None
    agreement: float | None = None
    note: str | None = None

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
        text = f"{self.rows:,} rows, {', '.join(parts + same)}"
        return f"{text} ({self.note})" if self.note else text


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
    predictions, scores, note = _scored(directory, facts, data)
    rows = len(predictions)
    if reference is None:
        return Comparison(rows, scores, note=note)
    expected, expected_scores, _ = _scored(reference, facts, data)
    numbers = all(isinstance(value, float) for value in expected)
    same = None if numbers else 100 * float(np.mean([a == b for a, b in zip(predictions, expected, strict=True)]))
    return Comparison(rows, scores, expected_scores, same, note)


def _scored(directory, facts, data):
    """Returns the predictions of a SavedModel for `Labelled` data, the scores in percent, and a note or `None`.

    The scores are those of a user's report, if it has its own, as far as the SavedModel answers what they need.
    """
    outputs = answers(directory, data.inputs)
    task, settings = exported_task(facts, directory)
    if task is None or data.spec is None or not _has_own_scores(task.Report):
        predictions = data.predictions(outputs)
        return predictions, data.score(predictions), None
    try:
        return (*_own_scores(task, settings, facts, data, outputs), None)
    except Exception as error:
        failure = (
            f"the `score` of the task {task.name}, which fails for the answers {', '.join(outputs)}: "
            f"{type(error).__name__}: {error}. See `model_outputs` of the head"
        )
        try:
            predictions = data.predictions(outputs)
            return predictions, data.score(predictions), f"without {failure}"
        except Exception as other:
            raise ValueError(f"{directory} has no scores: neither {failure}; nor those of classes: {other}") from error


def _has_own_scores(report):
    """Whether the class of a report is a user's that computes scores or classes in another way."""
    return not all(is_ours(method) for method in (report.score, report.class_logits))


def _own_scores(task, settings, facts, data, answered):
    """Returns the predictions and the scores of a user's report for the answers of a SavedModel."""
    exported = _exported(task, settings, facts["labels"], data.spec)
    report = exported.report
    outputs = head_named(task.head).model_outputs(answered)
    logits = report.class_logits(outputs)
    if np.ndim(logits) < 2:
        raise ValueError(
            f"`class_logits` must be (rows, classes), or (rows, 1) for numbers. Received: the shape {np.shape(logits)}"
        )
    scores = report.score(exported.targets(data.examples), outputs)
    ordered = {report.metric: scores[report.metric], **scores}
    predictions = logits[:, 0].astype(float) if logits.shape[-1] == 1 else logits.argmax(-1)
    return predictions.tolist(), {name: 100 * float(value) for name, value in ordered.items()}


def _exported(task, settings, labels, spec):
    """Returns the task of a SavedModel, as far as that tells it: there are no data to train on and no checkpoint."""

    class Exported(task):
        def __init__(self):
            self.settings, self.labels, self.spec = settings, labels, spec
            self.training = types.SimpleNamespace(activation="linear")  # Signatures answer after the activation.

        def __getattr__(self, name):
            raise AttributeError(f"a SavedModel does not tell `task.{name}`, but its name, head, labels and settings")

    return Exported()


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
    """Returns the `Labelled` data of the task of a SavedModel, or of the first one that such a model can be of."""
    own, settings = exported_task(facts, directory)
    labelled = None
    if own is not None:
        labelled = own.rows.labelled(own.name, directory, facts, path, settings=settings, **options)
    for task in TASKS:
        if labelled is None and task.trains(facts["head"]) and task is not own:
            labelled = task.rows.labelled(task.name, directory, facts, path, **options)
    if labelled is None:
        raise ValueError(
            f"{directory}: labelled data is for classification, regression and question answering. "
            f"Received: head={facts['head']!r}"
        )
    return labelled
