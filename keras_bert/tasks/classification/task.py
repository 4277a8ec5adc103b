"""Fine-tuning for classification with one label per text, and for regression: GLUE tasks and users' own tables."""

import dataclasses
import functools
import logging

import numpy as np
import scipy.special

from keras_bert.checks import check_not_negative
from keras_bert.data.document_batches import document_features
from keras_bert.data.token_rows import compact_parts
from keras_bert.files import write_text
from keras_bert.heads.registry import describe, head_named, is_regression
from keras_bert.heads.sentence_classification import SentenceClassification, take_projection, vector_options
from keras_bert.progress import announced
from keras_bert.reports.comparisons import compared
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.rewirings.joined import add_language_model_loss, without_language_model_loss
from keras_bert.tasks import confidence
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task
from keras_bert.tasks.class_names import class_name, some
from keras_bert.tasks.classification import glue, leaderboard
from keras_bert.tasks.classification import summary as label_summary
from keras_bert.tasks.classification.data import ClassificationSettings, RegressionSettings
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    predict,
    predictions_table,
    same_prediction,
    score,
    with_columns,
)
from keras_bert.tasks.classification.rows import NumberRows, TextRows
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.training.losses import Loss, classification_loss, regression_loss

_LOG = logging.getLogger("keras_bert")


class ClassificationTraining(Training):
    """Trains a head on one output for each class, or for a number."""

    can_pack = True

    def __init__(self, task):
        super().__init__(task)
        spec = task.spec
        self.learning_rates, self.batch_size, self.epochs = spec.learning_rates, spec.batch_size, spec.epochs

    def make_loss(self):
        """Returns the `Loss` of the head, or a list with that of the language model."""
        loss = self.head_loss(self.class_weights())
        weight = self.task.language_model_weight
        if not weight:
            return loss
        if not self.task.bert.causal:
            raise ValueError(
                f"{self.task.model}: a language model loss needs a left-to-right model. Received: another one"
            )

        def values(targets, outputs):
            return weight * outputs["language_model_loss"]

        return [loss, Loss("weighted_language_model_loss", values)]

    def class_weights(self):
        """Returns the weights of the classes, numbers in the order of the classes, or `None`."""
        spec, weights = self.task.spec, self.task.class_weight
        check_class_weight(spec, weights)
        if isinstance(weights, dict):
            return [float(weights.get(label, 1)) for label in spec.labels]
        if weights is None:
            return None
        return balanced_weights(self.task.data.train.labels, spec.num_classes)

    def head_loss(self, class_weights):
        """Returns the `Loss` of the head, given the weights of the classes, a list of numbers or `None`."""
        if self.task.spec.labels:
            return classification_loss(class_weights)
        return regression_loss(self.activation)

    def build(self, bert):
        model = super().build(bert)
        if self.task.language_model_weight:
            model = add_language_model_loss(model, bert.pretrainer(next_sentence=False))
        return model

    def new_model(self, bert):
        spec = self.task.spec
        if self.task.head == SentenceClassification.name:
            model = super().new_model(bert)
            take_projection(model, bert)
            return model
        if not bert.has_pair_layers or self.task.head != ClassificationTask.head:
            return super().new_model(bert)
        options = {"multi_label": True} if spec.multi_label else {}
        return bert.classifier(spec.num_classes, pair=spec.pair is not None, **options)

    def check_teacher(self, bert, name):
        if self.task.head == ClassificationTask.head:
            check_teacher(bert, name, self.task.spec)
        else:
            super().check_teacher(bert, name)

    @property
    def activation(self):
        """What makes a logit of a regression model the value that `predict` answers."""
        return self.task.bert.score_activation if self.keeps_head(self.task.bert) else "linear"

    def complete(self, model):
        model = super().complete(model)
        return without_language_model_loss(model) if self.task.language_model_weight else model


class ClassificationReport(Report):
    """Reports scores of classes or of numbers on one or several dev sets."""

    @functools.cached_property
    def metric(self):
        """The score that selects the best run, unless a subclass names another one."""
        return self.task.spec.main_metric

    def class_logits(self, outputs):
        """Returns the logits of the classes; of a regression model the values that `predict` answers."""
        logits = super().class_logits(outputs)
        return scipy.special.expit(logits) if self.task.training.activation == "sigmoid" else logits

    def score(self, targets, outputs):
        return score(self.task.spec, targets, self.class_logits(outputs))

    def summarize(self):
        task, train = self.task, self.task.data.train
        lengths = data_summary.token_counts(task.preprocessor, train.columns, task.splits["train"][0].lengths)
        limit = task.bert.config.max_position_embeddings
        return label_summary.summarize(task.data, lengths, task.sequence_length, limit)

    def data_facts(self):
        data = self.task.data
        train = data.balance()
        if self.task.spec.labels:
            train = f"{len(data.train):,}; {train}"
        dev = ", ".join(f"{data.source or name}: {len(part):,}" for name, part in data.dev.items())
        return {"training examples": train, "dev examples": dev}

    def data_warnings(self):
        found = label_summary.warnings(self.summary)
        if self.task.preprocessor.long_texts is None:
            found += data_summary.cut_rows(self.summary)
        if self.task.training.activation == "sigmoid":
            ends = self.summary.more["range"]
            if ends["lowest"] < 0 or ends["highest"] > 1:
                found.append(
                    "the sigmoid of the model answers from 0 to 1, the labels are from "
                    f"{ends['lowest']:g} to {ends['highest']:g}: scale them"
                )
        return found

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        task, data = self.task.spec, self.task.data
        scores = self._dev_scores(dev)
        facts, tables = compared(self.task, scores)
        results = {"task": task.name, "scores": scores}
        if data.categories:
            results["diagnostics"] = glue.score_diagnostics(data.dev["ax"].labels, dev["ax"], data.categories)
            tables += ["| diagnostics | Matthews |", "|---|---|"]
            tables += [f"| {name} | {100 * value:.1f} |" for name, value in results["diagnostics"].items()]
        sections, errors = self.judge(dev).report()
        messages = self.write_predictions(dev, test, output)
        return Findings(
            measured=scores[task.name],
            sections=sections,
            errors=errors,
            results=results,
            scores=_listed(scores),
            facts=facts,
            tables=tables,
            messages=messages,
            same=same_prediction(task, self.logits_of(task.name, dev)),
        )

    def decisions(self, kept):
        return confidence.Decisions(logits=self.logits_of(self.task.spec.name, kept), targets=self.own.labels)

    def _dev_scores(self, kept):
        """Returns the scores of each dev set; those of other data than the task's own have its metrics."""
        scores = {}
        for name, examples in self.task.data.dev.items():
            if name in glue.TASKS and name != self.task.spec.name:
                scores[name] = score(glue.TASKS[name], examples.labels, self.logits_of(name, kept))
            else:
                scores[name] = self.score(self.task.targets(examples), self.outputs_of(name, kept))
        return scores

    def outputs_of(self, name, kept):
        """Returns the outputs of the model for a dev or test set, of those that are kept."""
        return self.outputs(Split(name, None, None, None), kept)

    def logits_of(self, name, kept):
        """Returns the logits of the classes for a dev or test set."""
        return self.class_logits(self.outputs_of(name, kept))

    @property
    def own(self):
        """The dev examples that select the best run."""
        return self.task.data.dev[self.task.spec.name]

    def judge(self, kept):
        spec = self.task.spec
        logits = self.logits_of(spec.name, kept)
        if spec.labels:
            judged = Judged.of_classes(spec.labels, self.own.labels, logits, **self.dev_rows())
            if not self.task.calibrates:
                return judged
            sure, _ = confidence.judged(logits, self.own.labels, self.temperature(kept))
            return dataclasses.replace(judged, confidence=sure)
        return JudgedNumbers.of_numbers(self.own.labels, logits, **self.dev_rows())

    def dev_rows(self):
        """Returns what a report says of the dev rows; the ids of GLUE are not row numbers."""
        split = self.task.splits["dev"][0]
        place = None if self.task.spec.official else [row + 1 for row in self.own.ids]
        return {"place": place, "length": split.lengths, "texts": self.own.texts}

    def write_predictions(self, dev, test, output):
        """Writes the GLUE submission files, or `predictions.tsv` for a user's table. Returns lines to print."""
        messages, data, spec = [], self.task.data, self.task.spec
        for name, examples in data.test.items():
            logits = self.logits_of(name, test)
            if name in glue.TASKS:
                predictions = predict(spec, logits)
                leaderboard.write_submission(glue.TASKS[name], predictions, data.submissions, examples.ids)
                continue
            if examples.labels is not None:
                scores = self.test_scores(examples, self.outputs_of(name, test), dev)
                messages.append(f"test: {data_summary.listed(scores)}")
            texts = {spec.text: examples.text, spec.pair: examples.pair}
            lines = with_columns(self.predictions(logits, dev), texts)
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")
        return messages

    def test_scores(self, examples, outputs, dev):
        """Returns the scores of the data to predict; `dev` are the kept arrays of dev."""
        return self.score(self.task.targets(examples), outputs)

    def predictions(self, logits, dev):
        """Returns the lines of `predictions.tsv`; `dev` are the kept arrays of dev."""
        found = self.confidence(dev)
        if found is None:
            return predictions_table(logits, self.task.spec.labels)
        return predictions_table(logits / found.temperature, self.task.spec.labels, found.threshold)


class ClassificationTask(Task):
    """Classification or regression of texts or pairs."""

    name, head = "classification", "classification"
    Settings: type = ClassificationSettings
    rows, Training, Report = TextRows(), ClassificationTraining, ClassificationReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        if head_named(self.head).requires_pair and data.task.pair is None:
            origin = data.train_source or data.task.title
            raise ValueError(f"{origin}: the head {self.head!r} takes pairs of texts. Received: only texts")
        self.spec, self.title, self.labels = data.task, data.task.title, list(data.task.labels) or None
        self.class_weight = getattr(settings, "class_weight", None)
        if isinstance(self.class_weight, dict):
            self.class_weight = {class_name(label): weight for label, weight in self.class_weight.items()}
        self.language_model_weight = getattr(settings, "language_model_weight", 0.0)
        if self.calibrates:
            self._check_calibrates()
        _ = self.training.loss  # Raises for settings without a meaning, before rows are tokenized.
        train = self._split("train", data.train)
        self.splits = {
            "train": [train],
            "dev": [self._split(*part, train) for part in data.dev.items()],
            "test": [self._split(*part) for part in data.test.items()],
        }
        self.options = {
            "task": data.task.name,
            "labels": list(data.task.labels),
            "class_weight": self.class_weight,
        }
        if self.language_model_weight:
            self.options["language_model_weight"] = self.language_model_weight

    @classmethod
    def trains(cls, head):
        is_ours = cls.head == ClassificationTask.head
        return head == cls.head or (is_ours and head == SentenceClassification.name)

    @classmethod
    def fits(cls, bert):
        return cls.trains(bert.head) and not bert.multi_label and not _is_regression(bert)

    def head_options(self):
        options = {"num_classes": self.spec.num_classes}
        if type(self).head == ClassificationTask.head:
            options["multi_label"] = self.spec.multi_label
        if self.head == SentenceClassification.name:
            options |= vector_options(self.bert)
        return options

    def _check_calibrates(self):
        """Raises an error if there are no probabilities of classes."""
        if not self.spec.labels:
            name = "calibrate" if self.precision is None else "answer_at_precision"
            raise ValueError(f"`{name}` is for classes, not for numbers. Received: {self.title}")

    def _split(self, name, examples, train=None):
        if train is not None and examples is train.examples:
            return dataclasses.replace(train, name=name)
        return Split(name, examples, *self.features(examples))

    def features(self, examples):
        """Returns model inputs and labels for `Batches`."""
        labels = self.targets(examples)
        with announced(f"tokenizing {len(examples):,} rows", show=len(examples) > 2):  # `evaluate` has 2 of its own.
            if self.preprocessor.reads_windows:
                return document_features(self.preprocessor, texts(examples)), labels
            return compact_parts(self.preprocessor.ragged_parts(texts(examples))), labels

    def targets(self, examples):
        """Returns the labels as an array; zeros if there are none."""
        kind = "int32" if self.spec.labels else "float32"
        return np.zeros(len(examples), kind) if examples.labels is None else np.array(examples.labels, kind)

    def data_settings(self):
        return {"content": self.data.fingerprints(), **self.data.per_part(len)}

    def save_options(self, kept):
        columns = {"text": self.spec.text, "pair": self.spec.pair}
        columns = {name: column for name, column in columns.items() if column is not None}
        options = {"labels": self.labels, "task": self.spec.name, "pair": self.spec.pair is not None}
        options["columns"] = columns
        return options

    def export_options(self, bert):
        own = self.data.dev[self.spec.name]
        example = dict(zip(("text", "pair"), (column[0] for column in own.columns), strict=False))
        options = {"pair": bert.pair, "example": example}
        if self.labels:
            return {"labels": bert.labels, **options}
        if not is_regression(describe(bert.model())):  # A head of a user's, whose numbers may be no such scores.
            return options
        ends = self.report.summary.more["range"]
        return {"score_range": (ends["lowest"], ends["highest"]), **options}


class RegressionTask(ClassificationTask):
    """Regression of texts or pairs."""

    name, Settings, rows = "regression", RegressionSettings, NumberRows()

    @classmethod
    def fits(cls, bert):
        return cls.trains(bert.head) and not bert.multi_label and _is_regression(bert)


def _is_regression(bert):
    logits = bert.model().output.get("logits")
    return logits is not None and logits.shape[-1] == 1


def texts(examples):
    """Returns the texts of `Examples`, or the two texts of pairs, for a `TextPreprocessor`."""
    return examples.text if examples.pair is None else (examples.text, examples.pair)


def _listed(scores):
    """Formats the scores of one or more dev sets in one line."""
    lines = {name: data_summary.listed(values) for name, values in scores.items()}
    return "; ".join(f"{name}: {line}" if len(lines) > 1 else line for name, line in lines.items())


def check_class_weight(task, class_weight):
    """Raises an error if the weights are unknown, or the task has no classes."""
    weights = class_weight if isinstance(class_weight, dict) else {}
    if not task.multi_label and task.labels and (unknown := [name for name in weights if name not in task.labels]):
        raise ValueError(
            f"`class_weight` has no class {unknown[0]!r}. Expected one of: {some(list(map(repr, task.labels)))}"
        )
    if task.multi_label or not task.labels or not weights.keys() <= set(task.labels):
        weights = None
    if not (class_weight is None or weights or (class_weight == "balanced" and task.labels)):
        raise ValueError(
            "`class_weight` must be None, 'balanced', which requires classes, or for one label per text a dict of "
            f"weights by class. Received: class_weight={class_weight!r} for {task.title}"
        )
    for weight in (weights or {}).values():
        check_not_negative("class_weight", weight)


def _card(data):
    """Returns the `Card` of a `Data`; only complete official data is called GLUE."""
    task = data.task
    own = own_data_set(data.source or f"own data for {task.title}", data.typed)
    datasets, dataset = [], own
    if len(data.test.get(task.name, ())) == getattr(task, "test_rows", None):
        datasets = ["nyu-mll/glue"]
        dataset = {"type": "nyu-mll/glue", "name": f"GLUE {task.title}", "config": task.name}
        dataset["split"] = f"validation{task.suffix}"
    single = task.pair is None
    example = '["A text."]' if single else '[("A text.", "Its pair.")]'
    columns = [name for name in data.columns if name != task.label]
    if columns:
        example = f"[{{{', '.join(f'{name!r}: ...' for name in columns)}}}]"
    purpose = "text classification" if task.labels else "text regression"
    return Card(
        pipeline_tag="text-classification",
        purpose="multi-label text classification" if task.multi_label else purpose,
        trained_on=data.train_source or task.title,
        example=example,
        dataset=dataset,
        datasets=datasets,
        arguments='"A text."' if single else '"A text.", "Its pair."',
        hub_metrics={"macro_f1": "f1", "micro_f1": "f1", "pearson": "pearsonr", "spearman": "spearmanr"},
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
