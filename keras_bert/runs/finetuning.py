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
from keras_bert.data.splits import Folds
from keras_bert.files import replacing
from keras_bert.heads.registry import head_named
from keras_bert.runs import grid
from keras_bert.runs.grid_runs import GridRuns
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.rehearsal import is_own, rehearse
from keras_bert.runs.results import ResultsWriter, indented
from keras_bert.runs.run import Run
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.tasks import confidence
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.few_examples import FewExamples
from keras_bert.tasks.teacher import Teacher
from keras_bert.training.distribution import is_chief
from keras_bert.training.program import Programs

_LOG = logging.getLogger("keras_bert")


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
        results_class: subclass of `ResultsWriter`, which writes them.
        keeps_best: bool, whether the model of the best run is saved. Defaults to `True`.
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

    run_class = Run
    results_class = ResultsWriter
    evaluated_on = "dev"
    keeps_best = True

    def __init__(self, plan):
        self.plan = plan
        self.task = plan.task
        self.hyperparameters = plan.hyperparameters
        confidence.check_rows(self.task)
        self.strategy = plan.strategy
        self.output = pathlib.Path(plan.output)
        self.settings = grid.settings(**self.choices())
        self.grid_runs = self.make_grid_runs()
        self.results = None
        self.programs = Programs()
        self._scores_before = None

    def choices(self):
        """Returns the choices of the grid."""
        return self.plan.choices

    def make_grid_runs(self):
        """Returns the `GridRuns`, which have the results."""
        report = self.task.report
        return GridRuns(
            self.output,
            report.metric,
            self.plan.ensemble,
            write=self.plan.writes,
            combine=report.combine,
            counts_earlier=self.plan.counts_earlier,
            names=self.plan.data_names,
        )

    def stages(self, setting, task=None):
        """Returns the stages of a run; `task` is that of a fold, by default that of all rows."""
        if task is None:
            task = self.task
        if self.plan.few_examples is not None:
            return self.plan.few_examples.stages(task, setting)
        stages = self._intermediate_stages(setting, task)
        stages.extend(task.training.stages(setting))
        if self.plan.teacher is not None:
            stages[-1] = self.plan.teacher.taught(stages[-1])
        return stages

    def _intermediate_stages(self, setting, task):
        """Returns the stages of the other tasks that the models are trained on before."""
        stages = []
        for other in self.plan.intermediate:
            for stage in other.training.stages(setting):
                name = stage.name
                if other.name == task.name and not _has_same_head(other, task):
                    # Only a head with the same classes goes on to the next stage.
                    name = f"{name} of other classes"
                rewire = stage.rewire or other.training.rewire  # Texts of the last stage may have windows.
                stages.append(dataclasses.replace(stage, name=name, dev=None, rewire=rewire))
        return stages

    @property
    def facts(self):
        """Entries about the data, and about the teacher if there is one, for the head of the report."""
        facts = dict(self.task.report.facts)
        if self.plan.intermediate:
            earlier = []
            for task in self.plan.intermediate:
                summary = task.report.summary
                earlier.append(f"{task.title}, {summary.train:,} {summary.unit}")
            facts["trained before on"] = "; ".join(earlier)
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
        if self.plan.teacher is None:
            return self.task.origins
        return self.task.origins | self.plan.teacher.origins

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

    def _describe(self):
        """Logs what is known before the training."""
        _LOG.info("%s", self.task.title)
        report = self.task.report
        for name, text in self.facts.items():
            _LOG.info("%s", indented(f"{name}: {text}"))
        for problem in report.warnings:
            _LOG.warning("%s", problem)
        self._describe_rates()
        if self.hyperparameters.lora_rank and not peft.has_place_for(self.task.head):
            _LOG.info("  LoRA: peft's format has no place for the head %s: no `adapter` is written", self.task.head)
        if len(self.settings) > 1:
            _LOG.info("  runs: %d", len(self.settings))

    def _describe_rates(self):
        """Logs the learning rates if they are the defaults for the width of the model."""
        training = self.task.training
        rates = list(dict.fromkeys(setting.get("learning_rate") for setting in self.settings))
        if training.rates_width and rates == training.default_rates:
            _LOG.info(
                "  learning rate: %s, the default for a width of %d; `learning_rate` sets others",
                ", ".join(f"{rate:g}" for rate in rates),
                training.rates_width,
            )

    def _compare_methods(self):
        """Logs the best mean of each method for few examples, of those that are compared."""
        few_examples = self.plan.few_examples
        if few_examples is None or len(few_examples.methods) < 2:
            return
        metric = self.task.report.metric
        best_means = {}
        for row in grid.seed_statistics(self.grid_runs.results, metric):
            best_means.setdefault(row["setting"]["method"], row["mean"])
        for method, mean in best_means.items():
            score = data_summary.listed({metric: mean})
            _LOG.info("  method %s: %s on %s", method, score, self.evaluated_on)

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

    def scores_before(self, trainer, dev):
        """Returns the scores of the model that runs start from, a dict; `None` if the task does not ask for them.

        The trainer of the first run computes them before it trains.
        """
        is_wanted = self.task.training.compares_start and dev is not None
        if is_wanted and self._scores_before is None:
            results = trainer.evaluate(dev)
            scores = dict(results)
            for name in trainer.loss_names:
                scores.pop(name, None)
            _LOG.info("%s", indented(f"before training: {data_summary.listed(scores)}"))
            self._scores_before = scores
        return self._scores_before

    def save(self, model, logits, setting):
        """Saves the model of a run, given its dev logits."""
        for folder in self.formats():
            format_options = {}
            if folder == "adapter":
                format_options = {"format": "peft", "base": setting.get("model", self.task.model)}
            save(
                self.task.training.complete(model),
                self.output / folder,
                self.task.bert.vocabulary,
                overwrite=True,  # The best model yet replaces the one before, which the grid may have from another.
                **self._save_options(logits),
                **format_options,
            )

    def _save_options(self, logits):
        """Returns the arguments of `save` for all formats, given the dev logits of the run."""
        bert = self.task.bert
        task_settings = self.task.stored_settings
        if not task_settings and not self.task.rows.convert:
            task_settings = None  # It is empty for rows of a task's own: it tells that answers need the task.
        options = {
            "lowercase": bert.lowercase,
            "strip_accents": bert.strip_accents,
            "model_type": getattr(bert, "model_type", None),
            "task_settings": task_settings,
        }
        options.update(self.task.stored_reading)
        options.update(self.task.save_options(logits))
        options.update(self.task.confidence_options(logits))
        options.update(self.plan.columns)
        return options

    def formats(self):
        """Returns the folders of the model. Adapters are for Hugging Face's layouts, with heads that peft has."""
        if not self.hyperparameters.lora_rank:  # A task of another kind of model has no `bert`.
            return ["model"]
        has_layout = getattr(self.task.bert, "model_type", "bert") is not None
        if has_layout and peft.has_place_for(self.task.head):
            return ["model", "adapter"]
        return ["model"]

    def finish(self):
        """Writes the results, see `ResultsWriter`, and exports the best model. Returns the text to print."""
        writer = self.results_class(self)
        text = writer.write()
        self.results = writer.results
        return text


def _has_same_head(task, other):
    """Whether two tasks train the same head, with the same classes in the same order."""
    if (task.head, task.labels) != (other.head, other.labels):
        return False
    return task.head_options() == other.head_options()


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
        for fact in ("vocabulary", "lowercase", "strip_accents"):
            if getattr(bert, fact) != getattr(first, fact):
                raise ValueError(f"`model`: {name} differs in vocabulary or casing from {models[0]}")
    return origins, first
