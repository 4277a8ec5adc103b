"""A rehearsal of a user's own task or head on two rows and a tiny model, before anything is trained.

What a task reports, saves and answers comes after the training: without a rehearsal, a mistake there costs a whole run.
"""

import contextlib
import dataclasses
import math
import pathlib
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.answering.row_answers import answer_rows, with_model_options
from keras_bert.checkpoints.load import load_models
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.save import save
from keras_bert.checkpoints.tensors import Checkpoint, Tensor, slots
from keras_bert.checks import is_ours
from keras_bert.data.batch_source import as_source
from keras_bert.exporting.export import rehearse_export
from keras_bert.heads.head import check_inputs
from keras_bert.heads.registry import NO_HEAD, describe, head_named
from keras_bert.models.encoder import build_encoder
from keras_bert.progress import announced, hidden
from keras_bert.runs import model_card
from keras_bert.runs.results import export_options
from keras_bert.tasks.registry import TASKS
from keras_bert.training.evaluation import Evaluator

_ROWS = 2


class RehearsalError(ValueError):
    """What fails before training; `promise` names it."""

    def __init__(self, promise, message):
        super().__init__(message)
        self.promise = promise


def is_own(task):
    """Whether a task that is registered, or the head that it trains, is a user's."""
    if type(task) not in TASKS:
        return False
    parts = [task, head_named(task.head), task.training, task.report, task.rows]
    return not all(is_ours(type(part)) for part in parts)


def rehearse(task):
    """Goes through everything that follows a training; raises an error that names the part that fails.

    Returns the names of the scores.
    """
    with announced(f"rehearsing the task {task.name} on {_ROWS} rows"), hidden():
        return Rehearsal(task).run()


class Rehearsal:
    """A task on its first rows, with a tiny encoder of random weights that reads the same tokens."""

    def __init__(self, task):
        self._whole = task
        self.task: Any = None

    def run(self):
        """Runs all steps; returns the names of the scores."""
        with self._promise("the first rows are read", "rows"):
            self.task = self._small_task()
        training = self.task.training
        with self._promise("`build` makes the model", "build"):
            model = training.build(self.task.bert)
            check_inputs(head_named(self.task.head), training.complete(model))
        with self._promise("the model answers dev and its loss is computed", "loss"):
            outputs, targets = self._evaluated(model)
        with self._promise("`score` returns numbers, with the metric", "score"):
            scores = self.task.report.score(targets, outputs)
            self._check_scores(scores, "`score`")
            self._check_names(scores)
        with self._promise("`conclude` reports the outputs", "conclude"):
            kept = self._kept(model)
            findings = self._conclude(kept)
        with self._promise("the model card is written", "card"):
            model_card.text("model", self.task, "dev", {}, findings.measured)
        with tempfile.TemporaryDirectory() as folder:
            with self._promise("the model is saved, and opens again", "save"):
                saved = self._saved(training.complete(model), kept, pathlib.Path(folder))
            with self._promise("the model is exported, and its SavedModel answers", "export"):
                self._check_export(saved)
        return list(scores)

    def _kept(self, model):
        """Returns what a run keeps of dev, combined as in an ensemble."""
        report = self.task.report

        def predict(batches):
            return _evaluator(model).outputs(as_source(batches)).outputs

        kept = {}
        for name, values in report.dev_logits(predict).items():
            kept[name] = np.asarray(report.combine([values]))
        return kept

    def _conclude(self, kept):
        """Returns the findings of the report, after a check of their scores."""
        report = self.task.report
        with tempfile.TemporaryDirectory() as folder:
            findings = report.with_confidence(report.conclude(kept, {}, pathlib.Path(folder)), kept)
        self._check_scores(findings.measured, "the `measured` scores of `conclude`")
        return findings

    @contextlib.contextmanager
    def _promise(self, text, name):
        """Raises a `RehearsalError` for what fails in the block, which keeps the promise of a name."""
        try:
            yield
        except RehearsalError:
            raise
        except Exception as error:
            task = self._whole
            reason = f"{type(error).__name__}: {error}"
            raise RehearsalError(
                name,
                f"the task {task.name}, head {task.head}, fails before training, on {_ROWS} rows and a tiny model, "
                f"where {text}. {reason}",
            ) from error

    def _small_task(self):
        """Returns the task of the first rows, which starts from a tiny encoder."""
        task = self._whole
        rows = list(range(min(_ROWS, len(task.splits["train"][-1].examples))))
        data = task.data.parted(rows, rows)
        start = dataclasses.replace(task.start, bert=_tiny(task.bert))
        return type(task)(data, start, task.settings)

    def _evaluated(self, model):
        """Returns the outputs and the targets of dev, after a check of the loss."""
        losses = self.task.training.losses
        evaluator = _evaluator(model, losses)
        outputs, targets, results = evaluator.outputs(as_source(self.task.dev), with_losses=True)
        for name, value in results.items():
            if not math.isfinite(value):
                raise ValueError(f"the loss {name!r} must be a finite number. Received: {value}")
        return outputs, targets

    def _check_scores(self, scores, what):
        """Raises unless scores are numbers by name, with the metric; messages call them `what`."""
        metric = self.task.report.metric
        if not isinstance(scores, dict) or metric not in scores:
            known = ", ".join(scores) if isinstance(scores, dict) else repr(scores)[:100]
            raise ValueError(f"{what} must have the metric {metric!r}. Received: {known}")
        for name, value in scores.items():
            if not isinstance(value, int | float | np.number):
                raise ValueError(f"{what} must be numbers. Received: {name}={value!r:.100}")

    def _check_names(self, scores):
        """Raises an error for a loss with the name of a score: both are in the lines of the epochs."""
        for loss in self.task.training.losses:
            if loss.name in scores:
                raise ValueError(
                    "a loss and a score must have different names. "
                    f"Received: Loss({loss.name!r}, ...) and the score {loss.name!r}"
                )

    def _saved(self, model, kept, folder):
        """Saves the model, opens it again, and compares the weights; returns what was opened."""
        bert = self.task.bert
        options = dict(self.task.save_options(kept))
        options["task"] = None  # Rows of the task are converted already: the model answers as one of no task.
        confidence = self.task.report.confidence(kept)
        if confidence is not None:
            options["confidence"] = confidence.to_json()
        save(
            model,
            folder / "model",
            bert.vocabulary,
            lowercase=bert.lowercase,
            **self.task.stored_reading,
            **options,
        )
        saved = load_models(folder / "model")
        check_equal(model, saved.model())
        return saved

    def _check_export(self, saved):
        """Builds and runs the signatures of the SavedModel, and answers its example as `predict` does."""
        options = export_options(self.task, saved)
        head = head_named(saved.head)
        preprocessor = saved.preprocessor(self.task.sequence_length, padding="longest")
        signatures = rehearse_export(saved.model(), preprocessor, **options)
        signature = signatures["serving_default"]
        outputs = signature.get_concrete_function().structured_outputs
        absent = [name for name in head.outputs if name not in outputs]
        if absent:
            known = ", ".join(outputs)
            raise ValueError(f"`outputs` of the head must be those of its signatures: {known}. Received: {absent[0]!r}")
        example = options["example"]
        names = [spec.name for spec in signature.input_signature]
        if head.embeds:
            inputs = [tf.constant([example[name]]) for name in names]
            signature(*inputs)
            return
        answering_head = with_model_options(head, saved)
        (answer,) = answer_rows(answering_head, signature, names, [example], _ROWS)
        if not isinstance(answer, dict):
            raise ValueError(f"`answer` of the head must return a dict. Received: {answer!r:.100}")


def _tiny(bert):
    """Returns a model in memory with a tiny encoder of random weights, and the tokens of a loaded one."""
    width = 4 * 2
    config = dataclasses.replace(
        bert.config,
        hidden_size=width,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=width,
        embedding_size=bert.config.embedding_size and width,
    )
    encoder = build_encoder(config, causal=bert.causal, positions=bert.positions)
    tensors = {}
    for slot in slots(describe(encoder)):
        tensors[slot.name] = Tensor(slot.name, slot.shape, slot.value)
    metadata = bert.metadata.replace(
        head=NO_HEAD,
        head_options=None,
        labels=None,
        multi_label=False,
    )
    return LoadedModels(Checkpoint(bert.name, config, tensors, metadata))


def _evaluator(model, losses=()):
    return Evaluator(model, tf.distribute.get_strategy(), list(losses), show=False)


def check_equal(model, saved):
    """Raises if a saved model does not have the weights of the model."""
    for one, other in zip(model.weights, saved.weights, strict=True):
        if one.path.endswith("seed_generator_state"):
            continue
        if one.shape != other.shape or not np.array_equal(np.asarray(one), np.asarray(other)):
            raise ValueError(
                f"the weight {one.path} is another one after `save` and `load`. Expected its layer among the `tensors` "
                "of the head"
            )
