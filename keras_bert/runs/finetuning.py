"""Fine-tuning over a grid of settings and seeds: runs, the best model, its export and the reports.

A `Task` has what is specific to the task, `Run` the training, `Finetuning` everything else.
"""

import logging
import math
import pathlib

import numpy as np

from keras_bert.checkpoints.save import save
from keras_bert.runs import grid
from keras_bert.runs.grid_runs import GridRuns
from keras_bert.runs.results import Results, indented
from keras_bert.runs.run import Run
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.training.distribution import is_chief

_LOG = logging.getLogger("keras_bert")


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

    def run(self):
        """Trains the unfinished runs of the grid."""
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
            _LOG.info("  learning rate: %s, the default for a width of %d; learning_rate sets others", listed, width)
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
                np.savez(folder / f"{split}.npz", **arrays)
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
                **self.task.save_options(logits),
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
