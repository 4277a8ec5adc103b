"""The base class of tasks: three parts over the splits of data, and what a checkpoint keeps."""

import dataclasses
import functools
import json
import math
import types
from collections.abc import Callable
from typing import Any

from keras_bert.files import json_text
from keras_bert.heads.head import is_same_option
from keras_bert.heads.registry import head_named
from keras_bert.imports import quiet_integers
from keras_bert.settings import LongTextSettings, WindowSettings
from keras_bert.tasks import confidence
from keras_bert.tasks.reporting import Report
from keras_bert.tasks.rows import RowFormat
from keras_bert.tasks.stages import Training
from keras_bert.text.long_texts import READING, WINDOWS
from keras_bert.training.loss_names import total

_LEAST_FALL = 0.05  # Of the loss, from the first to the last tenth of its values.
_FEWEST = 10  # Values of the loss, below which nothing is said.


@dataclasses.dataclass(frozen=True)
class Start:
    """The model that the runs of a task start from."""

    # Directory or name of the checkpoint, unless `model` is in the grid.
    name: str
    # The loaded checkpoint, with the vocabulary of the models.
    bert: Any
    # Loads the model to train, by its name; defaults to `keras_bert.load`.
    load: Callable | None = None
    # Options of `load` for the model to train.
    load_options: dict = dataclasses.field(default_factory=dict)
    # Facts about all models that runs start from, by name, see `check_unchanged`.
    origins: dict | None = None
    # Whether the head is a new one where that of the checkpoint fits.
    new_head: bool = False
    # The head to train, one that the task `trains`. Defaults to that of the task.
    head: str | None = None


class Task:
    """A task in three parts: what a row means, what is trained, and what is reported.

    `rows` is a `RowFormat`; `Training` and `Report` are the classes of the other two, which get the task and are its
    `training` and `report`. A subclass names its parts, and states what differs; `TASKS` lists those of the package.

    The constructor takes the data that `rows.read` returns, the `Start`, and the settings, an instance of `Settings`.
    It sets the attributes `title`, `splits`, `files`, `options` and `labels`; everything else is derived from them, or
    has a default.

    Attributes:
        name: string, what `fit(task=...)` and messages call it.
        head: string, the name of the head that it trains. Defaults to `None`, for models of another kind.
        Settings: class of its settings, a frozen dataclass of fields made by `setting`: the flags of its command, the
            keywords of `fit`, and what a checkpoint keeps for `evaluate`, `predict` and `export`.
        data, start, settings: the arguments of the constructor.
        preprocessor: the `TextPreprocessor` of the model.
        title: heading of the results.
        splits: dict of lists of `Split`: "train", one for each training stage; "dev", of which the first selects the
            best run; and "test", the data to predict.
        files: dict of the names of the files by split, for `data_settings`.
        labels: list of the names of the classes, `None` for a head without classes.
        options: dict of the task's settings, which must be the same for all runs in a folder.

    Example:
        @keras_bert.register_task
        class Grading(ClassificationTask):
            name = "grading"
            head = "ordinal"
            Training = GradeTraining
    """

    name: str
    head: str | None = None
    Settings: type
    rows: RowFormat = RowFormat()
    Training: Any = Training
    Report: Any = Report
    title: str
    splits: dict
    files: dict
    labels: list | None = None
    options: Any = types.MappingProxyType({})

    def __init__(self, data, start, settings):
        quiet_integers()
        self.data = data
        self.start = start
        self.settings = settings
        self.head = self._chosen_head()
        self._check_stored()
        self.model = str(start.name)
        self.bert = start.bert
        self.sequence_length = settings.sequence_length
        if self.calibrates:
            confidence.check(self)
        self.preprocessor = self._create_preprocessor()

    def _create_preprocessor(self):
        options = {"padding": "longest"}
        starts_from_windows = getattr(self.bert, "long_texts", None) == WINDOWS
        if starts_from_windows and not isinstance(self.settings, WindowSettings):
            # The task has one sequence of a text, or windows of its own.
            options["long_texts"] = None
        options.update(self.reading)
        return self.bert.preprocessor(self.sequence_length, **options)

    @functools.cached_property
    def training(self):
        """What is trained, an instance of `Training`."""
        return self.Training(self)

    @functools.cached_property
    def report(self):
        """What is reported, an instance of `Report`."""
        return self.Report(self)

    def _chosen_head(self):
        """Returns the head to train: that of the `Start`, or of its model if the task trains it, or else the task's."""
        if self.start.head is not None:
            return self.start.head
        if self.trains(self.start.bert.head) and not self.start.new_head:
            return self.start.bert.head
        return self.head

    @classmethod
    def trains(cls, head):
        """Whether models of the task may have a head, given its name: that of the task, or another form of it."""
        return head == cls.head

    @classmethod
    def fits(cls, bert):
        """Whether a loaded model was trained on this task."""
        return cls.trains(bert.head)

    @classmethod
    def signatures(cls, signatures, settings):
        """Returns more signatures of an export, given those of the head, a dict of `tf.function`s by name."""
        return {}

    def head_options(self):
        """Returns the options of `Head.build`, which the checkpoint keeps: by default, the number of classes."""
        return {} if self.labels is None else {"num_classes": len(self.labels)}

    @property
    def precision(self):
        """The precision of the answers that the settings ask for, or `None`."""
        return getattr(self.settings, "answer_at_precision", None)

    @property
    def calibrates(self):
        """Whether the settings ask for a confidence."""
        return self.precision is not None or getattr(self.settings, "calibrate", False)

    @property
    def held_out(self):
        """Whether dev has other rows than those to train on."""
        dev = self.splits["dev"]
        if not dev:
            return True
        return dev[0].examples is not self.splits["train"][0].examples

    @property
    def reading(self):
        """The options of the `TextPreprocessor` that the settings tell, see `LongTextSettings`."""
        return self.settings.reading if isinstance(self.settings, LongTextSettings) else {}

    @property
    def reads_windows(self):
        """Whether a text may have several sequences."""
        return isinstance(self.settings, LongTextSettings) and self.preprocessor.reads_windows

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
        settings = {"model": self.model, "sequence_length": self.sequence_length}
        settings.update(self.reading)
        settings.update(self.options)
        settings.update(self.data_settings())
        if self.calibrates:
            settings["calibrate"] = True
            settings["answer_at_precision"] = self.precision
        return settings

    def data_settings(self):
        """Returns the file and the number of rows of each split, and hashes of the rows."""
        settings = {}
        content = {}
        for name, splits in self.splits.items():
            if splits:
                examples = splits[0].examples
                settings[name] = [self.files[name], len(examples)]
                content[name] = examples.fingerprint()
        settings["content"] = content
        return settings

    @property
    def stored_settings(self):
        """The settings that a checkpoint keeps for `evaluate`, `predict` and `export`."""
        stored = {}
        for field in dataclasses.fields(self.settings):
            if field.metadata.get("stored"):
                stored[field.name] = getattr(self.settings, field.name)
        return stored

    def _check_stored(self):
        """Raises for a setting that a checkpoint cannot keep, before the training rather than after it."""
        for name, value in self.stored_settings.items():
            if not _is_kept_by_json(value):
                raise ValueError(
                    f"the setting `{name}` is stored with the model. Expected a value that JSON keeps: strings, bools, "
                    "finite numbers, None, lists of them, and dicts with strings as keys. "
                    f"Received: {name}={value!r:.100}"
                )

    @property
    def auto_class(self):
        """The class of transformers that opens the model with its head, for the model card; `None` without one."""
        architectures = head_named(self.head).architectures
        if not architectures:
            return None
        suffix = architectures[0].removeprefix("Bert").removeprefix("Model")
        return f"AutoModel{suffix}"

    @functools.cached_property
    def dev(self):
        """`Batches` to evaluate on; `None` without dev data."""
        if not self.splits["dev"]:
            return None
        return self.splits["dev"][0].batches

    @property
    def stored_reading(self):
        """How the model reads texts: arguments of `keras_bert.save`."""
        options = {"sequence_length": self.sequence_length}
        if isinstance(self.settings, LongTextSettings):
            for name in READING:
                options[name] = getattr(self.preprocessor, name)
        return options

    def save_options(self, kept):
        """Returns the task's arguments of `keras_bert.save`, given what the run to save keeps of dev."""
        options = {"task": self.name}
        if self.labels is not None:
            options["labels"] = self.labels
        return options

    def confidence_options(self, kept):
        """Returns the arguments of `keras_bert.save` about the confidence, given what the run to save keeps of dev."""
        fitted = self.report.confidence(kept)
        if fitted is None:
            return {}
        confidence.warn_of(fitted)
        return {"confidence": fitted.to_json()}

    def export_options(self, bert):
        """Returns the task's arguments of `keras_bert.export` for the saved model."""
        texts = getattr(self.splits["dev"][0].examples, "texts", {})
        options = {"example": {name: column[0] for name, column in texts.items()}}
        if self.labels is not None:
            options["labels"] = bert.labels
        return options


def _is_kept_by_json(value):
    """Whether a value is the same after it was written as JSON and read."""
    try:
        return is_same_option(json.loads(json_text(value)), value)
    except (TypeError, ValueError):
        return False


def rate_advice(lines, loss_names, rate, defaults):
    """Returns a sentence if the loss of a run hardly fell, or else `None`; `lines` are those of its `metrics.jsonl`."""
    norms = [line["gradient_norm"] for line in lines if "gradient_norm" in line]
    if rate and norms and not any(norms):
        return (
            "nothing was learned: the gradient of the loss was zero in all steps. Does the loss depend on the outputs, "
            "and do batches of this size have the rows that it compares?"
        )
    losses = [total(line, loss_names) for line in lines if line["kind"] == "train"]
    if len(losses) < _FEWEST or not rate:
        return None
    tenth = math.ceil(len(losses) / 10)
    first = sum(losses[:tenth]) / tenth
    last = sum(losses[-tenth:]) / tenth
    if not last > (1 - _LEAST_FALL) * first:  # It fell, or is NaN.
        return None
    change = "hardly fell" if last < first else "did not fall"
    others = [f"{default:g}" for default in defaults]
    if rate <= max(defaults) <= 10 * rate:  # A usual rate: larger ones.
        others = [f"{3 * rate:.1g}", f"{10 * rate:.1g}"]
    return (
        f"the loss {change}, from {first:.3g} to {last:.3g}. If the scores are low, try a learning_rate of "
        f"{' or '.join(others)}, or more epochs"
    )
