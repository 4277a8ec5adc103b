"""Fine-tuning of a student on the labels of a task and on the logits of a teacher."""

import dataclasses
import pathlib

import numpy as np

from keras_bert.data.token_rows import joined
from keras_bert.reports.page import base_name
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task, start_text
from keras_bert.tasks.classification.task import texts
from keras_bert.training.distillation import distillation_loss
from keras_bert.training.evaluation import cached_logits, weights_fingerprint
from keras_bert.training.losses import regression_loss


class DistillationTask(Task):
    """A `ClassificationTask` without folds and language model loss, whose model learns from a teacher, too.

    The teacher is a loaded checkpoint of the same task. It reads texts with its own vocabulary and the length of its
    training; its logits are computed once and kept in a folder. `temperature` and `alpha` are those of
    `distillation_loss`; of `unlabelled`, `Examples`, the student learns the teacher's answers.
    """

    can_pack = True

    def __init__(self, task, name, teacher, folder, temperature=2.0, alpha=0.5, unlabelled=None):
        super().__init__(task.data, task.start, task.settings)
        self.spec, self.title, self.metric, self.combine = task.spec, task.title, task.metric, task.combine
        self.splits, self.head = task.splits, task.head
        self.learning_rates, self.batch_size, self.epochs = task.learning_rates, task.batch_size, task.epochs
        task.new_head = True  # The student learns its head from the teacher's answers.
        self._inner, self._name, self._folder, self._unlabelled = task, str(name), pathlib.Path(folder), unlabelled
        self._teacher, self._logits = teacher, None
        self.origins = {**task.origins, self._name: self._teacher.identity}
        self.dev, self.card = None, dict(task.card)
        check_teacher(self._teacher, self._name, task.spec)
        self._examples = {"train": task.data.train, "dev": task.data.dev[task.spec.name]}
        if unlabelled is not None:
            self._examples["unlabelled"] = dataclasses.replace(unlabelled, labels=None)
        kind = "multi_label" if task.spec.multi_label else "classification" if task.spec.labels else "regression"
        loss = regression_loss() if kind == "regression" else task.loss
        self.loss = distillation_loss(loss, kind, temperature=temperature, alpha=alpha)
        self._key = weights_fingerprint(self._teacher.model(), config=dataclasses.asdict(self._teacher.config))
        settings = {"teacher_weights": self._key[:16], "temperature": temperature, "alpha": alpha}
        size = start_text(base_name(self._name), self._teacher)  # The model card has no local paths.
        facts = {"teacher": f"{size}; temperature {temperature:g}, alpha {alpha:g}"}
        if unlabelled is not None:
            settings["unlabelled"] = self._examples["unlabelled"].fingerprint()
            facts["unlabelled examples"] = f"{len(unlabelled):,}"
        self.run_settings, self.facts = {**task.run_settings, **settings}, {**task.facts, **facts}

    def summarize(self):
        return self._inner.summary

    def judge(self, logits):
        return self._inner.judge(logits)

    def data_warnings(self):
        return self._inner.data_warnings()

    @property
    def train(self):
        return [self._rows]

    def select(self, setting):
        if self.dev is None:
            logits = self._teacher_logits()
            dev = self.splits["dev"][0]
            targets = {"labels": dev.targets, "teacher_logits": logits["dev"]}
            self.dev = dataclasses.replace(dev, targets=targets).batches
        return self.dev

    def _teacher_logits(self):
        """Returns the teacher's logits by split; frees the teacher."""
        if self._logits is None:
            bert, model = self._teacher, self._teacher.model()
            preprocessor = bert.preprocessor(bert.sequence_length or self.sequence_length)
            self._logits = {
                name: cached_logits(self._folder / f"{name}.npz", model, preprocessor.ragged(texts(part)), self._key)
                for name, part in self._examples.items()
            }
            self._teacher = None
        return self._logits

    def _rows(self):
        """Returns the inputs and targets of the student, those without labels last."""
        logits = self._teacher_logits()
        (inputs, labels), targets = self._inner.train[0](), {"teacher_logits": logits["train"]}
        if self._unlabelled is not None:
            more, zeros = self._inner.features(self._examples["unlabelled"])
            inputs = {name: joined([values, more[name]]) for name, values in inputs.items()}
            targets["labelled"] = np.repeat([1.0, 0.0], [len(labels), len(zeros)]).astype("float32")
            targets["teacher_logits"] = np.concatenate([logits["train"], logits["unlabelled"]])
            labels = np.concatenate([labels, zeros])
        return inputs, {**targets, "labels": labels}

    def build(self, bert):
        return self._inner.build(bert)

    def score(self, targets, outputs):
        return self._inner.score(targets["labels"], outputs)

    def save_options(self, logits):
        return self._inner.save_options(logits)

    def export_options(self, bert):
        return self._inner.export_options(bert)

    def conclude(self, dev, test, output):
        findings = self._inner.conclude(dev, test, output)
        labels = self.splits["dev"][0].targets
        scores = self._inner.score(labels, {"logits": self._teacher_logits()["dev"]})
        share = findings.measured[self.metric] / scores[self.metric] if scores[self.metric] > 0 else None
        kept = "" if share is None else f"; the student keeps {share:.1%} of the {self.metric.replace('_', ' ')}"
        text = f"{data_summary.listed(scores)}{kept}"
        note = f"The teacher, {base_name(self._name)}, has on the same rows: {text}."
        self.card["note"] = " ".join([*([self._inner.card["note"]] if "note" in self._inner.card else []), note])
        teacher = {"model": self._name, "scores": scores, "share_kept": share}
        return dataclasses.replace(
            findings,
            results={**findings.results, "teacher": teacher},
            facts={**findings.facts, "scores of the teacher": text},
            messages=[*findings.messages, f"teacher: {text}"],
        )


def check_teacher(bert, name, task):
    """Raises an error if a loaded model cannot teach a `tasks.classification.Task`; messages have its name."""
    kind = "a multi-label classifier" if task.multi_label else "a classifier" if task.labels else "a regression model"
    expected = f"Expected {kind} for {task.title}, such as the output of run_glue --task={task.name}"
    head, several = getattr(bert, "head", "encoder-decoder"), getattr(bert, "multi_label", False)
    if head != "classification" or several != task.multi_label:
        received = "classifier with several labels per text" if several else f"model with the head {head!r}"
        raise ValueError(f"`teacher={name}`: a {received}. {expected}")
    if getattr(bert, "score_activation", "linear") != "linear":
        raise ValueError(f"`teacher={name}`: its scores are sigmoids of the logits that a student learns. {expected}")
    classes = bert.model().output["logits"].shape[-1]
    labels = bert.labels if task.labels and bert.labels else list(task.labels)
    if classes != task.num_classes or list(labels) != list(task.labels):
        received = f"labels {', '.join(labels)}" if bert.labels else f"{classes} output(s) without names"
        wanted = f", with the labels {', '.join(task.labels)} in this order" if task.labels else ""
        raise ValueError(f"`teacher={name}`: {received}. {expected}{wanted}")
    if bert.pair is not None and bert.pair != (task.pair is not None):
        raise ValueError(
            f"`teacher={name}`: it reads {'pairs of texts' if bert.pair else 'single texts'}, the task has "
            f"{'single texts' if bert.pair else 'pairs'}. {expected}"
        )
