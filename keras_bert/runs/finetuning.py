"""Fine-tuning over a grid of settings and seeds: runs, the best model, its export and the reports.

A `Task` has what is specific to the task, `Run` the training, `Finetuning` everything else.
"""

import contextlib
import dataclasses
import gc
import logging
import math
import pathlib
from typing import Any

import numpy as np

from keras_bert.checkpoints import peft
from keras_bert.checkpoints.load import load_models
from keras_bert.checkpoints.save import save
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.data.splits import Folds
from keras_bert.files import json_text, read_lines, replacing, write_text
from keras_bert.heads.registry import head_named
from keras_bert.models.description import is_encoder_layer, layers_of, nested_encoder
from keras_bert.models.tuning import enable_lora, freeze_layers
from keras_bert.rewirings.trimmed import build_packed
from keras_bert.runs import grid
from keras_bert.runs.grid import GridRuns
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.rehearsal import is_own, rehearse
from keras_bert.runs.results import Results, indented
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.tasks import confidence
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import rate_advice
from keras_bert.tasks.few_examples import FewExamples, few_steps
from keras_bert.tasks.teacher import Teacher
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distribution import is_chief, sum_over_replicas
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.program import Programs
from keras_bert.training.seeds import set_random_seed
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
_OPTIMIZER_FIELDS = ("weight_decay", "epsilon", "bias_correction", "layer_decay")


@dataclasses.dataclass(frozen=True)
class StageWeights:
    """The weights after a stage, with which the next one starts."""

    name: str  # Of the stage.
    everything: list
    encoder: dict  # Those of the encoder's layers, lists of arrays by name.

    @classmethod
    def of(cls, stage, model):
        """Returns the weights of a model that a stage has trained."""
        return cls(stage.name, model.get_weights(), {name: layer.get_weights() for name, layer in _encoder(model)})

    def assign(self, stage, model):
        """Gives the model of the next stage all weights if it is the same model, or else those of the encoder."""
        if stage.name == self.name:
            model.set_weights(self.everything)
            return
        for name, layer in _encoder(model):
            if name in self.encoder:  # Not every model has the pooler.
                layer.set_weights(self.encoder[name])


def _encoder(model):
    """Returns the layers of the encoder of a model with weights, pairs of a name and a layer."""
    layers = layers_of(nested_encoder(model))
    return [(name, layer) for name, layer in layers.items() if is_encoder_layer(name) and layer.weights]


def _has_same_head(task, other):
    """Whether two tasks train the same head, with the same classes in the same order."""
    if (task.head, task.labels) != (other.head, other.labels):
        return False
    return task.head_options() == other.head_options()


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
        trainer, result = self.train(self.stages())
        report = self.task.report
        logits = {
            "dev": report.dev_logits(trainer.fitted_outputs),
            "test": report.test_logits(trainer.fitted_outputs),
        }
        return trainer, result, logits

    def stages(self):
        """Returns the stages; of several workers the first one writes files for them, which the others read."""
        strategy, writes = self.runs.strategy, self.runs.grid_runs.write
        if strategy and not writes:
            sum_over_replicas(strategy, 0)
        stages = self.runs.stages(self.setting)
        if strategy and writes:
            sum_over_replicas(strategy, 0)
        return stages

    def train(self, stages):
        """Trains a model in stages. Returns its trainer, and its result: the scores on dev and their epoch."""
        _LOG.info("%s", indented(f"training: {grid.setting_text(self.setting)}"))
        set_random_seed(self.setting["seed"], keep_kernels=self.runs.programs.has_program)
        *earlier, last = stages
        weights, shared = None, self.hyperparameters
        metric = self.task.report.metric
        for number, stage in enumerate(earlier, 1):
            weights = self._weights_after(stage, self.folder / f"before_{number}", weights)
        if last.solve is not None:
            return self._solved(last, weights)
        trainer, batches = self.create_trainer(last, self.folder, weights, last.score)
        epochs = self.setting["epochs"]
        if advice := few_steps(self.task, epochs * batches.steps):
            _LOG.info("%s", indented(advice))
        before = self._scores_before(trainer, last.dev)
        scores = trainer.fit(
            batches,
            epochs=epochs,
            evaluation=last.dev,
            best=metric if shared.best else None,
            patience=shared.patience,
            save_every=self.runs.plan.save_every,
            log_every=self.runs.plan.log_every,
            progress=self.runs.grid_runs.progress,
        )
        if trainer.trained_steps < epochs * batches.steps:
            ended = -(-trainer.trained_steps // batches.steps)
            _LOG.info("%s", indented(f"stopped early after epoch {ended} of {epochs}"))
        epoch = -(-scores.pop("step", trainer.trained_steps) // batches.steps)
        result = {"scores": scores, "losses": trainer.loss_names, "epoch": epoch}
        if before and last.dev is not None:
            result["before"] = before
            if scores[metric] < before[metric]:
                _LOG.warning("training made the %s on dev worse, see the scores before training", metric)
        if shared.lora_rank:
            result["trained_weights"] = sum(math.prod(weight.shape) for weight in trainer.model.trainable_weights)
        if self.runs.grid_runs.write and not self.task.training.compares_start:
            self._advise(result)
        return trainer, result

    def _solved(self, stage, weights):
        """Trains the head of a stage without steps. Returns what `train` does."""
        trainer = stage.solve(self._build(stage, self._start_name, weights))
        if self.runs.grid_runs.write:
            line = {"kind": "train", "step": 1, **trainer.losses}
            write_text(self.folder / "metrics.jsonl", json_text(line) + "\n")
        scores = trainer.losses if stage.dev is None else trainer.evaluate(stage.dev)
        return trainer, {"scores": scores, "losses": trainer.loss_names}  # A head has no epochs.

    def _scores_before(self, trainer, dev):
        """Returns the scores of the model to start from, computed by the first run; `None` if no one asks."""
        if self.task.training.compares_start and dev is not None and self.runs.before is None:
            found = trainer.evaluate(dev)
            self.runs.before = {name: value for name, value in found.items() if name not in trainer.loss_names}
            _LOG.info("%s", indented(f"before training: {data_summary.listed(self.runs.before)}"))
        return self.runs.before

    def _advise(self, result):
        """Adds a sentence about the learning rate to the result of a run whose loss hardly fell."""
        lines, rate = read_lines(self.folder / "metrics.jsonl"), self.setting["learning_rate"]
        if text := rate_advice(lines, result["losses"], rate, self.task.training.default_rates):
            _LOG.warning("%s: %s", grid.setting_text(self.setting), text)
            result["advice"] = text

    def _weights_after(self, stage, folder, weights):
        """Returns the `StageWeights` after one stage; its trainer is freed before the next one is created."""
        trainer, batches = self.create_trainer(stage, folder, weights)
        trainer.fit(
            batches,
            epochs=self.setting["epochs"],
            save_every=self.runs.plan.save_every,
            log_every=self.runs.plan.log_every,
            progress=self.runs.grid_runs.progress,
        )
        return StageWeights.of(stage, trainer.model)

    def create_trainer(self, stage, folder, weights, metrics=()):
        """Returns the trainer of one stage and its batches."""
        task, setting, shared = self.task, self.setting, self.hyperparameters
        name, batches = self._start_name, self._batches(stage)
        steps, rate = setting["epochs"] * batches.steps, setting["learning_rate"]

        def optimizer(model):
            warmup = round(shared.warmup * steps)
            options = {field: getattr(shared, field) for field in _OPTIMIZER_FIELDS}
            return create_optimizer(model, rate, steps, warmup_steps=warmup, **options)

        trainer = Trainer(
            lambda: self._build(stage, name, weights),
            optimizer,
            stage.loss,
            metrics=metrics,
            settings={"model": name, "precision": shared.precision},
            # Both have the model's logits: on rows without padding, or without vectors that its head does not read.
            rewire=build_packed if shared.pack else stage.rewire or task.training.rewire,
            **self.options(folder),
        )
        return trainer, batches

    def _batches(self, stage):
        """Returns the batches to train a stage on."""
        options = {"batch_size": self.setting["batch_size"], "seed": self.setting["seed"]}
        if self.hyperparameters.pack:
            return PackedBatches(*stage.examples(), **options)
        return stage.batches(*stage.examples(), grouped=self.hyperparameters.group_by_length, **options)

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
            "callbacks": [*create_callbacks(runs.plan.report_to, folder, name), *runs.plan.callbacks],
        }

    @property
    def _start_name(self):
        """The directory or name of the model that the run starts from."""
        return self.setting.get("model", self.task.model)

    def _loaded(self, name, keeps_encoder):
        """Returns the loaded model to start from; a run that keeps its encoder needs no copy."""
        start, precision = self.task.start, self.hyperparameters.precision
        is_start = keeps_encoder and name == self.task.model and not start.load_options
        if is_start and start.bert.encoder.get_layer("token_embedding").dtype_policy.name == precision:
            return start.bert
        return (start.load or load_models)(name, dtype=precision, **start.load_options)

    def _build(self, stage, name, weights):
        shared = self.hyperparameters
        bert = self._loaded(name, keeps_encoder=stage.solve is not None and weights is None)
        check_unchanged(self.runs.output / "runs", {name: bert.identity}, write=False)  # It may change meanwhile.
        model = stage.build(bert)
        if shared.lora_rank is not None:
            enable_lora(model, shared.lora_rank, alpha=shared.lora_alpha)
        if weights is not None:
            weights.assign(stage, model)
        if shared.freeze_layers is not None:
            freeze_layers(model, shared.freeze_layers)
        if not model.trainable_weights:
            raise ValueError(f"`freeze_layers`: nothing is left to train. Received: {shared.freeze_layers}")
        return model


@dataclasses.dataclass(frozen=True)
class Plan:
    """What runs to train, and how.

    Args:
        task: the `Task`.
        choices: dict of lists of values for `learning_rate`, `batch_size`, `epochs`, `seed` and, if the task has them,
            `model` or `features`.
        hyperparameters: those of all runs.
        output: the folder of the results.
        ensemble: int, how many of the best runs answer together.
        strategy: a `tf.distribute.Strategy`. Defaults to `None`, one device.
        log_every: int, steps between lines of a run's `metrics.jsonl`.
        report_to: see `create_callbacks`.
        callbacks: more callbacks of each run, see `Trainer`.
        save_every: int, steps between snapshots, 0 for none. Defaults to one epoch.
        counts_earlier: bool, whether runs of earlier grids in the folder count, too.
        data_names: dict, what messages call data, by their names among the settings that all runs share.
        teacher: a `Teacher`, from which the models learn in their last stage. Defaults to `None`.
        intermediate: other tasks, on whose rows the models are trained before.
        folds: `Folds` of a `CrossValidation`. Defaults to `None`.
        columns: `columns` of the metadata for data in Python, whose names the task does not see.
        source: the `Source` of the rows that folds divide. Defaults to `None`: no file of rows to check is written.
        few_examples: the `FewExamples` that trains the models. Defaults to `None`, steps of the whole model.
    """

    task: Any
    choices: dict
    hyperparameters: Hyperparameters
    output: Any
    _: dataclasses.KW_ONLY
    ensemble: int = 1
    strategy: Any = None
    log_every: int = 1
    report_to: tuple = ("tensorboard",)
    callbacks: tuple = ()
    save_every: int | None = None
    counts_earlier: bool = True
    data_names: dict = dataclasses.field(default_factory=dict)
    teacher: Teacher | None = None
    intermediate: tuple = ()
    folds: Folds | None = None
    columns: dict = dataclasses.field(default_factory=dict)
    source: Any = None
    few_examples: FewExamples | None = None

    def __post_init__(self):
        if self.hyperparameters.pack:
            self._check_packs()
        if self.ensemble > 1 and not self.task.report.can_combine:
            raise ValueError(
                f"`ensemble`: the task {self.task.name} keeps one model, whose vectors are its own. Received: "
                f"ensemble={self.ensemble}"
            )

    def _check_packs(self):
        """Raises an error if several texts cannot share a row."""
        head = head_named(self.task.head)
        if self.task.reads_windows:
            raise ValueError("`pack`: several windows are one text. Expected another `long_texts` than 'windows'")
        if not self.task.training.can_pack or not head.packs:
            raise ValueError(
                f"`pack`: only for classification and tagging with BERT. Received: {self.task.title}, with the head "
                f"{head.name!r}"
            )

    @property
    def writes(self):
        """Whether this process writes files: of several workers, one does."""
        return self.strategy is None or is_chief(self.strategy)


class Finetuning:
    """Runs a grid, keeps the best model on dev, exports it and writes the reports. Interrupted runs resume.

    Attributes:
        plan: the `Plan`.
        settings: list of dicts, the settings of the grid.
        grid_runs: the finished runs of the folder; `grid_runs.results` has a dict with `setting` and `scores` of each.
        run_class: the class of a run, `Run` or a subclass.
        results: the content of `results.json`, set by `finish`.
        evaluated_on: string, what the scores are from. Defaults to "dev".
        results_class: subclass of `Results`, which writes them.
        keeps_best: bool, whether the model of the best run is saved. Defaults to `True`.
        before: dict, the scores of the model that runs start from, if the task asks for them.
        programs: `Programs`, those of the runs: runs of the same graph are traced once.

    Example:
        bert = keras_bert.load("google-bert/bert-base-uncased")
        settings = TaggingTask.Settings()
        task = TaggingTask(settings.read("train.txt", "dev.txt"), Start(bert.name, bert), settings)
        choices = {"learning_rate": [3e-5, 5e-5], "batch_size": [32], "epochs": [3], "seed": [1, 2]}
        finetuning = Finetuning(Plan(task, choices, Hyperparameters(), "runs/tags"))
        finetuning.run()
        print(finetuning.finish())
    """

    run_class, results_class, evaluated_on, keeps_best = Run, Results, "dev", True

    def __init__(self, plan):
        self.plan, self.task, self.hyperparameters = plan, plan.task, plan.hyperparameters
        confidence.check_rows(self.task)
        self.strategy, self.output = plan.strategy, pathlib.Path(plan.output)
        self.settings = grid.settings(**self.choices())
        self.grid_runs = self.make_grid_runs()
        self.results, self.before = None, None
        self.programs = Programs()

    def choices(self):
        """Returns the choices of the grid."""
        return self.plan.choices

    def make_grid_runs(self):
        """Returns the `GridRuns`, which have the results."""
        plan, report = self.plan, self.task.report
        return GridRuns(
            self.output,
            report.metric,
            plan.ensemble,
            write=plan.writes,
            combine=report.combine,
            counts_earlier=plan.counts_earlier,
            names=plan.data_names,
        )

    def stages(self, setting, task=None):
        """Returns the stages of a run; `task` is that of a fold, by default that of all rows."""
        task = self.task if task is None else task
        if self.plan.few_examples is not None:
            return self.plan.few_examples.stages(task, setting)
        earlier = []
        for other in self.plan.intermediate:
            for stage in other.training.stages(setting):
                if other.name == task.name and not _has_same_head(other, task):
                    # Only a head with the same classes goes on to the next stage.
                    stage = dataclasses.replace(stage, name=f"{stage.name} of other classes")
                rewire = stage.rewire or other.training.rewire  # Texts of the last stage may have windows.
                earlier.append(dataclasses.replace(stage, dev=None, rewire=rewire))
        stages = earlier + task.training.stages(setting)
        if self.plan.teacher is not None:
            stages[-1] = self.plan.teacher.taught(stages[-1])
        return stages

    @property
    def facts(self):
        """Entries about the data, and about the teacher if there is one, for the head of the report."""
        facts = dict(self.task.report.facts)
        if self.plan.intermediate:
            parts = []
            for task in self.plan.intermediate:
                summary = task.report.summary
                parts.append(f"{task.title}, {summary.train:,} {summary.unit}")
            facts["trained before on"] = "; ".join(parts)
        if self.plan.teacher is not None:
            facts |= self.plan.teacher.facts
        return facts

    @property
    def is_held_out(self):
        """Whether the scores are those on rows that the models were not trained on."""
        return self.task.held_out or self.plan.folds is not None

    @property
    def origins(self):
        """Facts about the models that runs start from or learn from, by name, see `check_unchanged`."""
        origins = self.task.origins
        return origins if self.plan.teacher is None else {**origins, **self.plan.teacher.origins}

    def run(self):
        """Trains the unfinished runs of the grid."""
        with _collecting_new_garbage():
            try:
                self.train_runs()
            finally:
                self.programs.clear()
        self._compare_methods()

    def train_runs(self):
        """Trains the unfinished runs, of which each hands its program to the next."""
        if is_own(self.task):
            self.task.report.take_score_names(rehearse(self.task))
        self._describe()
        check_unchanged(self.output / "runs", self.origins, write=self.grid_runs.write)
        for setting in self.grid_runs.unfinished(self.settings, self.common()):
            with self.grid_runs.started(setting) as folder:
                result = self._run(setting, folder)
            self.grid_runs.add(setting, result)
        self.grid_runs.finish()

    def _compare_methods(self):
        """Shows the best mean of each method for few examples, of those that are compared."""
        if self.plan.few_examples is None or len(self.plan.few_examples.methods) < 2:
            return
        metric, shown = self.task.report.metric, set()
        for row in grid.seed_statistics(self.grid_runs.results, metric):
            method = row["setting"]["method"]
            if method not in shown:
                _LOG.info(
                    "  method %s: %s on %s", method, data_summary.listed({metric: row["mean"]}), self.evaluated_on
                )
                shown.add(method)

    def _describe(self):
        _LOG.info("%s", self.task.title)
        report, training = self.task.report, self.task.training
        for name, text in self.facts.items():
            _LOG.info("%s", indented(f"{name}: {text}"))
        for problem in report.warnings:
            _LOG.warning("%s", problem)
        rates = [*dict.fromkeys(setting.get("learning_rate") for setting in self.settings)]
        if training.rates_width and rates == training.default_rates:
            listed, width = ", ".join(f"{rate:g}" for rate in rates), training.rates_width
            _LOG.info("  learning rate: %s, the default for a width of %d; `learning_rate` sets others", listed, width)
        if self.hyperparameters.lora_rank and not peft.has_place_for(self.task.head):
            _LOG.info("  LoRA: peft's format has no place for the head %s: no `adapter` is written", self.task.head)
        if len(self.settings) > 1:
            _LOG.info("  runs: %d", len(self.settings))

    def common(self):
        """Returns the settings that all runs share."""
        common = dict(self.task.run_settings)
        if self.plan.teacher is not None:
            common |= self.plan.teacher.run_settings
        if self.plan.intermediate:
            common["intermediate"] = [task.run_settings for task in self.plan.intermediate]
        common |= self.hyperparameters.to_dict()
        if self.task.start.load_options:
            common["load_options"] = dict(self.task.start.load_options)
        return common

    def _run(self, setting, folder):
        """Trains a run; keeps its logits, and its model if it is the best one yet. Returns its result."""
        try:
            trainer, result, logits = self.run_class(self, setting, folder).finish()
        except FloatingPointError as error:
            _LOG.warning("%s diverged and is ranked last: %s", grid.setting_text(setting), error)
            return {"scores": {self.task.report.metric: math.nan}, "diverged": str(error)}
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
                self.task.training.complete(model),
                self.output / folder,
                bert.vocabulary,
                lowercase=bert.lowercase,
                strip_accents=bert.strip_accents,
                **self.task.stored_reading,
                model_type=getattr(bert, "model_type", None),
                # Empty for rows of a task's own: they tell that answers need the task.
                task_settings=self.task.stored_settings or ({} if self.task.rows.convert else None),
                overwrite=True,  # The best model yet replaces the one before, which the grid may have from another.
                **{**self.task.save_options(logits), **self.task.confidence_options(logits), **self.plan.columns},
                **options,
            )

    def formats(self):
        """Returns the folders of the model. Adapters are for Hugging Face's layouts, with heads that peft has."""
        if not self.hyperparameters.lora_rank or getattr(self.task.bert, "model_type", "bert") is None:
            return ["model"]
        if not peft.has_place_for(self.task.head):
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
