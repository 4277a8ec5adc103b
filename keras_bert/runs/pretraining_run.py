"""A pre-training run: trains a model on records, and saves it with each snapshot."""

import dataclasses
import logging
import pathlib

import keras
import tensorflow as tf

from keras_bert.checkpoints.save import save
from keras_bert.data.batch_source import Phases
from keras_bert.rewirings.joined import add_teacher, without_teacher
from keras_bert.rewirings.trimmed import build_packed, build_trimmed
from keras_bert.runs.fit_trainer import FitTrainer
from keras_bert.runs.pretraining_model import build_model, load_teacher, open_config
from keras_bert.runs.unchanged_inputs import check_unchanged, data_facts
from keras_bert.training import losses
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distillation import pretraining_distillation_losses
from keras_bert.training.distribution import is_chief
from keras_bert.training.logits_cache import weights_fingerprint
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.progress import announced
from keras_bert.training.schedule import LinearSchedule, SequentialSchedule
from keras_bert.training.snapshots import Snapshots
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
EXTENDABLE = ("phases", "examples")  # Settings that an extension adds to.


class PretrainingRun:
    """Pre-trains a model. Interrupted runs resume, and finished ones can be extended, see `extended_schedule`.

    There are `Records` for each phase and, to evaluate on, those held out. The model is saved to `model/` in the
    directory; `None` writes nothing. `lowercase` tells whether the vocabulary is uncased, if the records do not say.
    """

    def __init__(
        self, settings, records, directory, held_out=None, strategy=None, report_to=("tensorboard",), lowercase=True
    ):
        self.settings, self.records, self._held_out, self._lowercase = settings, records, held_out, lowercase
        if settings.pack and settings.teacher:
            raise ValueError("--pack: not with a teacher. Received: --teacher")
        if (settings.teacher or settings.gradient_accumulation > 1) and not _on_tensorflow():
            name = "--teacher" if settings.teacher else "--gradient_accumulation"
            raise ValueError(f"{name}: only on TensorFlow. Received: KERAS_BACKEND={keras.backend.backend()}")
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
            check_unchanged(self._directory / "snapshots", self._origins, is_chief(self.trainer.strategy))

    def _stored_settings(self):
        """Returns settings that must match on resume."""
        settings, config = self.settings, self.settings.config
        size = config and dataclasses.asdict(open_config(config, self.records[0].vocabulary))
        masking = settings.objective.masking
        return {
            "model": settings.model,
            "config": size,
            "phases": settings.phases,
            "examples": [source.num_examples for source in self.records],
            "causal": settings.objective.causal,
            "precision": settings.precision,
            **({"positions": settings.positions} if settings.positions else {}),
            **({"masking": dataclasses.asdict(masking)} if masking else {}),
            **({"student_layers": settings.student_layers} if settings.student_layers else {}),
            **({"pack": True} if settings.pack else {}),
            **({} if _on_tensorflow() else {"backend": keras.backend.backend(), "seed": settings.seed}),
            **self._teacher_settings(),
        }

    def _teacher_settings(self):
        settings = self.settings
        if not settings.teacher:
            return {}
        weights = weights_fingerprint(self._teacher)[:16]
        names = ("teacher", "temperature", "alpha")
        return {"teacher_weights": weights, **{name: getattr(settings, name) for name in names}}

    def _load_teacher(self, strategy):
        """Returns the pre-trainer of the teacher, `None` without one."""
        settings = self.settings
        if not settings.teacher:
            return None
        with (strategy or tf.distribute.get_strategy()).scope():
            fits = settings.objective, self.records[0].vocabulary, self._longest
            return load_teacher(settings.teacher, *fits, self._origins, settings.precision)

    def _losses(self):
        settings, next_sentence = self.settings, self.settings.objective.next_sentence
        if not settings.teacher:
            return losses.pretraining_losses(next_sentence)
        return pretraining_distillation_losses(next_sentence, temperature=settings.temperature, alpha=settings.alpha)

    @property
    def _longest(self):
        return max(source.sequence_length for source in [*self.records, self._held_out or self.records[0]])

    def _build(self):
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        options = {"add_words": settings.add_words, **settings.encoder_options}
        if settings.student_layers:
            options["num_layers"] = settings.student_layers
        fits = settings.objective, self.records[0].vocabulary, self._longest
        model = build_model(settings.config, settings.model, *fits, self._origins, **options)
        return add_teacher(model, self._teacher) if self._teacher else model

    def _optimizer(self, model, schedule):
        settings = self.settings
        options = {"bias_correction": settings.bias_correction, "kind": settings.optimizer}
        optimizer = create_optimizer(model, settings.learning_rate, schedule.total_steps, **options)
        optimizer.learning_rate = schedule
        return optimizer

    def fit(self, after_save=None):
        """Trains the remaining steps and returns the last results.

        `after_save` is called with the step, on the chief worker, after each snapshot and the saved model.
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
            save(without_teacher(self.trainer.model), self._directory / "model", self.records[0].vocabulary, **casing)


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
        phases = " ".join(f"--phase={_phase_text(phase)}" for phase in found["settings"]["phases"])
        raise ValueError(
            f"--phase: the run in {directory} is at step {step:,} of {total:,}. Repeat its command to finish it first, "
            f"with {phases}, or choose another --output_dir"
        )


def _check_extension(directory, before, settings):
    count = len(before["phases"])
    steps = before["phases"][-1]["steps"]
    last = settings["phases"][count - 1 : count]
    same = [*settings["phases"][: count - 1], *({**phase, "steps": min(steps, phase["steps"])} for phase in last)]
    if same != before["phases"] or settings["examples"][:count] != before["examples"]:
        raise ValueError(
            f"--phase: a finished run can only get more steps in its last phase, or more phases, with the same data. "
            f"Expected it to begin like the run in {directory}: {_text(before)}. Received: {_text(settings)}"
        )


def _text(settings):
    pairs = zip(settings["phases"], settings["examples"], strict=True)
    return "; ".join(f"{_phase_text(phase)} of {examples:,} examples" for phase, examples in pairs)


def _phase_text(phase):
    return ",".join(f"{name}:{value}" for name, value in phase.items())
