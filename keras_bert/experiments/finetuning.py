"""Fine-tuning over a grid of settings and seeds: runs, the best model, its export and the reports.

A `FinetuningTask` contains the task-specific code, `Finetuning` everything else.
"""

import abc
import dataclasses
import logging
import pathlib

import keras

from keras_bert.checkpoints.load import load
from keras_bert.checkpoints.save import save
from keras_bert.experiments import grid
from keras_bert.experiments.reports.environment import environment
from keras_bert.experiments.reports.report import Head, short_name, write_report
from keras_bert.experiments.study import Study
from keras_bert.exporting.export import export
from keras_bert.files import write_json, write_text
from keras_bert.models.freezing import freeze_layers
from keras_bert.tasks import data_summary
from keras_bert.training.bucketing import Batches
from keras_bert.training.distribution import is_chief
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
_OPTIMIZER_FIELDS = ("weight_decay", "epsilon", "bias_correction", "layer_decay")


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters shared by all runs of a grid.

    Args:
        warmup: float, fraction of the steps used for learning rate warmup.
        weight_decay: float, weight decay of AdamW, not applied to biases and LayerNorms.
        epsilon: float, epsilon of AdamW.
        layer_decay: float, factor of the learning rate from each block to the one below; `None` disables it.
        bias_correction: bool, whether AdamW corrects the bias of its moments; Google's optimizer does not.
        freeze_layers: int, freezes the embeddings and this many of the lowest blocks; `None` freezes nothing.
        group_by_length: bool, whether to batch rows of similar length.
        gradient_accumulation: int, number of micro-batches per batch.
        precision: string, name of a Keras dtype policy.
    """

    warmup: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-6
    layer_decay: float | None = None
    bias_correction: bool = True
    freeze_layers: int | None = None
    group_by_length: bool = True
    gradient_accumulation: int = 1
    precision: str = "float32"


@dataclasses.dataclass(frozen=True)
class Findings:
    """A task's results for the predictions of the best runs.

    Args:
        results: dict, the task's entries in `results.json`; `scores` are the dev scores.
        scores: the scores in one line.
        facts: dict, entries for the head of the report.
        tables: Markdown tables for the end of `results.md`.
        sections: HTML sections for the end of `report.html`.
        errors: rows of `errors.tsv`, the header first.
        messages: lines to print.
        measured: dict, the dev scores that are compared with the majority baseline.
        same: string, the prediction for all rows of dev; `None` if the predictions differ.
    """

    results: dict
    scores: str
    facts: dict
    tables: list
    sections: list
    errors: list
    messages: tuple = ()
    measured: dict = dataclasses.field(default_factory=dict)
    same: str | None = None


class FinetuningTask(abc.ABC):
    """Base class of the tasks for `Finetuning`.

    Attributes:
        title: heading of the results.
        metric: name of the score that selects the best run.
        model: directory or name of the checkpoint to start from, unless `model` is in the grid.
        bert: a loaded checkpoint with the vocabulary of the models.
        sequence_length: maximum number of tokens of a sequence.
        settings: dict of the task's settings, which must be the same for all runs in a folder.
        facts: dict, entries about the data for the head of the report.
        summary: dict of JSON values about the data, see `tasks.data_summary`.
        train: list of functions that return `(inputs, targets)`, one for each training stage, usually one.
        dev: `Batches` to evaluate on.
        loss: a `Loss`.
        combine: function that combines the logits of several runs, a list of arrays.
    """

    combine = staticmethod(grid.mean_logits)

    @abc.abstractmethod
    def build(self, bert):
        """Builds the model to train from a loaded checkpoint."""

    @abc.abstractmethod
    def score(self, targets, outputs):
        """Returns the dev scores as a dict."""

    @abc.abstractmethod
    def logits(self, predict, evaluated):
        """Returns the logits of each split, `{"dev": {name: array}, "test": {name: array}}`.

        Args:
            predict: function from `Batches` to the outputs of the trained model.
            evaluated: the outputs for `dev` in the last evaluation; empty if a resumed run had none.
        """

    @abc.abstractmethod
    def save_options(self, logits):
        """Returns the task's arguments of `keras_bert.save`, given the logits of the run to save."""

    @abc.abstractmethod
    def export_options(self, bert):
        """Returns the task's arguments of `keras_bert.export` for the saved model."""

    @abc.abstractmethod
    def conclude(self, dev, test, output):
        """Writes predictions to the folder `output` and returns `Findings`. `dev` and `test` are logits."""


class Finetuning:
    """Runs a grid, keeps the best model on dev, exports it and writes the reports. Interrupted runs resume.

    Args:
        task: a `FinetuningTask`.
        choices: dict of lists of values for `learning_rate`, `batch_size`, `epochs`, `seed` and, optionally, `model`.
        hyperparameters: `Hyperparameters` of all runs.
        output: output folder.
        ensemble: int, number of best runs in the ensemble. Defaults to 1.
        strategy: see `create_strategy`; `None` uses one device.

    Attributes:
        report: the content of `results.json`, set by `finish`.

    Example:
        choices = {"learning_rate": [3e-5], "batch_size": [32], "epochs": [3], "seed": [1, 2]}
        finetuning = Finetuning(task, choices, Hyperparameters(), "runs/mrpc")
        finetuning.run()
        print(finetuning.finish())
    """

    def __init__(self, task, choices, hyperparameters, output, ensemble=1, strategy=None):
        self.task, self.hyperparameters, self.strategy = task, hyperparameters, strategy
        self.settings, self.output = grid.settings(**choices), pathlib.Path(output)
        self.study = Study(output, task.metric, ensemble, strategy is None or is_chief(strategy), task.combine)
        self.report = self._parameters = None

    def run(self):
        """Trains the unfinished runs of the grid."""
        for name, text in self.task.facts.items():
            _LOG.info("%s, %s: %s", self.task.title, name, text)
        _LOG.info("%s, runs: %d", self.task.title, len(self.settings))
        self.study.run(self.settings, self._common(), self._run)

    def _common(self):
        return {**self.task.settings, **dataclasses.asdict(self.hyperparameters)}

    def _run(self, setting, folder):
        """Trains one run. Returns its scores, its logits and a function that saves its model."""
        _LOG.info("%s: %s", self.task.title, grid.folder_name(setting))
        keras.backend.clear_session()
        keras.utils.set_random_seed(setting["seed"])
        *earlier, last = self.task.train
        weights, evaluated = None, {}
        for number, examples in enumerate(earlier, 1):
            weights = self._weights_after(setting, examples, folder / f"before_{number}", weights)

        def score(targets, outputs):
            evaluated.update(outputs)
            return self.task.score(targets, outputs)

        trainer, batches = self._trainer(setting, last, folder, weights, score)
        scores = trainer.fit(batches, epochs=setting["epochs"], evaluation=self.task.dev)
        logits = self.task.logits(trainer.predict, evaluated)
        return scores, logits, lambda: self._save(trainer.model, logits)

    def _weights_after(self, setting, examples, folder, weights):
        """Returns the weights after one stage; its trainer is freed before the next one is created."""
        trainer, batches = self._trainer(setting, examples, folder, weights)
        trainer.fit(batches, epochs=setting["epochs"])
        return trainer.model.get_weights()

    def _trainer(self, setting, examples, folder, weights, metrics=()):
        """Returns the trainer of one stage and its batches."""
        shared, name = self.hyperparameters, setting.get("model", self.task.model)
        batches = Batches(*examples(), setting["batch_size"], seed=setting["seed"], grouped=shared.group_by_length)
        steps = setting["epochs"] * batches.steps

        def optimizer(model):
            warmup = round(shared.warmup * steps)
            options = {field: getattr(shared, field) for field in _OPTIMIZER_FIELDS}
            return create_optimizer(model, setting["learning_rate"], steps, warmup, **options)

        trainer = Trainer(
            lambda: self._build(name, weights),
            optimizer,
            self.task.loss,
            metrics=metrics,
            directory=folder,
            strategy=self.strategy,
            micro_batches=shared.gradient_accumulation,
            seed=setting["seed"],
            settings={"model": name, "precision": shared.precision},
        )
        return trainer, batches

    def _build(self, name, weights):
        model = self.task.build(load(name, dtype=self.hyperparameters.precision))
        if weights is not None:
            model.set_weights(weights)
        if self.hyperparameters.freeze_layers is not None:
            freeze_layers(model, self.hyperparameters.freeze_layers)
        return model

    def _save(self, model, logits):
        bert = self.task.bert
        save(
            model,
            self.output / "model",
            bert.vocabulary,
            lowercase=bert.lowercase,
            strip_accents=bert.strip_accents,
            sequence_length=self.task.sequence_length,
            **self.task.save_options(logits),
        )

    def finish(self):
        """Scores the ensemble, writes predictions, results and report, and exports the best model.

        Returns:
            A summary to print.
        """
        study, task = self.study, self.task
        findings = task.conclude(study.logits("dev"), study.logits("test"), self.output)
        self._export()
        best = study.best()
        together = f" (ensemble of the {len(best)} best runs)" if len(best) > 1 else ""
        warning = self._warning(findings)
        facts = {
            **task.facts,
            "best run": grid.folder_name(best[0]["setting"]).replace(",", ", "),
            "scores on dev": findings.scores + together,
            **({"warning": warning} if warning else {}),
            **findings.facts,
        }
        self.report = {
            **findings.results,
            "facts": facts,
            "data": task.summary,
            "no_better_than_majority": warning is not None,
            **study.summary(),
        }
        summary = grid.markdown(self.report["summary"], study.metric)
        lines = [f"# {task.title}, dev", "", *(f"- {name}: {text}" for name, text in facts.items()), "", summary]
        lines += [grid.runs_table(study.results, study.metric), *findings.tables]
        write_json(self.output / "results.json", self.report)
        write_text(self.output / "results.md", "\n".join(lines).rstrip() + "\n")
        self._write_report(facts, findings)
        best_run = f"best: {facts['best run']}: {facts['scores on dev']}"
        messages = [*findings.messages, *([f"warning: {warning}"] if warning else [])]
        return "\n".join([*messages, "", f"{task.title}, dev", f"{summary}{best_run}", ""])

    def _write_report(self, facts, findings):
        study, replicas = self.study, self.strategy.num_replicas_in_sync if self.strategy else 1
        model = study.best()[0]["setting"].get("model", self.task.model)
        settings = {name: sorted({run["setting"][name] for run in study.results}) for name in self.settings[0]}
        settings = {name: ", ".join(map(str, values)) for name, values in settings.items()}
        facts = {**facts, "parameters": f"{self._parameters:,}"}
        head = Head(
            f"{self.task.title} - {short_name(model)}",
            {name: text for name, text in facts.items() if name != "warning"},
            environment(study.seconds(), replicas),
            {**settings, **self._common()},
            [f"Warning: {facts['warning']}."] if "warning" in facts else [],
        )
        path, runs = self.output / "report.html", study.results
        write_report(path, head, study.metric, runs, study.curves(), findings.sections, findings.errors)

    def _warning(self, findings):
        """Returns a sentence if the model is no better than the majority baseline, or else `None`."""
        metric, summary = self.task.metric, self.task.summary
        if findings.same is not None:
            return f"the model predicts {findings.same} for every row of dev"
        score, majority = findings.measured.get(metric), summary["majority"].get(metric)
        if score is None or majority is None or score > majority + 1e-9:
            return None
        numbers = f"{data_summary.listed({metric: score})} against {100 * majority:.2f}%"
        return f"no better than the majority baseline ({summary['baseline']}): {numbers}"

    def _export(self):
        bert = load(self.output / "model")  # Reloaded outside of any strategy, in float32.
        model = bert.model()
        self._parameters = model.count_params()
        export(
            model,
            bert.preprocessor(self.task.sequence_length, padding="longest"),
            self.output / "saved_model" / "1",
            **self.task.export_options(bert),
        )
