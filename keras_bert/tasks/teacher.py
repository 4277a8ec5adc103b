"""Distillation as a stage of any task: a student learns from the labels and from the answers of a teacher."""

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from keras_bert.data.token_rows import joined, sequence_lengths
from keras_bert.reports.page import base_name
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.reporting import start_text
from keras_bert.tasks.stages import evaluation_batches
from keras_bert.training.distillation import check_distillation, with_teacher
from keras_bert.training.evaluation import cached_outputs, weights_fingerprint


class Teacher:
    """A trained model of a task, from whose answers the models of the task learn in their last stage.

    A teacher of rows reads texts with its own vocabulary and the length of its training; one of tokens must have the
    student's vocabulary. Its outputs are computed once and kept in a folder.

    Args:
        task: the `Task` that the students are trained on. Their head should be a new one, see `Start`.
        name: directory or name of the teacher.
        bert: the loaded teacher.
        folder: where its outputs are kept.
        temperature, alpha: see `distillation_loss`; of several losses of the task, it is that of the one with `soft`.
        unlabeled: `TextExamples` of which the student learns the teacher's answers. Defaults to `None`.

    Attributes:
        origins, run_settings, facts: what it adds to those of the task.
    """

    def __init__(self, task, name, bert, folder, *, temperature=2.0, alpha=0.5, unlabeled=None):
        check_distillation(temperature, alpha)
        self._task = task
        self._name = str(name)
        self._folder = pathlib.Path(folder)
        self._bert = bert
        self._outputs = None  # By part, once they are computed.
        self._temperature = float(temperature)
        self._alpha = float(alpha)
        self._unlabeled = None
        if unlabeled is not None:
            self._unlabeled = dataclasses.replace(unlabeled, labels=None)
        if not task.training.can_teach:
            raise ValueError(f"`teacher`: the task {task.name} has none. Received: teacher={self._name}")
        with_teacher(task.training.loss)  # Raises an error if the losses have no part for a teacher.
        task.training.check_teacher(bert, self._name)
        self._key = weights_fingerprint(bert.model(), config=dataclasses.asdict(bert.config))
        self.origins = {self._name: bert.identity}
        self.run_settings = {
            "teacher_weights": self._key[:16],
            "temperature": self._temperature,
            "alpha": self._alpha,
        }
        size = start_text(base_name(self._name), bert)  # The model card has no local paths.
        self.facts = {"teacher": f"{size}; temperature {temperature:g}, alpha {alpha:g}"}
        if self._unlabeled is not None:
            self.run_settings["unlabeled"] = self._unlabeled.fingerprint()
            self.facts["unlabeled examples"] = f"{len(self._unlabeled):,}"

    def taught(self, stage):
        """Returns a `Stage` whose model learns from the teacher, too."""
        outputs = self._teacher_outputs()
        dev = stage.dev
        if dev is not None:
            split = self._task.splits["dev"][0]
            targets = outputs["dev"] | {"labels": split.targets}
            dev = dataclasses.replace(split, targets=targets).batches

        def score(targets, outputs):
            return stage.score(targets["labels"], outputs)

        loss = with_teacher(stage.loss, temperature=self._temperature, alpha=self._alpha)
        return dataclasses.replace(stage, loss=loss, examples=self._examples, score=score, dev=dev)

    def _teacher_outputs(self):
        """Returns the outputs of the teacher as targets, by part; they are computed once, which frees the teacher."""
        if self._outputs is None:
            self._outputs = self._compute_outputs()
            self._bert = None
        return self._outputs

    def _compute_outputs(self):
        """Returns the outputs of the teacher as targets for train, dev and rows without labels."""
        task = self._task.training.of_teacher(self._bert)
        model = task.training.own_model(self._bert)
        train_inputs, _ = task.splits["train"][-1].pair()  # Some tasks make those of train on demand.
        inputs_by_part = {"train": train_inputs, "dev": task.splits["dev"][0].inputs}
        if self._unlabeled is not None:
            inputs_by_part["unlabeled"], _ = task.features(self._unlabeled)
        targets = {}
        for name, inputs in inputs_by_part.items():
            path = self._folder / f"{name}.npz"
            outputs = cached_outputs(path, model, inputs, self._key, make_batches=evaluation_batches)
            targets[name] = self._as_targets(outputs, inputs)
        return targets

    def _as_targets(self, outputs, inputs):
        """Returns the outputs of the teacher as targets, ragged where there is one for each token."""
        if not self._task.training.answers_tokens:
            return {f"teacher_{name}": values for name, values in outputs.items()}
        lengths = sequence_lengths(inputs["token_ids"]).astype("int32")
        targets = {"teacher_length": lengths}
        for name, values in outputs.items():
            targets[f"teacher_{name}"] = tf.RaggedTensor.from_tensor(values, lengths=lengths)
        return targets

    def _examples(self):
        """Returns the inputs and targets of the student, those without labels last."""
        outputs = self._teacher_outputs()
        labeled, labels = self._task.splits["train"][-1].pair()
        if self._unlabeled is None:
            return labeled, outputs["train"] | {"labels": labels}
        unlabeled, zeros = self._task.features(self._unlabeled)
        inputs = {}
        for name, values in labeled.items():
            inputs[name] = joined([values, unlabeled[name]])
        targets = {}
        for name, values in outputs["train"].items():
            targets[name] = np.concatenate([values, outputs["unlabeled"][name]])
        targets["labeled"] = np.repeat([1.0, 0.0], [len(labels), len(zeros)]).astype("float32")
        targets["labels"] = np.concatenate([labels, zeros])
        return inputs, targets

    def compared(self, findings):
        """Returns the `Findings` of the student with those of the teacher on the same rows."""
        report = self._task.report
        outputs = {}
        for name, values in self._teacher_outputs()["dev"].items():
            if name != "teacher_length":
                outputs[name.removeprefix("teacher_")] = _dense(values)
        scores = report.score(self._task.splits["dev"][0].targets, outputs)
        text = data_summary.listed(scores)
        share = None
        if scores[report.metric] > 0:
            share = findings.measured[report.metric] / scores[report.metric]
            text += f"; the student keeps {share:.1%} of the {report.metric.replace('_', ' ')}"
        return findings.with_more(
            results={"teacher": {"model": self._name, "scores": scores, "share_kept": share}},
            facts={"scores of the teacher": text},
            messages=[f"teacher: {text}"],
            note=f"The teacher, {base_name(self._name)}, has on the same rows: {text}.",
        )


def _dense(values):
    """Returns values, ragged ones padded with zeros, as an array."""
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor().numpy()
    return values
