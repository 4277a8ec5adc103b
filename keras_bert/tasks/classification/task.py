"""Fine-tuning for classification with one label per text, and for regression: GLUE tasks and users' own tables."""

import dataclasses

import numpy as np
import scipy.special

from keras_bert.checks import check_not_negative
from keras_bert.data.bucketing import Batches
from keras_bert.data.token_rows import compact_parts, take
from keras_bert.files import write_text
from keras_bert.heads.registry import head_named
from keras_bert.reports.comparisons import compared
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.rewirings.joined import add_language_model_loss, without_language_model_loss
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Findings, Split, Task, own_data_set
from keras_bert.tasks.class_names import class_name, some
from keras_bert.tasks.classification import glue, leaderboard
from keras_bert.tasks.classification import summary as label_summary
from keras_bert.tasks.classification.data import ClassificationSettings, RegressionSettings, assign_folds
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    predict,
    predictions_table,
    same_prediction,
    score,
    with_columns,
)
from keras_bert.tasks.classification.rows import NumberRows, TextRows
from keras_bert.text.answer_settings import THRESHOLD
from keras_bert.training.losses import Loss, classification_loss, regression_loss
from keras_bert.training.progress import announced


class ClassificationTask(Task):
    """Classification or regression of texts or pairs."""

    name, head = "classification", "classification"
    Settings: type = ClassificationSettings
    rows = TextRows()
    can_pack = True
    new_head = False  # Whether a head with the same classes is replaced.

    def __init__(self, data, start, settings):
        super().__init__(data, start, settings)
        if head_named(self.head).requires_pair and data.task.pair is None:
            origin = data.train_source or data.task.title
            raise ValueError(f"{origin}: the head {self.head!r} takes pairs of texts. Received: only texts")
        self.spec = data.task
        self.title, self.metric = data.task.title, data.task.main_metric
        self.learning_rates, self.batch_size = data.task.learning_rates, data.task.batch_size
        self.epochs = data.task.epochs
        self._class_weight = weights = getattr(settings, "class_weight", None)
        if isinstance(weights, dict):
            self._class_weight = {class_name(label): weight for label, weight in weights.items()}
        self._language_model_weight = getattr(settings, "language_model_weight", 0.0)
        self.loss = self._losses()
        train = self._split("train", data.train)
        self.splits = {
            "train": [train],
            # With folds, the training examples are the dev examples.
            "dev": [self._split(*part, train) for part in ({} if data.folds else data.dev).items()],
            "test": [self._split(*part) for part in data.test.items()],
        }
        self.options = {
            "task": data.task.name,
            "labels": list(data.task.labels),
            "class_weight": self._class_weight,
            "folds": data.folds,
            **({"language_model_weight": self._language_model_weight} if self._language_model_weight else {}),
        }
        self.card = _card(data)

    @classmethod
    def fits(cls, bert):
        return bert.head == cls.head and not bert.multi_label and not _is_regression(bert)

    def _split(self, name, examples, train=None):
        if train is not None and examples is train.examples:
            return dataclasses.replace(train, name=name)
        return Split(name, examples, *self.features(examples))

    def summarize(self):
        train, limit = self.data.train, self.bert.config.max_position_embeddings
        lengths = data_summary.token_counts(self.preprocessor, train.columns, self.splits["train"][0].lengths)
        return label_summary.summarize(self.data, lengths, self.sequence_length, limit)

    def data_settings(self):
        return {"content": self.data.fingerprints(), **self.data.per_part(len)}

    def data_facts(self):
        data = self.data
        dev = ", ".join(f"{data.source or name}: {len(part):,}" for name, part in data.dev.items())
        return {
            "training examples": f"{len(data.train):,}; {data.balance()}" if self.spec.labels else data.balance(),
            "dev examples": f"{data.folds}-fold cross-validation of the training examples" if data.folds else dev,
        }

    def fold_rows(self, fold, seed):
        """Returns the rows of a fold."""
        return np.flatnonzero(assign_folds(self.data.train, self.data.folds, seed) == fold)

    def fold(self, fold, seed):
        """Returns the function that makes the training examples of a fold, and its `Batches` to evaluate on."""
        dev = self.fold_rows(fold, seed)
        train = np.setdiff1d(np.arange(len(self.data.train)), dev)
        return lambda: self._rows(train), Batches(*self._rows(dev), batch_size=64, shuffle=False)

    def fold_scores(self, rows, logits):
        """Returns scores of the rows of a fold that depend on the logits of all rows; by default none do."""
        return {}

    def _rows(self, rows):
        inputs, labels = self.train[0]()
        return {name: take(values, rows) for name, values in inputs.items()}, labels[rows]

    def features(self, examples):
        """Returns model inputs and labels for `Batches`."""
        labels = self.targets(examples)
        with announced(f"tokenizing {len(examples):,} rows", show=len(examples) > 2):  # `evaluate` has 2 of its own.
            return compact_parts(self.preprocessor.ragged_parts(texts(examples))), labels

    def targets(self, examples):
        """Returns the labels as an array; zeros if there are none."""
        kind = "int32" if self.spec.labels else "float32"
        return np.zeros(len(examples), kind) if examples.labels is None else np.array(examples.labels, kind)

    def _losses(self):
        """Returns the `Loss`, or a list with that of the language model."""
        loss, weight = self.make_loss(self._class_weight), self._language_model_weight
        if weight and not self.bert.causal:
            raise ValueError(f"{self.model}: a language model loss needs a left-to-right model. Received: another one")
        if not weight:
            return loss

        def values(targets, outputs):
            return weight * outputs["language_model_loss"]

        return [loss, Loss("weighted_language_model_loss", values)]

    def make_loss(self, class_weight):
        """Returns the `Loss` of the head, given the weights of the classes."""
        task, labels = self.spec, self.data.train.labels
        check_class_weight(task, class_weight)
        if not task.labels:
            return regression_loss(self._activation)
        if isinstance(class_weight, dict):
            return classification_loss([float(class_weight.get(label, 1)) for label in task.labels])
        return classification_loss(class_weight and balanced_weights(labels, task.num_classes))

    def build(self, bert):
        model = self._classifier(bert)
        if self._language_model_weight:
            model = add_language_model_loss(model, bert.pretrainer(next_sentence=False))
        return model

    def _classifier(self, bert):
        """Returns the model with a new head, or with its own if that has the same classes."""
        if self._keeps_head(bert):
            return bert.model()
        count, several = self.spec.num_classes, self.spec.multi_label
        own = self.head != ClassificationTask.head
        if bert.has_pair_layers and not own:  # No BERT.
            return bert.classifier(count, pair=self.spec.pair is not None, **({"multi_label": True} if several else {}))
        return head_named(self.head).build(bert.encoder, count, **({} if own else {"multi_label": several}))

    def _keeps_head(self, bert):
        same = (bert.labels, bert.multi_label) == (list(self.spec.labels) or None, self.spec.multi_label)
        return same and bert.head == self.head and not self.new_head

    @property
    def _activation(self):
        """What makes a logit of a regression model the value that `predict` answers."""
        return self.bert.score_activation if self._keeps_head(self.bert) else "linear"

    def answers(self, outputs):
        """Returns the logits of the outputs of the model; of a regression model the values that `predict` answers."""
        return scipy.special.expit(outputs["logits"]) if self._activation == "sigmoid" else outputs["logits"]

    def logits(self, split, predict):
        return self.answers(predict(split.batches))

    def data_warnings(self):
        ends = self.summary["range"] if self._activation == "sigmoid" else {"lowest": 0, "highest": 1}
        outside = ends["lowest"] < 0 or ends["highest"] > 1
        text = "the sigmoid of the model answers from 0 to 1, the labels are from {lowest:g} to {highest:g}: scale them"
        return [*label_summary.warnings(self.summary), *([text.format(**ends)] if outside else [])]

    def complete(self, model):
        return without_language_model_loss(model) if self._language_model_weight else model

    def score(self, targets, outputs):
        return score(self.spec, targets, self.answers(outputs))

    def save_options(self, logits):
        labels = list(self.spec.labels) or None
        columns = {"text": self.spec.text, "pair": self.spec.pair}
        columns = {name: column for name, column in columns.items() if column is not None}
        return {"labels": labels, "task": self.spec.name, "pair": self.spec.pair is not None, "columns": columns}

    def export_options(self, bert):
        example = dict(zip(("text", "pair"), (column[0] for column in self._own.columns), strict=False))
        options = {"pair": bert.pair, "example": example}
        if self.spec.labels:
            return {"labels": bert.labels, **options}
        ends = self.summary["range"]
        return {"score_range": (ends["lowest"], ends["highest"]), **options}

    def conclude(self, dev, test, output):
        task, data = self.spec, self.data
        scores = {name: score(glue.TASKS.get(name, task), part.labels, dev[name]) for name, part in data.dev.items()}
        results, (facts, tables) = {"task": task.name, "scores": scores}, compared(self, scores)
        if data.categories:
            found = glue.score_diagnostics(data.dev["ax"].labels, dev["ax"], data.categories)
            results["diagnostics"] = found
            tables += ["| diagnostics | Matthews |", "|---|---|"]
            tables += [f"| {name} | {100 * value:.1f} |" for name, value in found.items()]
        return Findings(
            scores[task.name],
            *self.judge(dev).report(),
            results,
            _listed(scores),
            facts,
            tables,
            self._write_predictions(test, output),
            same_prediction(task, dev[task.name]),
        )

    @property
    def _own(self):
        """The dev examples that select the best run."""
        return self.data.dev[self.spec.name]

    def judge(self, logits):
        labels, targets, own = self.spec.labels, self._own.labels, logits[self.spec.name]
        if labels:
            return Judged.of_classes(labels, targets, own, **self._dev_rows)
        return JudgedNumbers.of_numbers(targets, own, **self._dev_rows)

    @property
    def _dev_rows(self):
        """What a report says of the dev rows; the ids of GLUE are not row numbers."""
        own, split = self._own, (self.splits["dev"] or self.splits["train"])[0]
        place = None if self.spec.official else [row + 1 for row in own.ids]
        return {"place": place, "length": split.lengths, "texts": own.texts}

    def _write_predictions(self, logits, output, thresholds=THRESHOLD):
        """Writes the GLUE submission files, or `predictions.tsv` for a user's table. Returns lines to print."""
        messages, data = [], self.data
        for name, examples in data.test.items():
            if name in glue.TASKS:
                predictions = predict(self.spec, logits[name])
                leaderboard.write_submission(glue.TASKS[name], predictions, data.submissions, examples.ids)
                continue
            if examples.labels is not None:
                scores = score(self.spec, examples.labels, logits[name], thresholds)
                messages.append(f"test: {data_summary.listed(scores)}")
            texts = {self.spec.text: examples.text, self.spec.pair: examples.pair}
            lines = with_columns(self._predictions(logits[name], thresholds), texts)
            write_text(output / "predictions.tsv", "\n".join(lines) + "\n")
        return messages

    def _predictions(self, logits, thresholds):
        """Returns the lines of `predictions.tsv`."""
        return predictions_table(logits, self.spec.labels)


class RegressionTask(ClassificationTask):
    """Regression of texts or pairs."""

    name, Settings, rows = "regression", RegressionSettings, NumberRows()

    @classmethod
    def fits(cls, bert):
        return bert.head == cls.head and not bert.multi_label and _is_regression(bert)


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
    """Returns the metadata for the model card; only complete official data is called GLUE."""
    task = data.task
    card = {"datasets": [], "dataset": own_data_set(data.source or f"own data for {task.title}", data.typed)}
    if len(data.test.get(task.name, ())) == getattr(task, "test_rows", None):
        card["datasets"] = ["nyu-mll/glue"]
        card["dataset"] = {"type": "nyu-mll/glue", "name": f"GLUE {task.title}", "config": task.name}
        card["dataset"]["split"] = f"validation{task.suffix}"
    single = task.pair is None
    example = '["A text."]' if single else '[("A text.", "Its pair.")]'
    if columns := [name for name in data.columns if name != "label"]:
        example = f"[{{{', '.join(f'{name!r}: ...' for name in columns)}}}]"
    arguments = '"A text."' if single else '"A text.", "Its pair."'
    purpose = "text classification" if task.labels else "text regression"
    card["purpose"] = "multi-label text classification" if task.multi_label else purpose
    card["trained_on"] = data.train_source or task.title
    return {
        "pipeline_tag": "text-classification",
        "hub_metrics": {"macro_f1": "f1", "micro_f1": "f1", "pearson": "pearsonr", "spearman": "spearmanr"},
        "example": example,
        "arguments": arguments,
        **card,
    }
