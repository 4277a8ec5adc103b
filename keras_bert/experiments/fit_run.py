"""Pre-training by `model.fit` on any backend, without TensorFlow: JAX for GPUs and TPUs."""

import contextlib
import dataclasses
import functools
import json
import math
import pathlib
import time

import keras
import numpy as np

from keras_bert.checkpoints.save import save
from keras_bert.experiments.fit_snapshots import FitSnapshots
from keras_bert.experiments.origins import check_origins, data_origins
from keras_bert.experiments.pretraining_model import build_model, check_held_out, check_pairs, open_config, open_records
from keras_bert.files import difference, read_json, replacing, write_json
from keras_bert.models.trimmed import build_trimmed
from keras_bert.pretraining.record_dataset import RecordDataset
from keras_bert.pretraining.record_files import sequence_length
from keras_bert.training.interruption import Interruption
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.progress import Progress, announced

# Keras' name of each metric, and ours.
_METRICS = {
    "mlm_logits_cross_entropy": "mlm_loss",
    "nsp_logits_cross_entropy": "nsp_loss",
    "mlm_logits_accuracy": "mlm_accuracy",
    "nsp_logits_accuracy": "nsp_accuracy",
}


class FitRun:
    """Pre-trains a model by `model.fit`, on JAX on all devices. Ctrl-C and SIGTERM save a snapshot, where it resumes.

    The order of the records, their masks and dropout are functions of seed and step: a resumed run ends with the
    weights of an uninterrupted one, up to rounding. The training metrics of a line are those since the last snapshot.

    Args:
        settings: `PretrainingSettings`, without accumulation, packed rows and teachers.
        sources: list of folders or glob patterns of uncompressed records, one for each sequence length.
        directory: output folder: `metrics.jsonl`, `snapshots/` and `model/`.
        held_out: folder or glob pattern of the records to evaluate on, or `None`.
        examples: int, maximum number of examples to evaluate on. Defaults to 2000.
        vocabulary: `vocab.txt` for records without one.
        lowercase: bool, whether the vocabulary is uncased, if the records do not say. Defaults to `True`.

    Attributes:
        model, trained: the pre-trainer, and the model with its weights that `fit` trains, see `build_trimmed`.
        records, held_out: list of `RecordDataset`, those of each phase, and the one to evaluate on or `None`.
        directory: the output folder.
        step: int, the number of finished steps.
    """

    def __init__(self, settings, sources, directory, held_out=None, examples=2000, vocabulary=None, lowercase=True):
        check(settings)
        self.settings, self.directory, self._lowercase = settings, pathlib.Path(directory), lowercase
        open_source = functools.partial(self._open, vocabulary=vocabulary)
        lengths = [sequence_length(source) for source in sources]
        self.records = open_records(settings.phases, sources, lengths, settings.seed, open_source)
        self.held_out = None
        if held_out:
            options = {"batch_size": self.records[0].batch_size, "shuffle": False, "limit": examples}
            self.held_out = check_held_out(open_source(held_out, **options), self.records[0])
        stored = self._check_settings()
        _distribute([phase["batch"] for phase in settings.phases])
        origins = data_origins(self.records)
        self.model = self._build(origins)
        check_origins(self.directory / "snapshots", origins)
        self.trained = self._compiled(self.model)
        self._generators = [
            layer.seed_generator for layer in self.model._flatten_layers() if getattr(layer, "rate", 0) > 0
        ]
        self._seeds = [np.array(generator.state) for generator in self._generators]
        self._snapshots = FitSnapshots(self.directory / "snapshots")
        self.step = self._restore()
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / "settings.json", stored)

    def _open(self, source, vocabulary, **options):
        settings = self.settings
        records = RecordDataset(
            source,
            vocabulary,
            masking=settings.objective.masking,
            next_sentence=settings.objective.next_sentence,
            **options,
        )
        return check_pairs(records, source, settings.objective)

    def _build(self, origins):
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        options = settings.encoder_options
        longest = max(records.sequence_length for records in [*self.records, self.held_out or self.records[0]])
        fits = settings.objective, self.records[0].vocabulary, longest
        return build_model(settings.config, settings.model, *fits, origins, **options)

    def _compiled(self, model):
        """Returns the model to train, with the same weights."""
        settings, model = self.settings, build_trimmed(model)
        optimizer = create_optimizer(
            model,
            settings.learning_rate,
            settings.steps,
            round(settings.warmup * settings.steps),
            bias_correction=settings.bias_correction,
            kind=settings.optimizer,
        )
        if settings.precision == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        losses = self.records[0].losses()
        model.compile(optimizer, losses, weighted_metrics={name: _metrics() for name in losses})
        return model

    def fit(self):
        """Trains the remaining steps, saves the model with each snapshot, and returns the last results."""
        settings, results, end = self.settings, {}, 0
        progress, interruption = Progress(), Interruption()
        if not self.step:
            progress.say(f"{self.model.count_params():,} weights, {settings.steps:,} steps")
        progress.begin(self.step, settings.steps, finished=self.step == settings.steps)
        with contextlib.closing(progress), interruption.handled():
            for records, phase in zip(self.records, settings.phases, strict=True):
                begin, end = end, end + phase["steps"]
                while self.step < end:
                    # Multiples of `save_every`, also after a phase that ended between them.
                    stop = min(end, (self.step // settings.save_every + 1) * settings.save_every)
                    records.start, records.steps = self.step - begin, stop - begin
                    results = self._fit(records, stop, progress, interruption)
        return results

    def _fit(self, records, stop, progress, interruption):
        """Trains up to a step; evaluates and saves."""
        self._set_seeds()
        with contextlib.ExitStack() as first:
            first.enter_context(announced("compiling the training step"))
            line = functools.partial(self._line, "train")
            follower = _Follower(self.step, records.batch_size, progress, interruption, line, first.close)
            history = self.trained.fit(records, shuffle=False, verbose=0, callbacks=[follower]).history
        if interruption.requested and follower.step < stop:
            self.step = follower.step
            self._save([])
            self._say_goodbye(progress, interruption)
        self.step = stop
        numbers = {name: values[0] for name, values in history.items()}
        if not math.isfinite(numbers["loss"]):
            raise FloatingPointError(f"the loss of steps up to {stop:,} is {numbers['loss']}. Lower the learning rate")
        lines = [self._line("train", numbers)]
        if self.held_out:
            evaluation = self.trained.evaluate(self.held_out, return_dict=True, verbose=0)
            lines.append(self._line("evaluation", evaluation))
            progress.evaluated(self.step, {name: lines[-1][name] for name in lines[-1] if name not in ("step", "kind")})
        self._save(lines)
        if interruption.requested and self.step < self.settings.steps:
            self._say_goodbye(progress, interruption)
        return lines[-1]

    def _say_goodbye(self, progress, interruption):
        place = f"stopped at step {self.step:,} of {self.settings.steps:,}"
        interruption.stop(f"{place}, saved to {self.directory}; repeat the command to continue", progress.say)

    def _line(self, kind, numbers):
        """Returns a line of `metrics.jsonl`."""
        if not self.settings.objective.next_sentence:  # Keras does not repeat the name of the only output.
            numbers = {f"mlm_logits_{name}": value for name, value in numbers.items()}
        found = {ours: float(numbers[name]) for name, ours in _METRICS.items() if name in numbers}
        return {"step": self.step, "kind": kind, **found, "mlm_perplexity": math.exp(min(found["mlm_loss"], 700))}

    def _save(self, lines):
        """Saves metrics, model and snapshot. The snapshot comes last: a resumed run repeats what follows it."""
        with open(self.directory / "metrics.jsonl", "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        known = self.records[0].settings
        casing = {"lowercase": known.get("lowercase", self._lowercase), "strip_accents": known.get("strip_accents")}
        save(self.model, self.directory / "model", self.records[0].vocabulary, **casing)
        self._snapshots.save(self.step, self.trained)

    def _restore(self):
        """Loads the newest undamaged snapshot and returns its step, 0 if there is none."""
        step = self._snapshots.restore(self.trained)
        log = self.directory / "metrics.jsonl"
        if log.exists():
            lines = log.read_text().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
            with replacing(log) as temporary:
                temporary.write_text("".join(kept))
        return step

    def _check_settings(self):
        """Returns the settings; raises if those of an interrupted run differ."""
        settings, path = self.settings, self.directory / "settings.json"
        size = settings.config and dataclasses.asdict(open_config(settings.config, self.records[0].vocabulary))
        given = dataclasses.asdict(settings) | {"config": size}
        given["examples"] = [records.examples for records in self.records]
        given["data"] = [records.settings for records in self.records]
        del given["save_every"]  # May differ.
        given = json.loads(json.dumps(given))
        if not path.exists() and (self.directory / "metrics.jsonl").exists():
            raise ValueError(f"{self.directory}: contains another kind of run. Expected another --output_dir")
        if path.exists() and (differs := difference(read_json(path), given)):
            raise ValueError(
                f"{self.directory}: contains a run with other settings: {differs}. Expected the same settings, or "
                "another --output_dir"
            )
        return given

    def _set_seeds(self):
        """Sets the generators of dropout, which Keras does not restore: each draws once per step."""
        for generator, seed in zip(self._generators, self._seeds, strict=True):
            generator.state.assign(seed + np.array([0, self.step], "uint32"))


class _Follower(keras.callbacks.Callback):
    """Counts and shows steps, and ends `fit` after the current one when the run is interrupted.

    Args:
        step: int, the number of finished steps.
        batch_size: int, examples per step.
        progress: a `Progress`.
        interruption: an `Interruption`.
        line: function from Keras' metrics to a line of `metrics.jsonl`.
        after_first: function to call after the first step, which compiles.
    """

    def __init__(self, step, batch_size, progress, interruption, line, after_first):
        super().__init__()
        self.step, self._batch_size, self._line, self._after_first = step, batch_size, line, after_first
        self._progress, self._interruption = progress, interruption
        self._started = self._shown = None

    def on_train_batch_end(self, batch, logs=None):
        self.step, now = self.step + 1, time.monotonic()
        if self._interruption.requested:
            self.model.stop_training = True
        if self._started is None:  # The speed excludes the first step.
            self._after_first()
            self._started = self._shown = now
        elif now - self._shown >= 1:  # Not each step: reading the numbers waits for it.
            self._shown, line = now, self._line(logs)
            rates = {"examples": self._batch_size * batch / (now - self._started)}
            self._progress.show(self.step, {name: line[name] for name in line if name.endswith("_loss")}, rates)


def check(settings):
    """Raises an error for settings that only `Trainer` supports."""
    objective = settings.objective
    unsupported = {
        "--causal": objective.causal,
        "a bilm": objective.both_directions,
        "--pack": settings.pack,
        "--teacher": settings.teacher,
        "--student_layers": settings.student_layers,
        "--gradient_accumulation": settings.gradient_accumulation > 1,
    }
    for name, given in unsupported.items():
        if given:
            raise ValueError(f"--engine=fit: not with {name}. Expected --engine=trainer, on TensorFlow")


def _metrics():
    """Returns accuracy and loss as means over all predictions; Keras' own loss is a mean of the means of batches."""
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    return [accuracy, keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)]


def _distribute(batches):
    """Distributes the batches over all devices, on JAX."""
    if keras.config.backend() != "jax":
        return
    devices = keras.distribution.list_devices()
    if uneven := [batch for batch in batches if batch % len(devices)]:
        raise ValueError(
            f"--phase: expected a batch that is divisible by the number of devices, {len(devices)}. "
            f"Received: batch:{uneven[0]}"
        )
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
