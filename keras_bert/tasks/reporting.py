"""What a task reports: scores, what is known of its data, judged predictions, and the facts of the model card."""

import abc
import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from keras_bert.heads.confidence import Confidence
from keras_bert.heads.registry import head_named
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.reports.label_checks import JudgedLabel, ranked
from keras_bert.tasks import confidence
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.logits import mean_logits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What the model card of a task says, besides scores and settings."""

    # Of the hub, such as "text-classification".
    pipeline_tag: str
    # These two are for the first sentence.
    purpose: str
    trained_on: str
    # Python code, the texts to predict.
    example: str
    # Metadata of the hub: `type`, `name`, `config`, `split`.
    dataset: dict
    # Names of data sets on the hub.
    datasets: list = dataclasses.field(default_factory=list)
    # Python code, the arguments of the tokenizer.
    arguments: str = '"A text."'
    # The hub's names of scores that differ.
    hub_metrics: dict = dataclasses.field(default_factory=dict)
    # Whether the hub has these scores in percent.
    hub_percent: bool = False
    # Lines of Python code for the outputs of transformers.
    imports: str = ""
    outputs: str = ""
    # A sentence on the scores.
    note: str | None = None

    def with_note(self, note):
        """Returns the card with one more sentence on the scores."""
        return dataclasses.replace(self, note=_joined_notes(self.note, note))


def _joined_notes(note, more):
    """Returns notes on scores, each a sentence or `None`, as one."""
    if note and more:
        return f"{note} {more}"
    return note or more


def own_data_set(name, typed=False, table="csv"):
    """Returns the metadata of a user's data for the model card; `table` is the kind of data that are not `typed`."""
    return {"type": "json" if typed else table, "name": name}


@dataclasses.dataclass(frozen=True)
class Findings:
    """A task's results for the predictions of the best runs."""

    # The dev scores that are compared with the majority baseline.
    measured: dict
    # HTML for the end of `report.html`.
    sections: list
    # Rows of `errors.tsv`, the header first.
    errors: list
    # The task's entries in `results.json`. Defaults to the scores.
    results: dict | None = None
    # In one line. Defaults to `measured` in percent.
    scores: str | None = None
    # For the head of the report.
    facts: dict = dataclasses.field(default_factory=dict)
    # Markdown for the end of `results.md`.
    tables: list = dataclasses.field(default_factory=list)
    # Lines to print.
    messages: list = dataclasses.field(default_factory=list)
    # The prediction for all rows of dev; `None` if the predictions differ.
    same: str | None = None
    # Of the data to predict, if it has labels.
    test_scores: dict | None = None
    # One more sentence of the model card on the scores.
    note: str | None = None

    @property
    def scores_line(self):
        """The dev scores in one line."""
        return data_summary.listed(self.measured) if self.scores is None else self.scores

    @property
    def entries(self):
        """The task's entries in `results.json`."""
        entries = dict(self.results or {"scores": self.measured})
        if self.test_scores:
            entries["test_scores"] = self.test_scores
        return entries

    def with_more(self, *, results=None, facts=None, messages=(), sections=(), note=None):
        """Returns the findings with more entries of `results.json`, facts, lines to print, sections and a sentence."""
        return dataclasses.replace(
            self,
            results=(self.results or {"scores": self.measured}) | (results or {}),
            facts=self.facts | (facts or {}),
            messages=[*self.messages, *messages],
            sections=[*self.sections, *sections],
            note=_joined_notes(self.note, note),
        )

    @property
    def all_facts(self):
        """The entries for the head of the report."""
        if not self.test_scores:
            return self.facts
        return {"scores on test": data_summary.listed(self.test_scores), **self.facts}

    @property
    def lines(self):
        """The lines to print."""
        if not self.test_scores:
            return self.messages
        return [f"test: {data_summary.listed(self.test_scores)}", *self.messages]


class _FittedConfidence(NamedTuple):
    """The `Decisions` for dev and the `Confidence` that is fitted to them."""

    decisions: confidence.Decisions
    confidence: Confidence


class Report(abc.ABC):
    """What a task reports: the last of its three parts. A subclass states what differs.

    `score` is the one source of scores: the lines of the epochs, the best epoch, `evaluate`, folds, grids, results, the
    report and the model card show what it returns.

    Attributes:
        task: the `Task`, with its data, settings, splits and the model that runs start from.
        metric: name of the score that selects the best run.
        predictions_file: string, the file with the predictions of the data to predict.
        can_combine: bool, whether several runs can answer together, see `combine`. Defaults to `True`.
        score_names: list of the names of the scores, if a rehearsal of a user's task has found them, or `None`.

    Example:
        class PairReport(Report):
            metric = "pairs_right"

            def score(self, targets, outputs):
                return {"pairs_right": float(np.mean((outputs["logits"][:, 0] > 0) == targets))}
    """

    metric: str
    predictions_file = "predictions.tsv"
    can_combine = True
    score_names: list | None = None
    _fitted: _FittedConfidence | None = None  # What `confidence` returned last.

    def __init__(self, task):
        self.task = task

    def take_score_names(self, names):
        """Takes the names of the scores, before `summary` is made: the baselines have no others."""
        self.score_names = names

    @abc.abstractmethod
    def score(self, targets, outputs):
        """Returns the scores of dev, a dict of numbers, the `metric` among them; arrays have a row for each row."""

    # The data.

    def summarize(self):
        """Returns the `Summary` of the data."""
        return data_summary.of_splits(self.task.splits, self.task.files)

    @functools.cached_property
    def summary(self):
        """What `summarize` returns; rows that are trained on and evaluated on are not told to be in both."""
        summary = self.summarize()
        if self.score_names is not None:
            summary = data_summary.of_scores(summary, self.score_names)
        if self.task.held_out:
            return summary
        return dataclasses.replace(summary, overlap=dict.fromkeys(summary.overlap, 0))

    @functools.cached_property
    def facts(self):
        """Entries about the data for the head of the report: text by title."""
        facts = dict(self.start_facts())
        facts.update(self.data_facts())
        facts.update(data_summary.facts(self.summary, self.task.reads_windows))
        facts.update(self.problems())
        if self.task.held_out:
            return facts
        return {title: text for title, text in facts.items() if not title.startswith("dev ")}

    @functools.cached_property
    def warnings(self):
        """Sentences about what is probably a mistake in the data."""
        return [*self.data_warnings(), *data_summary.warnings(self.summary)]

    def start_facts(self):
        """Returns the entries of `facts` about the model that runs start from."""
        return {"start": start_text(self.task.model, self.task.bert)}

    def data_facts(self):
        """Returns the entries of `facts` that describe the rows."""
        return {}

    def data_warnings(self):
        """Returns the sentences of `warnings` that other tasks do not have."""
        return []

    def problems(self):
        """Returns the entries of `facts` about rows that the model cannot represent."""
        return {}

    @functools.cached_property
    def card(self):
        """The `Card` of the task."""
        return self.make_card()

    def make_card(self):
        """Returns the `Card` of the task."""
        origin = self.task.files.get("train", self.task.name)
        return Card(
            pipeline_tag="text-classification",
            purpose=self.task.name.replace("_", " "),
            trained_on=origin,
            example='["A text."]',
            dataset=own_data_set(self.task.files.get("dev", origin)),
        )

    # The predictions.

    def kept(self, split, outputs):
        """Returns the outputs of the model for a `Split` as the arrays that a run keeps, by name.

        The output of the classes has the name of the split, others are added to it.
        """
        main = head_named(self.task.head).classes
        kept = {}
        for name, values in outputs.items():
            key = split.name if name == main else f"{split.name}.{name}"
            kept[key] = values
        return kept

    def outputs(self, split, kept):
        """Returns the outputs of the model for a `Split` among kept arrays, see `kept`."""
        return self.outputs_of(split.name, kept)

    def outputs_of(self, split_name, kept):
        """Returns the outputs of the model for the `Split` of a name among kept arrays."""
        outputs = {}
        for name, values in kept.items():
            if name == split_name:
                outputs[head_named(self.task.head).classes] = values
            elif name.startswith(f"{split_name}."):
                outputs[name.removeprefix(f"{split_name}.")] = values
        return outputs

    def dev_logits(self, predict):
        """Returns what a run keeps of dev, a dict of arrays; `predict` is a function from `Batches` to outputs."""
        return self._kept_of(self.task.splits["dev"], predict)

    def test_logits(self, predict):
        """Returns what a run keeps of the data to predict, like `dev_logits`."""
        return self._kept_of(self.task.splits["test"], predict)

    def _kept_of(self, splits, predict):
        """Returns what a run keeps of several splits, see `kept`."""
        kept = {}
        for split in splits:
            kept |= self.kept(split, predict(split.batches))
        return kept

    def fold_scores(self, rows, kept):
        """Returns scores of the rows of a fold that depend on the outputs for all rows; by default none do."""
        return {}

    def entries(self):
        """Returns how many entries each row of dev has in kept arrays: by default one, as with a row of logits."""
        return [1] * len(self.task.splits["dev"][0].examples)

    def of_fold(self, kept, task):
        """Returns what the run of a fold keeps, whose `Task` has fewer rows, as this task would keep it."""
        return kept

    def combine(self, logits):
        """Returns one array of those that several runs keep, a list."""
        return mean_logits(logits)

    def class_logits(self, outputs):
        """Returns the logits of the classes, `(rows, classes)`, or of a number, `(rows, 1)`."""
        return outputs[head_named(self.task.head).classes]

    # A confidence that can be trusted.

    def decisions(self, kept):
        """Returns the `Decisions` for dev, to which a confidence is fitted, given the kept arrays."""
        split = self.task.splits["dev"][0]
        logits = self.class_logits(self.outputs(split, kept))
        return confidence.Decisions(logits=logits, targets=np.asarray(split.targets))

    def confidence(self, kept):
        """Returns the `Confidence` for the kept arrays of dev, or `None` if the settings ask for none.

        The same probabilities are fitted once: predictions, judged rows, the saved model and the report ask for it.
        """
        if not self.task.calibrates:
            return None
        decisions = self.decisions(kept)
        if self._fitted is None or not decisions.equal(self._fitted.decisions):
            self._fitted = _FittedConfidence(decisions, decisions.fitted(self.task.precision))
        return self._fitted.confidence

    def temperature(self, kept):
        """Returns the divisor of logits, 1 if the settings ask for none, given the kept arrays of dev."""
        fitted = self.confidence(kept)
        return 1.0 if fitted is None else fitted.temperature

    @property
    def place(self):
        """The rows that something is chosen on."""
        return "dev" if self.task.held_out else "the predictions of all folds"

    def with_confidence(self, findings, kept):
        """Returns the `Findings` with what they tell of the `Confidence`, if there is one."""
        fitted = self.confidence(kept)
        if fitted is None:
            return findings
        described = confidence.described(fitted)
        return findings.with_more(
            results={"confidence": fitted.to_json()},
            facts={"confidence": described},
            messages=[f"confidence: {described}"],
            sections=[confidence.section(fitted, self.decisions(kept), self.place)],
            note=f"Probabilities are calibrated if the logits are divided by {fitted.temperature:.6g}.",
        )

    def conclude(self, dev, test, output):
        """Writes predictions to the folder `output` and returns `Findings`. `dev` and `test` are kept arrays.

        By default, the scores of dev and what the report shows of `judge`.
        """
        split = self.task.splits["dev"][0]
        scores = self.score(split.targets, self.outputs(split, dev))
        judged = self.judge(dev)
        if judged is None:
            return Findings(measured=scores, sections=[], errors=[])
        sections, errors = judged.report()
        return Findings(measured=scores, sections=sections, errors=errors)

    def judge(self, kept):
        """Returns the predictions for dev as `Judged`, for the report, or `None`, given the kept arrays.

        By default, classes or numbers for logits `(rows, classes)` or `(rows, 1)` and a target for each row.
        """
        split = self.task.splits["dev"][0]
        targets = np.asarray(split.targets)
        outputs = self.outputs(split, kept)
        if targets.ndim != 1 or head_named(self.task.head).classes not in outputs:
            return None
        logits = np.asarray(self.class_logits(outputs))
        if logits.ndim != 2:
            return None
        fields = {"length": split.lengths, "texts": getattr(split.examples, "texts", {})}
        if logits.shape[1] == 1:
            return JudgedNumbers.of_numbers(targets, logits, **fields)
        names = self.task.labels or range(logits.shape[1])
        return Judged.of_classes(names, targets, logits, **fields)

    def label_checks(self, kept):
        """Returns the labels of dev as `JudgedLabel`s, the most doubtful first, given the kept arrays.

        Those of `judge`, or else by the loss of the training, if it has a value for each row.
        """
        judged = self.judge(kept)
        if judged is not None:
            return judged.label_checks()
        split = self.task.splits["dev"][0]
        columns = list(getattr(split.examples, "texts", {}).values())
        checks = []
        for row, loss in enumerate(self._losses(split, kept)):
            texts = [str(column[row]) for column in columns]
            check = JudgedLabel(
                row=row,
                label=_plain_target(split.targets, row),
                predicted=None,
                loss=loss,
                place=row + 1,
                text=" / ".join(texts),
            )
            checks.append(check)
        return ranked(checks)

    def _losses(self, split, kept):
        """Returns the training loss of each row of a `Split`, a list of floats."""
        outputs = {name: np.asarray(values) for name, values in self.outputs(split, kept).items()}
        total = np.zeros(len(split.examples))
        for loss in self.task.training.losses:
            values = _loss_values(loss, split.targets, outputs)
            if values is None or values.shape[:1] != total.shape:
                raise ValueError(
                    f"labels of the task {self.task.name} cannot be ranked: its loss {loss.name} has no value for each "
                    "row. Expected `judge` of its report"
                )
            total += values.reshape(len(total), -1).mean(1)
        return total.tolist()


def _loss_values(loss, targets, outputs):
    """Returns the values of a `Loss` as an array; `None` if it has one for all rows, or needs what no run keeps."""
    if loss.together:
        return None
    try:
        return np.asarray(loss.values(targets, outputs), "float64")
    except Exception:
        return None


def _plain_target(targets, row):
    """Returns the target of a row with types of Python; `None` if targets are not one array."""
    if not hasattr(targets, "shape"):
        return None
    return np.asarray(targets)[row].tolist()


def start_text(model, bert):
    """Describes a model by its directory or name and its size."""
    return f"{model}, {bert.config.size}"
