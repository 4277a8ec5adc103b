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
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    predict,
    predictions_table,
    same_prediction,
    score,
    with_columns,
)
from keras_bert.tasks.classification.rows import NumberRows, TextRows
from keras_bert.tasks.classification.settings import ClassificationSettings, RegressionSettings
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.training.losses import Loss, classification_loss, regression_loss

_LOG = logging.getLogger("keras_bert")
# What the hub calls scores, where its names differ.
_HUB_METRICS = {
    "macro_f1": "f1",
    "micro_f1": "f1",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


class ClassificationTraining(Training):
    """Trains a head on one output for each class, or for a number."""

    can_pack = True

    def __init__(self, task):
        super().__init__(task)
        spec = task.spec
        self.learning_rates = spec.learning_rates
        self.batch_size = spec.batch_size
        self.epochs = spec.epochs

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
        spec = self.task.spec
        weights = self.task.class_weight
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
        is_pair = spec.pair is not None
        if spec.multi_label:
            return bert.classifier(spec.num_classes, pair=is_pair, multi_label=True)
        # Not every model with layers for pairs has an option `multi_label`.
        return bert.classifier(spec.num_classes, pair=is_pair)

    def check_teacher(self, bert, name):
        if self.task.head == ClassificationTask.head:
            check_teacher(bert, name, self.task.spec)
        else:
            super().check_teacher(bert, name)

    @property
    def activation(self):
        """What makes a logit of a regression model the value that `predict` answers."""
        if self.keeps_head(self.task.bert):
            return self.task.bert.score_activation
        return "linear"

    def complete(self, model):
        completed = super().complete(model)
        if self.task.language_model_weight:
            return without_language_model_loss(completed)
        return completed


class ClassificationReport(Report):
    """Reports scores of classes or of numbers on one or several dev sets."""

    @functools.cached_property
    def metric(self):
        """The score that selects the best run, unless a subclass names another one."""
        return self.task.spec.main_metric

    def class_logits(self, outputs):
        """Returns the logits of the classes; of a regression model the values that `predict` answers."""
        logits = super().class_logits(outputs)
        if self.task.training.activation == "sigmoid":
            return scipy.special.expit(logits)
        return logits

    def score(self, targets, outputs):
        return score(self.task.spec, targets, self.class_logits(outputs))

    def summarize(self):
        task = self.task
        columns = task.data.train.columns
        truncated_lengths = task.splits["train"][0].lengths
        lengths = data_summary.token_counts(task.preprocessor, columns, truncated_lengths)
        limit = task.bert.config.max_position_embeddings
        return label_summary.summarize(task.data, lengths, task.sequence_length, limit)

    def data_facts(self):
        data = self.task.data
        train = data.balance()
        if self.task.spec.labels:
            train = f"{len(data.train):,}; {train}"
        dev = []
        for name, examples in data.dev.items():
            dev.append(f"{data.source or name}: {len(examples):,}")
        return {"training examples": train, "dev examples": ", ".join(dev)}

    def data_warnings(self):
        sentences = label_summary.warnings(self.summary)
        if self.task.preprocessor.long_texts is None:
            sentences += data_summary.cut_rows(self.summary)
        if self.task.training.activation == "sigmoid":
            ends = self.summary.more["range"]
            if ends["lowest"] < 0 or ends["highest"] > 1:
                sentences.append(
                    "the sigmoid of the model answers from 0 to 1, the labels are from "
                    f"{ends['lowest']:g} to {ends['highest']:g}: scale them"
                )
        return sentences

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        spec = self.task.spec
        data = self.task.data
        scores = self._dev_scores(dev)
        facts, tables = compared(self.task, scores)
        results = {"task": spec.name, "scores": scores}
        if data.categories:
            diagnostics = glue.score_diagnostics(data.dev["ax"].labels, dev["ax"], data.categories)
            results["diagnostics"] = diagnostics
            tables += _diagnostics_table(diagnostics)
        sections, errors = self.judge(dev).report()
        messages = self.write_predictions(dev, test, output)
        return Findings(
            measured=scores[spec.name],
            sections=sections,
            errors=errors,
            results=results,
            scores=_scores_line(scores),
            facts=facts,
            tables=tables,
            messages=messages,
            same=same_prediction(spec, self.logits_of(spec.name, dev)),
        )

    def decisions(self, kept):
        logits = self.logits_of(self.task.spec.name, kept)
        return confidence.Decisions(logits=logits, targets=self.own.labels)

    def _dev_scores(self, kept):
        """Returns the scores of each dev set; those of other data than the task's own have its metrics."""
        scores = {}
        for name, examples in self.task.data.dev.items():
            if name in glue.TASKS and name != self.task.spec.name:
                scores[name] = score(glue.TASKS[name], examples.labels, self.logits_of(name, kept))
            else:
                scores[name] = self.score(self.task.targets(examples), self.outputs_of(name, kept))
        return scores

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
        if not spec.labels:
            return JudgedNumbers.of_numbers(self.own.labels, logits, **self.dev_rows())
        judged = Judged.of_classes(spec.labels, self.own.labels, logits, **self.dev_rows())
        if not self.task.calibrates:
            return judged
        sure, _ = confidence.judged(logits, self.own.labels, self.temperature(kept))
        return dataclasses.replace(judged, confidence=sure)

    def dev_rows(self):
        """Returns what a report says of the dev rows; the ids of GLUE are not row numbers."""
        split = self.task.splits["dev"][0]
        place = None if self.task.spec.official else [row + 1 for row in self.own.ids]
        return {"place": place, "length": split.lengths, "texts": self.own.texts}

    def write_predictions(self, dev, test, output):
        """Writes the GLUE submission files, or `predictions.tsv` for a user's table. Returns lines to print."""
        messages = []
        for name, examples in self.task.data.test.items():
            if name in glue.TASKS:
                self._write_submission(name, examples, test)
                continue
            if examples.labels is not None:
                scores = self.test_scores(examples, self.outputs_of(name, test), dev)
                messages.append(f"test: {data_summary.listed(scores)}")
            lines = self._prediction_lines(name, examples, dev, test)
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")
        return messages

    def _write_submission(self, name, examples, test):
        """Writes the file of one of GLUE's test sets for the server."""
        predictions = predict(self.task.spec, self.logits_of(name, test))
        folder = self.task.data.submissions
        leaderboard.write_submission(glue.TASKS[name], predictions, folder, examples.ids)

    def _prediction_lines(self, name, examples, dev, test):
        """Returns the lines of `predictions.tsv` with the texts of a test set."""
        spec = self.task.spec
        lines = self.predictions(self.logits_of(name, test), dev)
        return with_columns(lines, {spec.text: examples.text, spec.pair: examples.pair})

    def test_scores(self, examples, outputs, dev):
        """Returns the scores of the data to predict; `dev` are the kept arrays of dev."""
        return self.score(self.task.targets(examples), outputs)

    def predictions(self, logits, dev):
        """Returns the lines of `predictions.tsv`; `dev` are the kept arrays of dev."""
        labels = self.task.spec.labels
        fitted = self.confidence(dev)
        if fitted is None:
            return predictions_table(logits, labels)
        return predictions_table(logits / fitted.temperature, labels, fitted.threshold)


def _diagnostics_table(scores):
    """Returns the lines of a Markdown table of the scores of GLUE's diagnostics, by category."""
    lines = ["| diagnostics | Matthews |", "|---|---|"]
    for name, value in scores.items():
        lines.append(f"| {name} | {100 * value:.1f} |")
    return lines


class ClassificationTask(Task):
    """Classification or regression of texts or pairs."""

    name = "classification"
    head = "classification"
    Settings: type = ClassificationSettings
    rows = TextRows()
    Training = ClassificationTraining
    Report = ClassificationReport

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        if head_named(self.head).requires_pair and data.task.pair is None:
            origin = data.train_source or data.task.title
            raise ValueError(f"{origin}: the head {self.head!r} takes pairs of texts. Received: only texts")
        self.spec = data.task
        self.title = data.task.title
        self.labels = list(data.task.labels) or None
        self.class_weight = _named_weights(getattr(settings, "class_weight", None))
        self.language_model_weight = getattr(settings, "language_model_weight", 0.0)
        if self.calibrates:
            self._check_calibrates()
        _ = self.training.loss  # Raises for settings without a meaning, before rows are tokenized.
        self.splits = self._make_splits()
        self.options = {
            "task": data.task.name,
            "labels": list(data.task.labels),
            "class_weight": self.class_weight,
        }
        if self.language_model_weight:
            self.options["language_model_weight"] = self.language_model_weight

    def _make_splits(self):
        """Returns the lists of `Split`s; rows of dev that are those to train on are tokenized once."""
        data = self.data
        train = self._make_split("train", data.train)
        dev = []
        for name, examples in data.dev.items():
            if examples is data.train:
                dev.append(dataclasses.replace(train, name=name))
            else:
                dev.append(self._make_split(name, examples))
        test = [self._make_split(name, examples) for name, examples in data.test.items()]
        return {"train": [train], "dev": dev, "test": test}

    def _make_split(self, name, examples):
        inputs, targets = self.features(examples)
        return Split(name, examples, inputs, targets)

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

    def features(self, examples):
        """Returns model inputs and labels for `Batches`."""
        targets = self.targets(examples)
        columns = texts(examples)
        is_shown = len(examples) > 2  # `evaluate` has 2 of its own.
        with announced(f"tokenizing {len(examples):,} rows", show=is_shown):
            if self.preprocessor.reads_windows:
                inputs = document_features(self.preprocessor, columns)
            else:
                inputs = compact_parts(self.preprocessor.ragged_parts(columns))
        return inputs, targets

    def targets(self, examples):
        """Returns the labels as an array; zeros if there are none."""
        dtype = "int32" if self.spec.labels else "float32"
        if examples.labels is None:
            return np.zeros(len(examples), dtype)
        return np.array(examples.labels, dtype)

    def data_settings(self):
        return {"content": self.data.fingerprints(), **self.data.per_part(len)}

    def save_options(self, kept):
        is_pair = self.spec.pair is not None
        columns = {"text": self.spec.text}
        if is_pair:
            columns["pair"] = self.spec.pair
        return {"labels": self.labels, "task": self.spec.name, "pair": is_pair, "columns": columns}

    def export_options(self, bert):
        own = self.data.dev[self.spec.name]
        example = {name: column[0] for name, column in own.texts.items()}
        options = {"pair": bert.pair, "example": example}
        if self.labels:
            return {"labels": bert.labels, **options}
        # The numbers of a user's own head may be no such scores.
        if not is_regression(describe(bert.model())):
            return options
        ends = self.report.summary.more["range"]
        return {"score_range": (ends["lowest"], ends["highest"]), **options}


class RegressionTask(ClassificationTask):
    """Regression of texts or pairs."""

    name = "regression"
    Settings = RegressionSettings
    rows = NumberRows()

    @classmethod
    def fits(cls, bert):
        return cls.trains(bert.head) and not bert.multi_label and _is_regression(bert)


def _is_regression(bert):
    logits = bert.model().output.get("logits")
    return logits is not None and logits.shape[-1] == 1


def texts(examples):
    """Returns the texts of `TextExamples`, or the two texts of pairs, for a `TextPreprocessor`."""
    if examples.pair is None:
        return examples.text
    return examples.text, examples.pair


def _scores_line(scores):
    """Formats the scores of one or more dev sets in one line."""
    texts_by_set = {name: data_summary.listed(values) for name, values in scores.items()}
    if len(texts_by_set) == 1:
        return texts_by_set.popitem()[1]
    return "; ".join(f"{name}: {text}" for name, text in texts_by_set.items())


def _named_weights(class_weight):
    """Returns the setting `class_weight` with the names of classes instead of labels as users write them."""
    if isinstance(class_weight, dict):
        return {class_name(label): weight for label, weight in class_weight.items()}
    return class_weight


def check_class_weight(task, class_weight):
    """Raises an error if the weights are unknown, or the task has no classes."""
    if class_weight is None or (class_weight == "balanced" and task.labels):
        return
    has_one_class = task.labels and not task.multi_label
    if not (isinstance(class_weight, dict) and class_weight and has_one_class):
        raise ValueError(
            "`class_weight` must be None, 'balanced', which requires classes, or for one label per text a dict of "
            f"weights by class. Received: class_weight={class_weight!r} for {task.title}"
        )
    for name in class_weight:
        if name not in task.labels:
            known = some(list(map(repr, task.labels)))
            raise ValueError(f"`class_weight` has no class {name!r}. Expected one of: {known}")
    for weight in class_weight.values():
        check_not_negative("class_weight", weight)


def _card(data):
    """Returns the `Card` of a `TextData`; only complete official data is called GLUE."""
    task = data.task
    purpose = "text classification" if task.labels else "text regression"
    if task.multi_label:
        purpose = "multi-label text classification"
    datasets = []
    dataset = own_data_set(data.source or f"own data for {task.title}", data.typed)
    if len(data.test.get(task.name, ())) == getattr(task, "test_rows", None):
        datasets = ["nyu-mll/glue"]
        dataset = {
            "type": "nyu-mll/glue",
            "name": f"GLUE {task.title}",
            "config": task.name,
            "split": f"validation{task.suffix}",
        }
    return Card(
        pipeline_tag="text-classification",
        purpose=purpose,
        trained_on=data.train_source or task.title,
        example=_example_code(data),
        dataset=dataset,
        datasets=datasets,
        arguments='"A text."' if task.pair is None else '"A text.", "Its pair."',
        hub_metrics=_HUB_METRICS,
    )


def _example_code(data):
    """Returns Python code, texts to predict as the model card shows them."""
    columns = [name for name in data.columns if name != data.task.label]
    if columns:
        fields = ", ".join(f"{name!r}: ..." for name in columns)
        return f"[{{{fields}}}]"
    if data.task.pair is None:
        return '["A text."]'
    return '[("A text.", "Its pair.")]'


def check_teacher(bert, name, task):
    """Raises an error if a loaded model cannot teach a task, a `TaskSpec`; messages have its name."""
    expected = f"Expected {_model_of(task)} for {task.title}, such as the output of run_glue --task={task.name}"
    head = getattr(bert, "head", "encoder-decoder")
    has_label_sets = getattr(bert, "multi_label", False)
    if head != "classification" or has_label_sets != task.multi_label:
        received = f"model with the head {head!r}"
        if has_label_sets:
            received = "classifier with several labels per text"
        raise ValueError(f"`teacher={name}`: a {received}. {expected}")
    if getattr(bert, "score_activation", "linear") != "linear":
        raise ValueError(f"`teacher={name}`: its scores are sigmoids of the logits that a student learns. {expected}")
    _check_classes_of_teacher(bert, name, task, expected)
    if bert.pair is not None and bert.pair != (task.pair is not None):
        reads = "it reads single texts, the task has pairs"
        if bert.pair:
            reads = "it reads pairs of texts, the task has single texts"
        raise ValueError(f"`teacher={name}`: {reads}. {expected}")


def _model_of(task):
    """Returns what messages call a model of a task."""
    if task.multi_label:
        return "a multi-label classifier"
    return "a classifier" if task.labels else "a regression model"


def _check_classes_of_teacher(bert, name, task, expected):
    """Raises an error if the outputs of a teacher are not those of the task."""
    num_outputs = bert.model().output["logits"].shape[-1]
    labels = list(task.labels)
    if task.labels and bert.labels:
        labels = list(bert.labels)
    if num_outputs == task.num_classes and labels == list(task.labels):
        return
    received = f"{num_outputs} output(s) without names"
    if bert.labels:
        received = f"labels {', '.join(labels)}"
    wanted = f", with the labels {', '.join(task.labels)} in this order" if task.labels else ""
    raise ValueError(f"`teacher={name}`: {received}. {expected}{wanted}")
