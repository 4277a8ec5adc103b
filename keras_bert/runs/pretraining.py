"""Pre-training: its settings, records and model; a run trains on them, and saves the model with each snapshot."""

import dataclasses
import logging
import pathlib
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.save import save
from keras_bert.checkpoints.tensors import with_words
from keras_bert.config import BertConfig, named_config
from keras_bert.data.batch_source import Phases
from keras_bert.heads.pretraining import build_pretrainer
from keras_bert.heads.registry import describe, head_named
from keras_bert.models.encoder import build_encoder
from keras_bert.pretraining.dataset import PackedRecords, Records, find_damage, sequence_length
from keras_bert.pretraining.masking import Masking
from keras_bert.progress import announced
from keras_bert.rewirings.joined import add_teacher, without_teacher
from keras_bert.rewirings.trimmed import build_packed, build_trimmed
from keras_bert.runs.fit_trainer import FitTrainer
from keras_bert.runs.hyperparameters import PretrainingHyperparameters
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.text.new_words import without_known
from keras_bert.training import losses
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distillation import pretraining_distillation_losses
from keras_bert.training.distribution import is_chief
from keras_bert.training.evaluation import weights_fingerprint
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.run_state import Snapshots
from keras_bert.training.schedule import LinearSchedule, SequentialSchedule
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


def open_phases(phases, sources, objective, *, vocabulary=None, seed=1, pack=False):
    """Opens the records of each phase, from the source with the phase's sequence length.

    Args:
        phases: list of dicts with `length`, `steps` and `batch`.
        sources: list of folders of `generate` or glob patterns of records, one for each sequence length.
        objective: the `Objective`.
        vocabulary: path of the `vocab.txt` for records without one. Defaults to `None`.
        seed: int, shuffle seed; a source used by several phases gets a different one in each. Defaults to 1.
        pack: bool, whether each row of a batch contains several examples. Defaults to `False`.

    Returns:
        A list of `Records`, one for each phase.
    """
    wanted, lengths = [phase["length"] for phase in phases], list(map(sequence_length, sources))
    if sorted(lengths) != sorted(set(wanted)):
        raise ValueError(
            f"`sources`: expected one source for each length of a phase, {sorted(set(wanted))}. Received: "
            + ", ".join(f"{source} of length {length}" for source, length in zip(sources, lengths, strict=True))
        )
    found, records = dict(zip(lengths, sources, strict=True)), []
    for index, phase in enumerate(phases):
        options = {"batch_size": phase["batch"], "seed": seed + wanted[:index].count(phase["length"])}
        kind = PackedRecords if pack else Records
        records.append(open_source(found[phase["length"]], objective, vocabulary, kind, **options))
    if any(source.vocabulary != records[0].vocabulary for source in records):
        raise ValueError("`sources`: the sources have different vocabularies. Expected the same vocabulary")
    return records


def open_held_out(source, records, objective, *, vocabulary=None, examples=2000):
    """Opens the records to evaluate on, with the batch size and the vocabulary of the records to train on.

    Args:
        source: folder of `generate` or glob pattern of records.
        records: `Records`, those of the first phase.
        objective: the `Objective`.
        vocabulary: path of the `vocab.txt` for records without one. Defaults to `None`.
        examples: int, the most examples to evaluate on. Defaults to 2,000.
    """
    options = {"batch_size": records.batch_size, "shuffle": False, "limit": examples}
    held_out = open_source(source, objective, vocabulary, **options)
    if held_out.vocabulary != records.vocabulary:
        raise ValueError("`held_out`: the vocabulary differs from that of `sources`. Expected the same vocabulary")
    return held_out


def open_source(source, objective, vocabulary=None, kind=Records, **options):
    """Opens records; raises unless they have sentence pairs, if the objective needs them."""
    kind = objective.records or kind
    records = kind(source, vocabulary, masking=objective.masking, causal=objective.causal, **options)
    if objective.next_sentence and not records.settings.get("next_sentence", True):
        raise ValueError(f"{source}: the records have no sentence pairs. Add `next_sentence=False`")
    return records


def located(error, sources):
    """Returns a `ValueError` that names the damaged record of one of the sources, for TensorFlow's error."""
    damage = next(filter(None, map(find_damage, sources)), error.message)
    return ValueError(f"{damage}. Copy the file again or recreate the data")


def open_config(config, vocabulary=None):
    """Returns the config of a new model for a vocabulary.

    Args:
        config: str, the name of a size or a config file; for another model than a BERT, see `PretrainingSettings`.
        vocabulary: the `Vocabulary`, whose size the config of a named size gets. Defaults to `None`.

    Example:
        open_config("L-4_H-256").hidden_size
    """
    if not isinstance(config, str):
        return config.config(1 if vocabulary is None else len(vocabulary))
    if pathlib.Path(config).is_file():
        return BertConfig.from_json(config)
    try:
        size = named_config(config)
    except ValueError as error:
        raise ValueError(f"`config`: {error}") from None
    return size if vocabulary is None else dataclasses.replace(size, vocab_size=len(vocabulary))


class PretrainingRun:
    """Pre-trains a model. Interrupted runs resume, and finished ones can be extended, see `extended_schedule`.

    Args:
        settings: the `PretrainingSettings`.
        records: list of `Records`, one for each phase, see `open_phases`.
        directory: path of the folder of the results, in which the model is saved to `model/`; `None` writes nothing.
        held_out: `Records` to evaluate on, see `open_held_out`. Defaults to `None`.
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
        self, settings, records, directory, *, held_out=None, strategy=None, report_to=("tensorboard",), lowercase=True
    ):
        self.settings, self.records, self._held_out, self._lowercase = settings, records, held_out, lowercase
        if settings.pack and settings.teacher:
            raise ValueError(f"`pack`: not with a teacher. Received: `teacher={settings.teacher}`")
        if (settings.teacher or settings.gradient_accumulation > 1) and not _on_tensorflow():
            name = "teacher" if settings.teacher else "gradient_accumulation"
            raise ValueError(f"`{name}`: only on TensorFlow. Received: KERAS_BACKEND={keras.backend.backend()}")
        self._directory = None if directory is None else pathlib.Path(directory)
        self._origins = data_facts(records)
        self._teacher = self._load_teacher(strategy)
        objective, stored = settings.objective, self._stored_settings()
        schedule = extended_schedule(directory, stored, settings.learning_rate, settings.warmup)
        callbacks = create_callbacks(report_to, self._directory, self._directory.name) if directory else []
        build = self._build, lambda model: self._optimizer(model, schedule)
        options = {"directory": self._directory, "settings": stored, "callbacks": callbacks}
        options["rewire"] = build_packed if settings.pack else build_trimmed
        if _on_tensorflow():
            options |= {"strategy": strategy, "micro_batches": settings.gradient_accumulation, "seed": settings.seed}
            metrics = losses.pretraining_metrics(objective.next_sentence)
            self.trainer = Trainer(*build, self._losses(), metrics=metrics, **options)
        else:
            self.trainer = FitTrainer(*build, [phase["batch"] for phase in settings.phases], **options)
        if self._directory:
            check_unchanged(self._directory / "snapshots", self._origins, write=is_chief(self.trainer.strategy))

    def _stored_settings(self):
        """Returns settings that must match on resume."""
        settings, config, masking = self.settings, self.settings.config, self.settings.objective.masking
        size = config and dataclasses.asdict(open_config(config, self._vocabulary))
        stored = {
            "model": settings.model,
            "config": size,
            "phases": settings.phases,
            "examples": [source.num_examples for source in self.records],
            "causal": settings.objective.causal,
            "precision": settings.precision,
        }
        rest = {"positions": settings.positions, "masking": masking and dataclasses.asdict(masking)}
        rest |= {"student_layers": settings.student_layers, "pack": settings.pack}
        stored |= {name: value for name, value in rest.items() if value}
        if not _on_tensorflow():
            stored |= {"backend": keras.backend.backend(), "seed": settings.seed}
        if settings.teacher:
            stored["teacher_weights"] = weights_fingerprint(self._teacher)[:16]
            stored |= {name: getattr(settings, name) for name in ("teacher", "temperature", "alpha")}
        return stored

    @property
    def _vocabulary(self):
        return self.records[0].vocabulary

    def _load_teacher(self, strategy):
        """Returns the pre-trainer of the teacher, which has the vocabulary of the records; `None` without one."""
        settings, name = self.settings, self.settings.teacher
        if not name:
            return None
        with (strategy or tf.distribute.get_strategy()).scope():
            bert = self._load("teacher", name, dtype=settings.precision)
            if "masked" not in head_named(bert.head).reads:
                raise ValueError(f"`teacher`: {name} has no masked-LM head. Expected a pre-trained model")
            return bert.pretrainer(None if settings.objective.next_sentence else False)

    def _losses(self):
        settings, next_sentence = self.settings, self.settings.objective.next_sentence
        if not settings.teacher:
            return losses.pretraining_losses(next_sentence)
        return pretraining_distillation_losses(next_sentence, temperature=settings.temperature, alpha=settings.alpha)

    def _build(self):
        """Builds a pre-trainer for the records, with new weights or with those of a checkpoint."""
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        if (settings.config is None) == (settings.model is None):
            raise ValueError("expected either `config` (new weights) or `model` (weights to start from)")
        options = {"dtype": settings.precision, "remat": settings.remat}
        options |= {"positions": settings.positions} if settings.positions else {}
        model = self._build_from_checkpoint(options) if settings.model else self._build_new(options)
        return add_teacher(model, self._teacher) if self._teacher else model

    def _build_new(self, options):
        config, objective = self.settings.config, self.settings.objective
        if not isinstance(config, str):
            return config.build(len(self._vocabulary), **options)
        size = open_config(config, self._vocabulary)
        self._check_size("config", size)
        return build_pretrainer(build_encoder(size, causal=objective.causal, **options), objective.next_sentence)

    def _build_from_checkpoint(self, options):
        settings, next_sentence = self.settings, self.settings.objective.next_sentence
        if settings.student_layers:
            options["num_layers"] = settings.student_layers
        bert = self._load("model", settings.model, settings.add_words, **options)
        if next_sentence and bert.model_type not in (None, "bert"):
            kind = f"{settings.model} is of type {bert.model_type}, which has no next sentence prediction"
            raise ValueError(f"`model`: {kind}. Add `next_sentence=False`")
        return bert.pretrainer(next_sentence)

    def _load(self, name, model, add_words=None, **options):
        """Loads a checkpoint that fits the records and the objective; notes its facts, see `check_unchanged`."""
        checkpoint, causal = open_checkpoint(model), self.settings.objective.causal
        if words := without_known(add_words or (), checkpoint.metadata.vocabulary or ()):
            checkpoint = with_words(checkpoint, words)
        bert = LoadedModels(checkpoint, **options)
        if bert.vocabulary is not None and bert.vocabulary.pieces != self._vocabulary.pieces:  # Records have only ids.
            raise ValueError(
                f"`{name}`: {model} has another vocabulary than `sources`. Create the data with it, and with the same "
                "`add_words`, if there are any"
            )
        self._check_size(name, bert.config)
        if describe(bert.encoder).causal != causal:
            kind = "is bidirectional" if causal else "is a left-to-right model"
            raise ValueError(f"`{name}`: {model} {kind}. Received: `causal={causal}`")
        self._origins[str(model)] = bert.identity
        return bert

    def _check_size(self, name, config):
        length = max(source.sequence_length for source in [*self.records, self._held_out or self.records[0]])
        if config.vocab_size < len(self._vocabulary) or config.max_position_embeddings < length:
            raise ValueError(
                f"`{name}`: expected at least {len(self._vocabulary)} tokens and {length} positions. Received: "
                f"vocab_size={config.vocab_size}, max_position_embeddings={config.max_position_embeddings}"
            )

    def _optimizer(self, model, schedule):
        settings = self.settings
        options = {"bias_correction": settings.bias_correction, "kind": settings.optimizer}
        optimizer = create_optimizer(model, settings.learning_rate, schedule.total_steps, **options)
        optimizer.learning_rate = schedule
        return optimizer

    def fit(self, after_save=None):
        """Trains the remaining steps and returns the last results, a dict.

        `after_save` is called without arguments, on the chief worker, after each snapshot and the saved model.
        """
        steps, every = self.settings.steps, self.settings.save_every
        _LOG.info("%s weights, %s steps", f"{self.trainer.model.count_params():,}", f"{steps:,}")

        def saved():
            self.save()
            if after_save is not None:
                after_save()

        return self.trainer.fit(
            Phases([(part, phase["steps"]) for part, phase in zip(self.records, self.settings.phases, strict=True)]),
            steps=steps,
            evaluation=self._held_out,
            evaluate_every=every,
            save_every=every,
            log_every=max(1, min(50, steps // 200)),  # The curves of short runs show the warmup, too.
            after_save=saved,
            extend=EXTENDABLE,
        )

    def save(self):
        """Saves the model."""
        known = self.records[0].settings
        casing = {"lowercase": known.get("lowercase", self._lowercase), "strip_accents": known.get("strip_accents")}
        with announced("saving"):
            model = without_teacher(self.trainer.model)
            save(model, self._directory / "model", self._vocabulary, overwrite=True, **casing)


def data_facts(records):
    """Returns facts about the records of each phase."""
    return {
        f"the data of length {source.sequence_length}": {
            "content": source.content,
            "vocabulary": source.vocabulary.sha256,
            **source.settings,
        }
        for source in records
    }


def _on_tensorflow():
    return keras.backend.backend() == "tensorflow"


def extended_schedule(directory, settings, learning_rate, warmup):
    """Returns the learning rate schedule of a pre-training run.

    A finished run in the directory continues if there are more steps, in the last phase or in new ones: with its
    weights and its optimizer's moments, and with a warm-up, a share of the new steps, and a decay of its own over
    these. `settings` has the `phases` and `examples`, those of each.
    """
    steps = sum(phase["steps"] for phase in settings["phases"])
    earlier = [] if directory is None else _earlier_schedules(pathlib.Path(directory), settings, steps)
    steps -= sum(schedule.total_steps for schedule in earlier)
    schedule = LinearSchedule(learning_rate, steps, warmup_steps=round(warmup * steps))
    return SequentialSchedule([*earlier, schedule]) if earlier else schedule


def _earlier_schedules(directory, settings, steps):
    """Returns the schedules of the parts before the last one."""
    found = Snapshots(directory / "snapshots", write=False).newest()
    if found is None:
        return []
    before, total = found["settings"], found["settings"]["total_steps"]
    schedule = keras.saving.deserialize_keras_object(before["optimizer"]["learning_rate"])
    parts = schedule.schedules if isinstance(schedule, SequentialSchedule) else [schedule]
    if steps != total:
        _check_finished(directory, found)
    if steps > total:
        _check_extension(directory, before, settings)
        return parts
    # Fewer steps are another run, which `Trainer` refuses.
    return parts[:-1] if steps == total else []


def _check_finished(directory, found):
    step, total = found["step"], found["settings"]["total_steps"]
    if step < total:
        phases = " ".join(f"`phase={_phase_text(phase)}`" for phase in found["settings"]["phases"])
        raise ValueError(
            f"`phases`: the run in {directory} is at step {step:,} of {total:,}. Repeat its command to finish it "
            f"first, with {phases}, or choose another `directory`"
        )


def _check_extension(directory, before, settings):
    count = len(before["phases"])
    steps = before["phases"][-1]["steps"]
    last = settings["phases"][count - 1 : count]
    same = [*settings["phases"][: count - 1], *({**phase, "steps": min(steps, phase["steps"])} for phase in last)]
    if same != before["phases"] or settings["examples"][:count] != before["examples"]:
        raise ValueError(
            f"`phases`: a finished run can only get more steps in its last phase, or more phases, with the same data. "
            f"Expected it to begin like the run in {directory}: {_text(before)}. Received: {_text(settings)}"
        )


def _text(settings):
    pairs = zip(settings["phases"], settings["examples"], strict=True)
    return "; ".join(f"{_phase_text(phase)} of {examples:,} examples" for phase, examples in pairs)


def _phase_text(phase):
    return ",".join(f"{name}:{value}" for name, value in phase.items())
