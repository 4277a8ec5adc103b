"""Fine-tuning over a grid of settings and seeds: runs, the best model, its export and the reports.

A `Task` has what is specific to the task, `Run` the training, `Finetuning` everything else.
"""

import contextlib
import gc
import logging
import math
import pathlib

import numpy as np

from keras_bert.checkpoints.load import load_models
from keras_bert.checkpoints.save import save
from keras_bert.data.bucketing import Batches
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.files import read_lines, replacing
from keras_bert.models.tuning import enable_lora, freeze_layers
from keras_bert.rewirings.trimmed import build_packed, build_trimmed
from keras_bert.runs import grid
from keras_bert.runs.grid import GridRuns
from keras_bert.runs.results import Results, indented
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import rate_advice
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distribution import is_chief, sum_over_replicas
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.program import Programs
from keras_bert.training.seeds import set_random_seed
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
_OPTIMIZER_FIELDS = ("weight_decay", "epsilon", "bias_correction", "layer_decay")


class Run:
    """Trains a model with a setting of a grid. Interrupted, it resumes.

    `runs` is the `Finetuning` with the task, the hyperparameters and the devices. A subclass may train on other rows,
    choose among several weights, or train another model.
    """

    def __init__(self, runs, setting, folder):
        self.runs, self.setting, self.folder = runs, setting, folder
        self.task, self.hyperparameters = runs.task, runs.hyperparameters

    def finish(self):
        """Trains the model and computes its logits.

        Returns:
            The trainer; the result, a dict with `scores`; and the logits of each split, dicts of arrays:
            `{"dev": {...}, "test": {...}}`. A run that raises `FloatingPointError` is ranked last; the grid continues.
        """
        trainer, result = self.train(self.task.train, self.select())
        logits = {
            "dev": self.task.dev_logits(trainer.fitted_outputs),
            "test": self.task.test_logits(trainer.fitted_outputs),
        }
        return trainer, result, logits

    def select(self):
        """Selects the setting in the task; of several workers the first one writes files, which the others read."""
        strategy, writes = self.runs.strategy, self.runs.grid_runs.write
        if strategy and not writes:
            sum_over_replicas(strategy, 0)
        dev = self.task.select(self.setting)
        if strategy and writes:
            sum_over_replicas(strategy, 0)
        return dev

    def train(self, stages, dev):
        """Trains a model in stages. Returns its trainer, and its result: the scores on `dev` and their epoch."""
        _LOG.info("%s", indented(f"training: {grid.setting_text(self.setting)}"))
        set_random_seed(self.setting["seed"], keep_kernels=self.runs.programs.has_program)
        *earlier, last = stages
        weights, shared, epochs = None, self.hyperparameters, self.setting["epochs"]
        for number, stage in enumerate(earlier, 1):
            weights = self._weights_after(stage, self.folder / f"before_{number}", weights)
        trainer, batches = self.create_trainer(last, self.folder, weights, self.task.score)
        before = self._scores_before(trainer, dev)
        scores = trainer.fit(
            batches,
            epochs=epochs,
            evaluation=dev,
            best=self.task.metric if shared.best else None,
            patience=shared.patience,
            save_every=self.runs.save_every,
            log_every=self.runs.log_every,
            progress=self.runs.grid_runs.progress,
        )
        if trainer.trained_steps < epochs * batches.steps:
            ended = -(-trainer.trained_steps // batches.steps)
            _LOG.info("%s", indented(f"stopped early after epoch {ended} of {epochs}"))
        epoch = -(-scores.pop("step", trainer.trained_steps) // batches.steps)
        result = {"scores": scores, "epoch": epoch}
        if before:
            result["before"] = before
            if scores[self.task.metric] < before[self.task.metric]:
                _LOG.warning("training made the %s on dev worse, see the scores before training", self.task.metric)
        if shared.lora_rank:
            result["trained_weights"] = sum(math.prod(weight.shape) for weight in trainer.model.trainable_weights)
        if self.runs.grid_runs.write and not self.task.compares_start:
            self._advise(result)
        return trainer, result

    def _scores_before(self, trainer, dev):
        """Returns the scores of the model to start from, computed by the first run; `None` if no one asks."""
        if self.task.compares_start and dev is not None and self.runs.before is None:
            losses = {loss.name for loss in trainer.losses}
            found = trainer.evaluate(dev)
            self.runs.before = {name: value for name, value in found.items() if name not in losses}
            _LOG.info("%s", indented(f"before training: {data_summary.listed(self.runs.before)}"))
        return self.runs.before

    def _advise(self, result):
        """Adds a sentence about the learning rate to the result of a run whose loss hardly fell."""
        lines, rate = read_lines(self.folder / "metrics.jsonl"), self.setting["learning_rate"]
        if text := rate_advice(lines, rate, self.task.default_rates):
            _LOG.warning("%s: %s", grid.setting_text(self.setting), text)
            result["advice"] = text

    def _weights_after(self, stage, folder, weights):
        """Returns the weights after one stage; its trainer is freed before the next one is created."""
        trainer, batches = self.create_trainer(stage, folder, weights)
        runs = self.runs
        trainer.fit(batches, epochs=self.setting["epochs"], log_every=runs.log_every, progress=runs.grid_runs.progress)
        return trainer.model.get_weights()

    def create_trainer(self, stage, folder, weights, metrics=()):
        """Returns the trainer of one stage and its batches."""
        task, setting, shared = self.task, self.setting, self.hyperparameters
        options = {"batch_size": setting["batch_size"], "seed": setting["seed"]}
        if shared.pack:
            batches = PackedBatches(*stage(), **options)
        else:
            batches = (task.batches or Batches)(*stage(), grouped=shared.group_by_length, **options)
        steps, name = setting["epochs"] * batches.steps, setting.get("model", task.model)

        def optimizer(model):
            warmup = round(shared.warmup * steps)
            options = {field: getattr(shared, field) for field in _OPTIMIZER_FIELDS}
            return create_optimizer(model, setting["learning_rate"], steps, warmup_steps=warmup, **options)

        trainer = Trainer(
            lambda: self._build(name, weights),
            optimizer,
            task.loss,
            metrics=metrics,
            settings={"model": name, "precision": shared.precision},
            # Both have the model's logits: on rows without padding, or without vectors that its head does not read.
            rewire=build_packed if shared.pack else build_trimmed,
            **self.options(folder),
        )
        return trainer, batches

    def options(self, folder):
        """Returns the arguments of `Trainer` that are the same for all models."""
        runs = self.runs
        name = f"{self.task.title}, {grid.setting_text(self.setting)}"
        return {
            "directory": folder,
            "strategy": runs.strategy,
            "micro_batches": self.hyperparameters.gradient_accumulation,
            "seed": self.setting["seed"],
            "programs": runs.programs,
            "callbacks": [*create_callbacks(runs.report_to, folder, name), *runs.callbacks],
        }

    def _build(self, name, weights):
        start, shared = self.task.start, self.hyperparameters
        bert = (start.load or load_models)(name, dtype=shared.precision, **start.load_options)
        check_unchanged(self.runs.output / "runs", {name: bert.identity}, write=False)  # It may change meanwhile.
        model = self.task.build(bert)
        if shared.lora_rank is not None:
            enable_lora(model, shared.lora_rank, alpha=shared.lora_alpha)
        if weights is not None:
            model.set_weights(weights)
        if shared.freeze_layers is not None:
            freeze_layers(model, shared.freeze_layers)
        if not model.trainable_weights:
            raise ValueError(f"`freeze_layers`: nothing is left to train. Received: {shared.freeze_layers}")
        return model


class Finetuning:
    """Runs a grid, keeps the best model on dev, exports it and writes the reports. Interrupted runs resume.

    `choices` has lists of values for `learning_rate`, `batch_size`, `epochs`, `seed` and, if the task has them, `model`
    or `features`; `hyperparameters` are those of all runs. The `ensemble` is that of the best runs. There are
    `log_every` steps between lines of a run's `metrics.jsonl`; for `report_to` see `create_callbacks`.

    Attributes:
        run_class: the class of a run, `Run` or a subclass.
        callbacks: list of more callbacks of each run, see `Trainer`.
        save_every: int, steps between snapshots, 0 for none. Defaults to one epoch.
        results: the content of `results.json`, set by `finish`.
        evaluated_on: string, what the scores are from. Defaults to "dev".
        results_class: subclass of `Results`, which writes them.
        keeps_best: bool, whether the model of the best run is saved. Defaults to `True`.
        before: dict, the scores of the model that runs start from, if the task asks for them.
        programs: `Programs`, those of the runs: runs of the same graph are traced once.
    """

    run_class, results_class, evaluated_on, keeps_best = Run, Results, "dev", True

    def __init__(
        self,
        task,
        choices,
        hyperparameters,
        output,
        ensemble=1,
        strategy=None,
        log_every=1,
        report_to=("tensorboard",),
    ):
        if hyperparameters.pack and not task.can_pack:
            raise ValueError(f"`pack`: only for classification and tagging with BERT. Received: {task.title}")
        self.report_to = report_to
        self.task, self.hyperparameters, self.strategy = task, hyperparameters, strategy
        self.settings, self.output, self.log_every = grid.settings(**choices), pathlib.Path(output), log_every
        self.grid_runs = GridRuns(output, task.metric, ensemble, strategy is None or is_chief(strategy), task.combine)
        self.callbacks, self.save_every, self.results, self.before = [], None, None, None
        self.programs = Programs()
        self.named_columns = {}  # `columns` of data in Python, which the task does not see.

    def run(self):
        """Trains the unfinished runs of the grid."""
        with _collecting_new_garbage():
            try:
                self.train_runs()
            finally:
                self.programs.clear()

    def train_runs(self):
        """Trains the unfinished runs, of which each hands its program to the next."""
        self._describe()
        check_unchanged(self.output / "runs", self.task.origins, self.grid_runs.write)
        for setting in self.grid_runs.unfinished(self.settings, self.common()):
            with self.grid_runs.started(setting) as folder:
                result = self._run(setting, folder)
            self.grid_runs.add(setting, result)
        self.grid_runs.finish()

    def _describe(self):
        _LOG.info("%s", self.task.title)
        for name, text in self.task.facts.items():
            _LOG.info("%s", indented(f"{name}: {text}"))
        for problem in self.task.warnings:
            _LOG.warning("%s", problem)
        rates = [*dict.fromkeys(setting.get("learning_rate") for setting in self.settings)]
        if self.task.rates_width and rates == self.task.default_rates:
            listed, width = ", ".join(f"{rate:g}" for rate in rates), self.task.rates_width
            _LOG.info("  learning rate: %s, the default for a width of %d; `learning_rate` sets others", listed, width)
        if len(self.settings) > 1:
            _LOG.info("  runs: %d", len(self.settings))

    def common(self):
        """Returns the settings that all runs share."""
        given = self.task.start.load_options
        options = {"load_options": dict(given)} if given else {}
        return {**self.task.run_settings, **self.hyperparameters.to_dict(), **options}

    def _run(self, setting, folder):
        """Trains a run; keeps its logits, and its model if it is the best one yet. Returns its result."""
        try:
            trainer, result, logits = self.run_class(self, setting, folder).finish()
        except FloatingPointError as error:
            _LOG.warning("%s diverged and is ranked last: %s", grid.setting_text(setting), error)
            return {"scores": {self.task.metric: math.nan}, "diverged": str(error)}
        if self.grid_runs.write:
            for split, arrays in logits.items():
                with replacing(folder / f"{split}.npz") as temporary:
                    np.savez(temporary, **arrays)
            if self.keeps_best and self.grid_runs.is_best(setting, result):
                self.grid_runs.keep(setting)
                self.save(trainer.model, logits["dev"], setting)
        return result

    def save(self, model, logits, setting):
        """Saves the model of a run, given its dev logits."""
        bert = self.task.bert
        for folder in self.formats():
            base = setting.get("model", self.task.model)
            options = {"format": "peft", "base": base} if folder == "adapter" else {}
            save(
                self.task.complete(model),
                self.output / folder,
                bert.vocabulary,
                lowercase=bert.lowercase,
                strip_accents=bert.strip_accents,
                sequence_length=self.task.sequence_length,
                model_type=getattr(bert, "model_type", None),
                task_settings=self.task.stored_settings or None,
                overwrite=True,  # The best model yet replaces the one before, which the grid may have from another.
                **{**self.task.save_options(logits), **self.named_columns},
                **options,
            )

    def formats(self):
        """Returns the folders of the model. Adapters are those of BERT's layout."""
        if not self.hyperparameters.lora_rank or getattr(self.task.bert, "model_type", "bert") != "bert":
            return ["model"]
        return ["model", "adapter"]

    def finish(self):
        """Writes the results, see `Results`, and exports the best model. Returns the text to print."""
        writer = self.results_class(self)
        text = writer.write()
        self.results = writer.results
        return text


@contextlib.contextmanager
def _collecting_new_garbage():
    """Limits garbage collections to the objects that the block creates.

    After each run of a grid, all garbage is collected, to free its model. The objects of TensorFlow and of a user's
    program are many times those of a run, and would be looked at each time.
    """
    if gc.get_freeze_count():  # Of a program that has chosen for itself.
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def load_compatible(models, load=load_models, **options):
    """Loads models that are tried on the same features, and so must share vocabulary and casing.

    Returns the facts of all by name, and the first loaded model.
    """
    first = load(models[0], **options)
    origins = {models[0]: first.identity}
    for name in models[1:]:
        bert = load(name, **options)
        origins[name] = bert.identity
        if any(getattr(bert, fact) != getattr(first, fact) for fact in ("vocabulary", "lowercase", "strip_accents")):
            raise ValueError(f"`model`: {name} differs in vocabulary or casing from {models[0]}")
    return origins, first
