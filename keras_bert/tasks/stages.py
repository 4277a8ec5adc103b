"""What a task trains: splits of its rows as models take them, and stages, each with model, loss and batches."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.data.bucketing import Batches
from keras_bert.data.document_batches import DocumentBatches, DocumentRows
from keras_bert.data.token_rows import sequence_lengths
from keras_bert.heads.head import is_same_option
from keras_bert.heads.registry import describe, head_named
from keras_bert.models.description import nested_encoder
from keras_bert.rewirings.trimmed import build_trimmed
from keras_bert.rewirings.windowed import build_trimmed_windows, build_windowed
from keras_bert.settings import LongTextSettings
from keras_bert.text.long_texts import READING

_NEW_MODEL_RATE = 1e-3
_EVALUATED_TOKENS = 2**15  # Of a batch of documents.
# Factors of the paper's learning rates, which are for a width of 768, by the largest width that they are for; for
# measurements see benchmarks/README.md.
_RATE_FACTORS = {256: 10, 512: 3}


def make_batches(inputs, targets=None, *, most_tokens=None, **options):
    """Returns the batches of features: `DocumentBatches` of `DocumentRows`, `Batches` of others."""
    if _has_documents(inputs):
        return DocumentBatches(inputs, targets, most_tokens=most_tokens, **options)
    return Batches(inputs, targets, **options)


def _has_documents(inputs):
    if not isinstance(inputs, dict):
        return False
    return any(isinstance(value, DocumentRows) for value in inputs.values())


def evaluation_batches(inputs, targets=None, *, batch_size=64):
    """Returns the batches of features to evaluate on, in their order: documents are limited by their tokens, too."""
    return make_batches(
        inputs,
        targets,
        batch_size=batch_size,
        most_tokens=_EVALUATED_TOKENS,
        shuffle=False,
    )


@dataclasses.dataclass(frozen=True)
class Split:
    """The rows of a file, as they were read and as a model takes them."""

    # The key of the kept outputs and of scores.
    name: str
    # As they were read, with `len` and `fingerprint`, and with `texts` for the report, lists by name.
    examples: Any
    # Dict of ragged model inputs, compact ones where tokens are many, see `data/token_rows.py`.
    inputs: Any
    # What the loss of the task takes.
    targets: Any
    # Rows to evaluate at a time.
    batch_size: int = 64

    @functools.cached_property
    def batches(self):
        """`Batches` to evaluate on."""
        return evaluation_batches(self.inputs, self.targets, batch_size=self.batch_size)

    @property
    def lengths(self):
        """The number of tokens of each row."""
        return sequence_lengths(self.inputs["token_ids"])

    def pair(self):
        """Returns inputs and targets."""
        return self.inputs, self.targets


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a training, which starts with the weights of the stage before.

    Args:
        name: string, what its model is. A stage of the same name continues with all weights, one of another name with
            those of the encoder alone.
        build: function from a loaded checkpoint to the model.
        loss: a `Loss`, or a list of them.
        examples: function that returns the inputs and the targets to learn from.
        score: function from the targets and the outputs of dev to scores, a dict.
        batches: function that makes the batches of inputs and targets, with `batch_size`, `seed` and `grouped`.
            Defaults to `make_batches`.
        dev: `Batches` to evaluate on; `None` without dev data, and for all stages but the last one.
        rewire: what makes of the model one whose training steps need less work, see `StepOptions`. Defaults to that of
            the training.
        solve: function from the model that trains its head in place of steps over the batches, and returns what a
            `HeadTrainer` is; the encoder stays as it is. Defaults to `None`, steps.
    """

    name: str
    build: Callable
    loss: Any
    examples: Callable
    score: Callable
    batches: Callable = make_batches
    dev: Any = None
    rewire: Callable | None = None
    solve: Callable | None = None


class Training(abc.ABC):
    """What a task trains: the second of its three parts. A subclass states what differs.

    Attributes:
        task: the `Task`, with its data, settings, splits and the model to start from.
        learning_rates, batch_size, epochs: the default settings of the runs. The rates are a grid.
        scales_rates: bool, whether the rates are for a width of 768, and narrower models have higher ones.
        compares_start: bool, whether the model is evaluated before training, too.
        can_pack: bool, whether several texts can share a row, see `PackedBatches`.
        can_teach: bool, whether a model of the task can teach another one, see `Teacher`. Defaults to `True`.
        answers_tokens: bool, whether the model has an output for each token instead of each row.

    Example:
        class GradeTraining(Training):
            def make_loss(self):
                return Loss("ordinal", lambda grades, outputs: ordinal_loss(grades, outputs["above"]))
    """

    learning_rates: tuple = (5e-5,)
    batch_size: int = 32
    epochs: int = 3
    scales_rates: bool = True
    can_teach: bool = True
    compares_start: bool = False
    can_pack: bool = False
    answers_tokens: bool = False

    def __init__(self, task):
        self.task = task

    @abc.abstractmethod
    def make_loss(self):
        """Returns the `Loss` of the outputs of the model, or a list of them."""

    @functools.cached_property
    def loss(self):
        """What `make_loss` returns."""
        return self.make_loss()

    @property
    def losses(self):
        """The `Loss`es of `make_loss`, a list."""
        if isinstance(self.loss, list | tuple):
            return list(self.loss)
        return [self.loss]

    def build(self, bert):
        """Builds the model to train from a loaded checkpoint: one with the same head, options and labels keeps it."""
        if self.keeps_head(bert):
            return self.own_model(bert)
        return self.of_documents(self.new_model(bert))

    @property
    def rewire(self):
        """What makes of the model one whose training steps need less work, see `StepOptions`."""
        return build_trimmed_windows if self.task.reads_windows else build_trimmed

    def of_documents(self, model):
        """Returns the model that reads the inputs of the task: a text may have several windows."""
        return build_windowed(model) if self.task.reads_windows else model

    def keeps_head(self, bert):
        """Whether a loaded checkpoint has the head of this task, with the same options and labels."""
        if self.task.start.new_head:
            return False
        if bert.head != self.task.head or bert.labels != self.task.labels:
            return False
        if bert.has_pair_layers:  # No BERT, whose graph is not described.
            return True
        options = describe(bert.model()).options
        for name, value in self.task.head_options().items():
            if not is_same_option(options.get(name), value):
                return False
        return True

    def own_model(self, bert):
        """Returns the model that a loaded checkpoint has: `evaluate` never builds another one."""
        return self.of_documents(bert.model())

    def new_model(self, bert):
        """Builds the model with a new head."""
        return head_named(self.task.head).build(bert.encoder, **self.task.head_options())

    def complete(self, model):
        """Returns the model to save, given a trained one from `build`."""
        return nested_encoder(model) if self.task.reads_windows else model

    def batches(self, inputs, targets, batch_size, seed, grouped):
        """Returns the batches to train on."""
        return make_batches(inputs, targets, batch_size=batch_size, seed=seed, grouped=grouped)

    def stages(self, setting):
        """Returns the `Stage`s of a run with a setting of the grid, the last one with dev data.

        By default, there is one for each part to train on.
        """
        stages = []
        splits = self.task.splits["train"]
        for number, split in enumerate(splits, 1):
            is_last = number == len(splits)
            stage = Stage(
                name=self.task.name,
                build=self.build,
                loss=self.loss,
                examples=split.pair,
                score=self.task.report.score,
                batches=self.batches,
                dev=self.task.dev if is_last else None,
            )
            stages.append(stage)
        return stages

    def check_teacher(self, bert, name):
        """Raises an error if a loaded model cannot teach the task; messages have its name."""
        task = self.task
        expected = f"Expected a model of {task.title}, such as an earlier one of the task {task.name}"
        if bert.head != task.head:
            raise ValueError(f"`teacher={name}`: a model with the head {bert.head!r}. {expected}")
        if bert.labels != task.labels:
            labels = ", ".join(bert.labels or ())
            raise ValueError(f"`teacher={name}`: a model with the labels {labels}. {expected}")
        if self.answers_tokens:
            self._check_teacher_of_tokens(bert, name)

    def _check_teacher_of_tokens(self, bert, name):
        """Raises an error if a loaded model cannot read the tokens of the student."""
        task = self.task
        for fact in ("vocabulary", "lowercase", "strip_accents"):
            if getattr(bert, fact) != getattr(task.bert, fact):
                raise ValueError(
                    f"`teacher={name}`: it differs in vocabulary or casing from {task.model}. A teacher of the task "
                    f"{task.name} answers for each token. Expected one with the vocabulary of the student"
                )
        try:
            bert.preprocessor(task.sequence_length)
        except ValueError as error:  # It has fewer positions.
            raise ValueError(f"`teacher={name}`: it reads the tokens of the student. {error}") from None

    def of_teacher(self, bert):
        """Returns the task as a teacher, a loaded model, reads it: one of tokens reads those of the student."""
        task = self.task
        if self.answers_tokens:
            return task
        reading = {"sequence_length": bert.sequence_length or task.sequence_length}
        if isinstance(task.settings, LongTextSettings):
            for name in READING:
                if hasattr(task.settings, name):
                    reading[name] = getattr(bert, name)
        settings = dataclasses.replace(task.settings, **reading)
        return type(task)(task.data, dataclasses.replace(task.start, bert=bert), settings)

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
        factor = _rate_factor(self.rates_width)
        return [float(f"{factor * rate:.3g}") for rate in self.learning_rates]

    @property
    def rates_width(self):
        """The width of the model that the default rates are for; `None` if they do not depend on it."""
        config = self.task.config
        if self.scales_rates and isinstance(config, BertConfig) and not self._is_new:
            return config.hidden_size
        return None

    @property
    def _is_new(self):
        return bool(self.task.start.load_options.keys() - {"num_layers"})


def _rate_factor(width):
    """Returns the factor of the learning rates for models of a width, which may be unknown."""
    if width:
        for widest, factor in _RATE_FACTORS.items():
            if width <= widest:
                return factor
    return 1
