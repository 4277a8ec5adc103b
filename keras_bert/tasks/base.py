"""The base class of tasks: the task-specific code of fine-tuning, its splits and its results."""

import abc
import dataclasses
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.data.bucketing import Batches
from keras_bert.data.token_rows import sequence_lengths
from keras_bert.heads.registry import head_named
from keras_bert.imports import quiet_integers
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.logits import mean_logits
from keras_bert.tasks.rows import RowFormat

_NEW_MODEL_RATE = 1e-3
# Factors of the paper's learning rates, which are for a width of 768, by the largest width that they are for; for
# measurements see benchmarks/README.md.
_RATE_FACTORS = {256: 10, 512: 3}
_LEAST_FALL = 0.05  # Of the loss, from the first to the last tenth of its values.
_FEWEST = 10  # Values of the loss, below which nothing is said.


@dataclasses.dataclass(frozen=True)
class Split:
    """The rows of a file, as they were read and as a model takes them."""

    name: str  # The key of the logits and scores.
    examples: Any  # As they were read, with `len` and `fingerprint`, and with `texts` for the report, lists by name.
    inputs: Any  # Dict of ragged model inputs, compact ones where tokens are many, see `data/token_rows.py`.
    targets: Any  # What the loss of the task takes.
    batch_size: int = 64  # Rows to evaluate at a time.

    @functools.cached_property
    def batches(self):
        """`Batches` to evaluate on."""
        return Batches(self.inputs, self.targets, batch_size=self.batch_size, shuffle=False)

    @property
    def lengths(self):
        """The number of tokens of each row."""
        return sequence_lengths(self.inputs["token_ids"])


@dataclasses.dataclass(frozen=True)
class Findings:
    """A task's results for the predictions of the best runs.

    `test_scores`, of the data to predict if it has labels, are added to `results`, `facts` and `messages`.
    """

    measured: dict  # The dev scores that are compared with the majority baseline.
    sections: list  # HTML for the end of `report.html`.
    errors: list  # Rows of `errors.tsv`, the header first.
    results: dict | None = None  # The task's entries in `results.json`. Defaults to the scores.
    scores: str | None = None  # In one line. Defaults to `measured` in percent.
    facts: dict = dataclasses.field(default_factory=dict)  # For the head of the report.
    tables: list = dataclasses.field(default_factory=list)  # Markdown for the end of `results.md`.
    messages: list = dataclasses.field(default_factory=list)  # Lines to print.
    same: str | None = None  # The prediction for all rows of dev; `None` if the predictions differ.
    test_scores: dataclasses.InitVar[dict | None] = None

    def __post_init__(self, test_scores):
        scores = data_summary.listed(self.measured) if self.scores is None else self.scores
        derived = {"results": self.results or {"scores": self.measured}, "scores": scores}
        if test_scores:
            listed = data_summary.listed(test_scores)
            derived["results"] = {**derived["results"], "test_scores": test_scores}
            derived["facts"] = {"scores on test": listed, **self.facts}
            derived["messages"] = [f"test: {listed}", *self.messages]
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def start_text(model, bert):
    """Describes a model by its directory or name and its size."""
    return f"{model}, {bert.config.size}"


@dataclasses.dataclass(frozen=True)
class Start:
    """The model that the runs of a task start from."""

    name: str  # Directory or name of the checkpoint, unless `model` is in the grid.
    bert: Any  # The loaded checkpoint, with the vocabulary of the models.
    load: Callable | None = None  # Loads the model to train, by its name; defaults to `keras_bert.load`.
    load_options: dict = dataclasses.field(default_factory=dict)  # Options of `load` for the model to train.
    origins: dict | None = None  # Facts about all models that runs start from, by name, see `check_unchanged`.


class Task(abc.ABC):
    """Base class of the tasks. A subclass states what differs; `TASKS` lists those of the package.

    The constructor takes the data that `read` returns, the `Start`, and the settings, an instance of `Settings`. It
    sets the attributes `title`, `metric`, `loss`, `splits`, `files`, `options` and `card`; everything else is
    derived from them, or has a default.

    Attributes:
        name: string, what `fit(task=...)` and messages call it.
        head: string, the name of the head that it trains.
        Settings: class of its settings, a frozen dataclass of fields made by `setting`: the flags of its command, the
            keywords of `fit`, and what a checkpoint keeps for `evaluate`, `predict` and `export`.
        rows: the `RowFormat`, what a row of its data means.
        preprocessor: the `TextPreprocessor` of the model.
        title: heading of the results.
        metric: name of the score that selects the best run.
        loss: a `Loss`.
        splits: dict of lists of `Split`: "train", one for each training stage; "dev", of which the first selects the
            best run; and "test", the data to predict.
        files: dict of the names of the files by split, for `data_settings`.
        options: dict of the task's settings, which must be the same for all runs in a folder.
        summary: dict of JSON values about the data. `unit` is the plural that messages call its rows, such as "pairs";
            `train` is their number in train; `overlap` has for each other split the number of its rows that are also in
            train, and an entry of its name, `{file: rows}`, the total; `majority` has the scores of the majority
            baseline, empty if there is none, and `baseline` its description; `dev_majority` and `dev_baseline`, if they
            are there, those of dev's own majority. `summary.warnings` and `summary.facts`
            read optional entries, too, such as `truncated`, `repeated` and `contradictory`.
        card: dict for the model card: `pipeline_tag`; `dataset` (the metadata of the hub: `type`, `name`, `config`,
            `split`); `datasets` (names of data sets on the hub); `purpose` and `trained_on` (for the first sentence);
            `example` (Python code, the texts to predict); `arguments` (Python code, the arguments of the tokenizer).
            Optional: `hub_metrics` (the hub's names of scores that differ), `hub_percent` (whether the hub has these
            scores in percent), `imports` and `outputs` (lines of Python code for the outputs of transformers), `note`
            (a sentence on the scores).
        predictions_file: string, the file with the predictions of the data to predict.
        combine: function that combines the logits of several runs, a list of arrays.
        batches: function that makes the batches to train on of inputs and targets, with `batch_size`, `seed` and
            `grouped`. Defaults to `Batches`.
        compares_start: bool, whether the model is evaluated before training, too.
        can_pack: bool, whether several texts can share a row, see `PackedBatches`.
        learning_rates, batch_size, epochs: the default settings of the runs. The rates are a grid.
        scales_rates: bool, whether the rates are for a width of 768, and narrower models have higher ones.
    """

    name: str
    head: str
    Settings: type
    rows: RowFormat = RowFormat()
    compares_start, can_pack = False, False
    options: Any = types.MappingProxyType({})
    learning_rates, batch_size, epochs, scales_rates = (5e-5,), 32, 3, True
    combine = staticmethod(mean_logits)
    batches: Any = None
    predictions_file = "predictions.tsv"

    def __init__(self, data, start, settings):
        quiet_integers()
        self.data, self.start, self.settings = data, start, settings
        self.model, self.bert, self.sequence_length = str(start.name), start.bert, settings.sequence_length
        self.preprocessor = self.bert.preprocessor(self.sequence_length, padding="longest")

    @classmethod
    def fits(cls, bert):
        """Whether a loaded model was trained on this task."""
        return bert.head == cls.head

    @classmethod
    def signatures(cls, signatures, settings):
        """Returns more signatures of an export, given those of the head, a dict of `tf.function`s by name."""
        return {}

    @property
    def held_out(self):
        """Whether dev has other rows than those to train on."""
        return not (self.splits["dev"] and self.splits["dev"][0].examples is self.splits["train"][0].examples)

    @functools.cached_property
    def config(self):
        """The config of the model, with a `title`, and the `package` whose `load` opens the model."""
        return self.bert.config

    @functools.cached_property
    def origins(self):
        """Facts about the models that runs start from, by name, see `check_unchanged`."""
        return self.start.origins or {self.model: self.bert.identity}

    @functools.cached_property
    def run_settings(self):
        """All settings that must be the same for all runs in a folder."""
        return {
            "model": self.model,
            "sequence_length": self.sequence_length,
            **self.options,
            **self.data_settings(),
        }

    def data_settings(self):
        """Returns the file and the number of rows of each split, and hashes of the rows."""
        parts = {name: splits[0].examples for name, splits in self.splits.items() if splits}
        content = {name: examples.fingerprint() for name, examples in parts.items()}
        return {**{name: [self.files[name], len(examples)] for name, examples in parts.items()}, "content": content}

    @functools.cached_property
    def facts(self):
        """Entries about the data for the head of the report: text by title."""
        start = {"start": start_text(self.model, self.bert)}
        facts = {**start, **self.data_facts(), **data_summary.facts(self.summary), **self.problems()}
        return {title: text for title, text in facts.items() if self.held_out or not title.startswith("dev ")}

    @functools.cached_property
    def summary(self):
        """What `summarize` returns; rows that are trained on and evaluated on are not told to be in both."""
        found = self.summarize()
        return found if self.held_out else {**found, "overlap": dict.fromkeys(found["overlap"], 0)}

    @functools.cached_property
    def warnings(self):
        """Sentences about what is probably a mistake in the data."""
        return [*self.data_warnings(), *data_summary.warnings(self.summary)]

    def data_warnings(self):
        """Returns the sentences of `warnings` that other tasks do not have."""
        return []

    def data_facts(self):
        """Returns the entries of `facts` that describe the rows."""
        return {}

    def problems(self):
        """Returns the entries of `facts` about rows that the model cannot represent."""
        return {}

    @property
    def stored_settings(self):
        """The settings that a checkpoint keeps for `evaluate`, `predict` and `export`."""
        names = [field.name for field in dataclasses.fields(self.settings) if field.metadata.get("stored")]
        return {name: getattr(self.settings, name) for name in names}

    @property
    def auto_class(self):
        """The class of transformers that opens the model with its head, for the model card; `None` without one."""
        names = head_named(self.head).architectures
        return f"AutoModel{names[0].removeprefix('Bert').removeprefix('Model')}" if names else None

    @property
    def train(self):
        """List of functions that return `(inputs, targets)`, one for each training stage."""
        return [lambda split=split: (split.inputs, split.targets) for split in self.splits["train"]]

    @functools.cached_property
    def dev(self):
        """`Batches` to evaluate on; `None` without dev data."""
        return self.splits["dev"][0].batches if self.splits["dev"] else None

    def choices(self, learning_rate=None, batch_size=None, epochs=None, seed=None):
        """Returns the grid of the runs: lists of values by name; what is not given has the task's default."""
        return {
            "learning_rate": learning_rate or self.default_rates,
            "batch_size": batch_size or [self.batch_size],
            "epochs": epochs or [self.epochs],
            "seed": seed or [1],
        }

    @property
    def default_rates(self):
        """The default learning rates, a list: higher ones for new models, and for narrow models of BERT."""
        if self._is_new:
            return [_NEW_MODEL_RATE]
        width = self.rates_width
        factor = next((factor for widest, factor in _RATE_FACTORS.items() if width and width <= widest), 1)
        return [float(f"{factor * rate:.3g}") for rate in self.learning_rates]

    @property
    def rates_width(self):
        """The width of the model that the default rates are for; `None` if they do not depend on it."""
        scaled = self.scales_rates and isinstance(self.config, BertConfig) and not self._is_new
        return self.config.hidden_size if scaled else None

    @property
    def _is_new(self):
        return bool(self.start.load_options.keys() - {"num_layers"})

    def select(self, setting):
        """Prepares the data for a run with these settings; returns the batches to evaluate on."""
        return self.dev

    def complete(self, model):
        """Returns the model to save, given a trained one from `build`."""
        return model

    def dev_logits(self, predict):
        """Returns the dev logits as a dict of arrays; `predict` is a function from `Batches` to the model's outputs."""
        return {split.name: self.logits(split, predict) for split in self.splits["dev"]}

    def test_logits(self, predict):
        """Returns the logits of the data to predict like `dev_logits`."""
        return {split.name: self.logits(split, predict) for split in self.splits["test"]}

    def logits(self, split, predict):
        """Returns the logits of a `Split`."""
        return predict(split.batches)["logits"]

    @abc.abstractmethod
    def summarize(self):
        """Returns the dict of JSON values about the data, see `summary` above."""

    @abc.abstractmethod
    def build(self, bert):
        """Builds the model to train from a loaded checkpoint."""

    @abc.abstractmethod
    def score(self, targets, outputs):
        """Returns the dev scores as a dict."""

    @abc.abstractmethod
    def save_options(self, logits):
        """Returns the task's arguments of `keras_bert.save`, given the dev logits of the run to save."""

    @abc.abstractmethod
    def export_options(self, bert):
        """Returns the task's arguments of `keras_bert.export` for the saved model."""

    def conclude(self, dev, test, output):
        """Writes predictions to the folder `output` and returns `Findings`. `dev` and `test` are logits.

        By default, the scores of dev and what the report shows of `judge`.
        """
        split, judged = self.splits["dev"][0], self.judge(dev)
        scores = self.score(split.targets, {"logits": dev[split.name]})
        return Findings(scores, *(judged.report() if judged else ([], [])))

    def judge(self, logits):
        """Returns the predictions for dev as `Judged`, for the report, or `None`, given the logits.

        By default, classes or numbers for logits `(rows, classes)` or `(rows, 1)` and a target for each row.
        """
        split = self.splits["dev"][0]
        targets, outputs = np.asarray(split.targets), np.asarray(logits[split.name])
        if targets.ndim != 1 or outputs.ndim != 2:
            return None
        fields = {"length": split.lengths, "texts": getattr(split.examples, "texts", {})}
        if outputs.shape[1] == 1:
            return JudgedNumbers.of_numbers(targets, outputs, **fields)
        names = self.save_options(logits).get("labels") or range(outputs.shape[1])
        return Judged.of_classes(names, targets, outputs, **fields)


def rate_advice(lines, rate, defaults):
    """Returns a sentence if the loss of a run hardly fell, or else `None`; `lines` are those of its `metrics.jsonl`."""
    losses = [sum(line[name] for name in line if name.endswith("loss")) for line in lines if line["kind"] == "train"]
    tenth = math.ceil(len(losses) / 10)
    first, last = (sum(part) / tenth for part in (losses[:tenth], losses[-tenth:])) if losses else (0, 0)
    if len(losses) < _FEWEST or not rate or not last > (1 - _LEAST_FALL) * first:
        return None
    usual = rate <= max(defaults) <= 10 * rate
    others = [f"{3 * rate:.1g}", f"{10 * rate:.1g}"] if usual else [f"{other:g}" for other in defaults]
    change = "hardly fell" if last < first else "did not fall"
    return (
        f"the loss {change}, from {first:.3g} to {last:.3g}. If the scores are low, try a learning_rate of "
        f"{' or '.join(others)}, or more epochs"
    )


def own_data_set(name, typed=False, table="csv"):
    """Returns the metadata of a user's data for the model card; `table` is the kind of data that are not `typed`."""
    return {"type": "json" if typed else table, "name": name}
