"""Pre-training: its settings and its run, which trains on records and saves the model with each snapshot."""

import dataclasses
import logging
import pathlib
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_bert.checkpoints.save import save
from keras_bert.data.batch_source import Phases
from keras_bert.pretraining.masking import Masking
from keras_bert.progress import announced
from keras_bert.rewirings.joined import without_teacher
from keras_bert.rewirings.trimmed import build_packed, build_trimmed
from keras_bert.runs.fit_trainer import FitTrainer
from keras_bert.runs.hyperparameters import PretrainingHyperparameters
from keras_bert.runs.pretraining_model import PretrainerBuilder, open_config
from keras_bert.runs.pretraining_records import data_facts
from keras_bert.runs.pretraining_schedule import extended_schedule
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.training import losses
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distillation import pretraining_distillation_losses
from keras_bert.training.distribution import is_chief
from keras_bert.training.evaluation import weights_fingerprint
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
EXTENDABLE = ("phases", "examples")  # Settings that an extension adds to.


@dataclasses.dataclass(frozen=True)
class Objective:
    """Pre-training objective. A subclass for a model of another kind has a subclass of `Records` as its `records`.

    Args:
        next_sentence: bool, whether to train next sentence prediction. Defaults to `True`.
        causal: bool, whether to train a left-to-right language model instead of a masked one. Defaults to `False`.
        masking: the `Masking` of records without masks. Defaults to that of their settings.
    """

    next_sentence: bool = True
    causal: bool = False
    _: dataclasses.KW_ONLY
    masking: Masking | None = None

    records: ClassVar[type | None] = None

    def __post_init__(self):
        if self.next_sentence and self.causal:
            kind = "`causal`: left-to-right models are"
            raise ValueError(f"{kind} trained without next sentence prediction. Add `next_sentence=False`")


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(PretrainingHyperparameters):
    """Settings of a pre-training run, besides those of `PretrainingHyperparameters`, such as `learning_rate`.

    Args:
        phases: list of dicts with `length`, `steps` and `batch`.
        objective: the `Objective`.
        config: str, the name of a size or a config file, or `None` to start from `model`. For another model than a
            BERT, an object whose methods `config` and `build` take the size of the vocabulary.
        model: str, directory or name of a model to start from, or `None` for new weights.
        add_words: list of words to add to `model`, see `LoadedBert.add_words`; those it has are skipped.
        student_layers: int, number of evenly spaced layers of `model` to start from. Defaults to all.
        teacher: str, a checkpoint with a masked-LM head, whose predictions the model learns. Defaults to `None`.
        temperature: float, see `distillation_loss`. Defaults to 2.
        alpha: float, see `distillation_loss`. Defaults to 0.5.
    """

    phases: list
    objective: Objective
    _: dataclasses.KW_ONLY
    config: Any = None
    model: str | None = None
    add_words: list | None = None
    student_layers: int | None = None
    teacher: str | None = None
    temperature: float = 2.0
    alpha: float = 0.5

    @property
    def steps(self):
        """Returns the number of steps of all phases."""
        return sum(phase["steps"] for phase in self.phases)


class PretrainingRun:
    """Pre-trains a model. Interrupted runs resume, and finished ones can be extended, see `extended_schedule`.

    Args:
        settings: the `PretrainingSettings`.
        records: list of `Records`, one for each phase, see `open_phases`.
        directory: path of the folder of the results, in which the model is saved to `model/`; `None` writes nothing.
        eval_data: `Records` to evaluate on, see `open_eval_data`. Defaults to `None`.
        strategy: a `tf.distribute.Strategy`. Defaults to `None`, one device.
        report_to: where to log: "tensorboard", "wandb", "mlflow". Defaults to TensorBoard.
        lowercase: bool, whether the vocabulary is uncased, if the records do not say. Defaults to `True`.

    Attributes:
        trainer: the `Trainer` with the model and its optimizer.

    Example:
        phases, objective = [{"length": 128, "steps": 1000, "batch": 64}], Objective()
        records = open_phases(phases, ["data/128"], objective)
        run = PretrainingRun(PretrainingSettings(phases, objective, config="tiny"), records, "runs/tiny")
        run.fit()
        run.save()
    """

    def __init__(
        self,
        settings,
        records,
        directory,
        *,
        eval_data=None,
        strategy=None,
        report_to=("tensorboard",),
        lowercase=True,
    ):
        _check_settings(settings)
        self.settings = settings
        self.records = records
        self.eval_data = eval_data
        self._lowercase = lowercase
        self._directory = None if directory is None else pathlib.Path(directory)
        origins = data_facts(records)
        lengths = [source.sequence_length for source in records]
        if eval_data is not None:
            lengths.append(eval_data.sequence_length)
        self._builder = PretrainerBuilder(settings, records[0].vocabulary, max(lengths))
        self._teacher = None
        if settings.teacher:
            with (strategy or tf.distribute.get_strategy()).scope():
                self._teacher = self._builder.load_teacher()
        self.trainer = self._create_trainer(strategy, report_to)
        if self._directory:
            # The facts about the model are there since the trainer has built it.
            origins.update(self._builder.origins)
            writes = is_chief(self.trainer.strategy)
            check_unchanged(self._directory / "snapshots", origins, write=writes)

    def _create_trainer(self, strategy, report_to):
        """Returns the trainer of the backend, with a new model and its optimizer."""
        settings = self.settings
        stored = self._stored_settings()
        schedule = extended_schedule(self._directory, stored, settings.learning_rate, settings.warmup)
        callbacks = []
        if self._directory:
            callbacks = create_callbacks(report_to, self._directory, self._directory.name)

        def build():
            return self._builder.build(self._teacher)

        def optimizer(model):
            return create_optimizer(
                model,
                schedule,
                bias_correction=settings.bias_correction,
                kind=settings.optimizer,
            )

        options = {
            "directory": self._directory,
            "settings": stored,
            "callbacks": callbacks,
            "rewire": build_packed if settings.pack else build_trimmed,
        }
        if not _is_on_tensorflow():
            batch_sizes = [phase["batch"] for phase in settings.phases]
            return FitTrainer(build, optimizer, batch_sizes, **options)
        return Trainer(
            build,
            optimizer,
            self._losses(),
            metrics=losses.pretraining_metrics(settings.objective.next_sentence),
            strategy=strategy,
            micro_batches=settings.gradient_accumulation,
            seed=settings.seed,
            **options,
        )

    def _losses(self):
        """Returns the losses of the objective, with a teacher those of its predictions, too."""
        settings = self.settings
        next_sentence = settings.objective.next_sentence
        if not settings.teacher:
            return losses.pretraining_losses(next_sentence)
        return pretraining_distillation_losses(
            next_sentence,
            temperature=settings.temperature,
            alpha=settings.alpha,
        )

    def _stored_settings(self):
        """Returns settings that must match on resume."""
        settings = self.settings
        size = None
        if settings.config:
            size = dataclasses.asdict(open_config(settings.config, self.records[0].vocabulary))
        stored = {
            "model": settings.model,
            "config": size,
            "phases": settings.phases,
            "examples": [source.num_examples for source in self.records],
            "causal": settings.objective.causal,
            "precision": settings.precision,
        }
        masking = settings.objective.masking
        optional = {
            "positions": settings.positions,
            "masking": masking and dataclasses.asdict(masking),
            "student_layers": settings.student_layers,
            "pack": settings.pack,
        }
        for name, value in optional.items():
            if value:
                stored[name] = value
        if not _is_on_tensorflow():
            stored["backend"] = keras.backend.backend()
            stored["seed"] = settings.seed
        if settings.teacher:
            stored["teacher_weights"] = weights_fingerprint(self._teacher)[:16]
            stored["teacher"] = settings.teacher
            stored["temperature"] = settings.temperature
            stored["alpha"] = settings.alpha
        return stored

    def fit(self, after_save=None):
        """Trains the remaining steps and returns the last results, a dict.

        `after_save` is called without arguments, on the chief worker, after each snapshot and the saved model.
        """
        steps = self.settings.steps
        every = self.settings.save_every
        _LOG.info("%s weights, %s steps", f"{self.trainer.model.count_params():,}", f"{steps:,}")

        def save_model():
            self.save()
            if after_save is not None:
                after_save()

        phases = []
        for records, phase in zip(self.records, self.settings.phases, strict=True):
            phases.append((records, phase["steps"]))
        return self.trainer.fit(
            Phases(phases),
            steps=steps,
            evaluation=self.eval_data,
            evaluate_every=every,
            save_every=every,
            log_every=max(1, min(50, steps // 200)),  # The curves of short runs show the warmup, too.
            after_save=save_model,
            extend=EXTENDABLE,
        )

    def save(self):
        """Saves the model."""
        known = self.records[0].settings
        with announced("saving"):
            save(
                without_teacher(self.trainer.model),
                self._directory / "model",
                self.records[0].vocabulary,
                overwrite=True,
                lowercase=known.get("lowercase", self._lowercase),
                strip_accents=known.get("strip_accents"),
            )


def _check_settings(settings):
    """Raises for settings that do not go together, or that the backend does not have."""
    if settings.pack and settings.teacher:
        raise ValueError(f"`pack`: not with a teacher. Received: `teacher={settings.teacher}`")
    if _is_on_tensorflow():
        return
    for name, is_used in (
        ("teacher", bool(settings.teacher)),
        ("gradient_accumulation", settings.gradient_accumulation > 1),
    ):
        if is_used:
            raise ValueError(f"`{name}`: only on TensorFlow. Received: KERAS_BACKEND={keras.backend.backend()}")


def _is_on_tensorflow():
    return keras.backend.backend() == "tensorflow"
