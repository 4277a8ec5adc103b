"""Scores of SavedModels on labeled data, to compare one with another: int8 with float32."""

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
        parts = [f"{self.rows:,} rows"]
        for name, value in self.scores.items():
            part = f"{name} {value:.2f}"
            if self.reference is not None:
                part += f" (reference {self.reference[name]:.2f})"
            parts.append(part)
        if self.agreement is not None:
            parts.append(f"the same prediction for {self.agreement:.2f} %")
        text = ", ".join(parts)
        if self.note:
            text += f" ({self.note})"
        return text


def compare(directory, path, reference=None, task=None, text=None, pair=None, label="label"):
    """Returns the `Comparison` of a SavedModel and a reference, with the same inputs and labels, on labeled data.

    The SavedModel is for classification, regression or question answering. `path` is a table, as for `read_table`, with
    these columns; for question answering a file in SQuAD's format; with a GLUE `task` the folder of the official files.
    """
    facts = _facts(directory)
    if reference is not None:
        _check_same_model(directory, facts, reference)
    data = _labeled(directory, facts, path, task=task, text=text, pair=pair, label=label)
    predictions, scores, note = _scored(directory, facts, data)
    if reference is None:
        return Comparison(len(predictions), scores, note=note)
    expected, expected_scores, _ = _scored(reference, facts, data)
    return Comparison(
        rows=len(predictions),
        scores=scores,
        reference=expected_scores,
        agreement=_agreement(predictions, expected),
        note=note,
    )


def _agreement(predictions, expected):
    """Returns the percentage of equal predictions, such as class names; `None` if those of the reference are numbers.

    Numbers of two exports are seldom equal. `Comparison` prints the percentage where there is one.
    """
    if all(isinstance(value, float) for value in expected):
        return None
    same = [prediction == other for prediction, other in zip(predictions, expected, strict=True)]
    return 100 * float(np.mean(same))


def _check_same_model(directory, facts, reference):
    """Raises for a reference with another head, other labels or other inputs."""
    reference_facts = _facts(reference)
    for name in ("head", "labels", "pair"):
        if facts[name] != reference_facts[name]:
            raise ValueError(
                f"{reference} must be the same model as {directory}. Received: {name}={reference_facts[name]!r} and "
                f"{name}={facts[name]!r}"
            )


def _scored(directory, facts, data):
    """Returns the predictions of a SavedModel for `Labeled` data, the scores in percent, and a note or `None`.

    The scores are those of a user's report, if it has its own, as far as the SavedModel answers what they need.
    """
    outputs = answers(directory, data.inputs)
    task, settings = exported_task(facts, directory)
    if task is None or data.spec is None or not _has_own_scores(task.Report):
        predictions = data.predictions(outputs)
        return predictions, data.score(predictions), None
    try:
        predictions, scores = _own_scores(task, settings, facts, data, outputs)
        return predictions, scores, None
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
    metric_first = {report.metric: scores[report.metric]} | scores
    percent = {name: 100 * float(value) for name, value in metric_first.items()}
    is_number = logits.shape[-1] == 1
    predictions = logits[:, 0].astype(float) if is_number else logits.argmax(-1)
    return predictions.tolist(), percent


def _exported(task, settings, labels, spec):
    """Returns the task of a SavedModel, as far as that tells it: there are no data to train on and no checkpoint."""

    class Exported(task):
        def __init__(self):
            self.settings = settings
            self.labels = labels
            self.spec = spec
            self.training = types.SimpleNamespace(activation="linear")  # Signatures answer after the activation.

        def __getattr__(self, name):
            raise AttributeError(f"a SavedModel does not tell `task.{name}`, but its name, head, labels and settings")

    return Exported()


def answers(directory, inputs):
    """Returns the outputs of `serving_default` for lists of strings, an array for each output."""
    loaded = tf.saved_model.load(str(directory))
    signature = loaded.signatures["serving_default"]
    lengths = []
    for texts in zip(*inputs.values(), strict=True):
        lengths.append(sum(map(len, texts)))
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches = []
    for start in range(0, len(by_length), _TOGETHER):
        rows = by_length[start : start + _TOGETHER]
        batch = {}
        for name, values in inputs.items():
            batch[name] = tf.constant([values[row].encode() for row in rows])
        arrays = {}
        for name, value in signature(**batch).items():
            if value.shape.rank <= 2:
                arrays[name] = value.numpy()
        batches.append(arrays)
    places = np.argsort(by_length)  # Of each row among those by length.
    answered = {}
    for name in batches[0]:
        answered[name] = np.concatenate([batch[name] for batch in batches])[places]
    return answered


def _facts(directory):
    """Returns the facts that `export` has stored."""
    path = pathlib.Path(directory, assets.FOLDER, assets.FACTS)
    if not path.is_file():
        raise ValueError(f"{directory}: no {assets.FOLDER}/{assets.FACTS}, which `export` writes")
    return read_json(path)


def _labeled(directory, facts, path, **options):
    """Returns the `Labeled` data of the task of a SavedModel, or of the first one that such a model can be of."""
    own, settings = exported_task(facts, directory)
    labeled = None
    if own is not None:
        labeled = own.rows.labeled(own.name, directory, facts, path, settings=settings, **options)
    for task in TASKS:
        if labeled is None and task.trains(facts["head"]) and task is not own:
            labeled = task.rows.labeled(task.name, directory, facts, path, **options)
    if labeled is None:
        raise ValueError(
            f"{directory}: labeled data is for classification, regression and question answering. "
            f"Received: head={facts['head']!r}"
        )
    return labeled
