"""k-fold cross-validation, for tables without dev data."""

import dataclasses
import math
import statistics

import numpy as np

from keras_bert.files import read_json, replacing, write_json
from keras_bert.runs import grid
from keras_bert.runs.finetuning import Finetuning, Run
from keras_bert.runs.grid import GridRuns, read_logits, remove_snapshots
from keras_bert.runs.results import Results
from keras_bert.tasks.base import Split
from keras_bert.training.distribution import sum_over_replicas

_RESULT = "result.json"


class CrossValidation(Finetuning):
    """Runs a grid with cross-validation, and then trains the model to keep on all rows with the best setting.

    Each run trains on all folds but one, for all its epochs, and predicts the remaining one. The best setting has the
    highest mean over folds and seeds; each seed has its own folds. The model to keep has the first seed, and so have
    the predictions of all rows in the report.
    The task is a `ClassificationTask` whose data has `folds`.
    """

    keeps_best = False  # The model to keep is trained on all rows.

    def __init__(self, plan):
        shared = plan.hyperparameters
        if shared.best or shared.patience is not None:
            raise ValueError(
                "`best` and `patience` need dev data: in cross-validation, each fold trains for all its epochs, like "
                f"the final model. Received: best={shared.best}, patience={shared.patience}"
            )
        super().__init__(plan)
        self.evaluated_on = f"{self.task.data.folds}-fold cross-validation"
        self.run_class, self.results_class = _FoldRun, _FoldResults

    def choices(self):
        return {**self.plan.choices, "fold": list(range(1, self.task.data.folds + 1))}

    def make_grid_runs(self):
        return _FoldRuns(self.output, self.task, self.plan.writes)

    def train_runs(self):
        super().train_runs()
        if self.strategy:
            sum_over_replicas(self.strategy, 0)  # Workers wait for the predictions, which the first one writes.
        self.grid_runs.rescore()
        setting = self.grid_runs.chosen()
        folder = self.grid_runs.final / grid.folder_name(setting)
        result = self.grid_runs.final / _RESULT
        if not result.exists() or read_json(result) != setting:
            self._train_final(setting, folder)
            if self.grid_runs.write:
                write_json(result, setting)

    def _train_final(self, setting, folder):
        trainer, _ = Run(self, setting, folder).train(self.stages(setting))
        logits = self.task.report.test_logits(trainer.predict)
        if self.grid_runs.write:
            with replacing(self.grid_runs.final / "test.npz") as temporary:
                np.savez(temporary, **logits)
            self.save(trainer.model, self.grid_runs.logits("dev"), setting)
            remove_snapshots(folder)


class _FoldRun(Run):
    """Trains on all folds but one, and predicts that one."""

    def finish(self):
        examples, dev = self.task.training.fold(self.setting["fold"], self.setting["seed"])
        (stage,) = self.stages()
        trainer, result = self.train([dataclasses.replace(stage, examples=examples, dev=dev)])
        split = Split(self.task.spec.name, None, None, None)
        return trainer, result, {"dev": self.task.report.kept(split, trainer.fitted_outputs(dev))}


class _FoldResults(Results):
    """Results of folds."""

    def best_facts(self, scores):
        kept = f"{grid.setting_text(self.grid_runs.chosen())}; the model is trained on all rows"
        return {
            "best setting": kept,
            f"scores of {self.finetuning.evaluated_on}": self.grid_runs.means(),
            "scores of all rows": scores,
        }

    def measured(self, findings):
        return self.results["best"]["scores"]  # The means over the folds.


class _FoldRuns(GridRuns):
    """Runs that are the folds of each setting and seed."""

    def __init__(self, directory, task, write):
        super().__init__(directory, task.report.metric, write=write, combine=task.report.combine)
        self._task, self.final = task, self.directory / "final"

    def rescore(self):
        """Updates the scores of each fold by `fold_scores` of the task, given the predictions of all folds."""
        groups = {}
        for result in self.results:
            if not math.isnan(result["scores"][self.metric]):
                groups.setdefault(grid.folder_name(_without_fold(result["setting"])), []).append(result)
        for folds in groups.values():
            if len(folds) == self._task.data.folds:
                logits = self._together(folds)
                for fold in folds:
                    fold["scores"] |= self._task.report.fold_scores(self._rows(fold), logits)

    def chosen(self):
        """Returns the setting with the highest mean, with its first seed."""
        return _without_fold(self.best()[0]["setting"])

    def best(self):
        """Returns the folds of the setting with the highest mean; none if a run of each diverged or is left."""
        if not self.results:
            return []
        row = grid.seed_statistics(self.results, self.metric)[0]
        if math.isnan(row["mean"]):
            return []
        return [result for result in self.results if grid.without_seed(result["setting"]) == row["setting"]]

    def means(self):
        """Formats mean and standard deviation of the scores over the folds and seeds of the best setting."""
        folds = self.best()
        texts = []
        for name in self._task.report.summary.majority:
            values = [100 * fold["scores"][name] for fold in folds]
            texts.append(f"{name.replace('_', ' ')} {statistics.fmean(values):.2f}% ± {statistics.stdev(values):.2f}%")
        return f"{', '.join(texts)} (mean and deviation of {len(folds)} runs)"

    def logits(self, split):
        """Returns the logits of all rows, each predicted by the model that was not trained on it, of the first seed."""
        if split == "test":
            return read_logits(self.final / "test.npz")
        chosen = self.chosen()
        return self._together([fold for fold in self.best() if _without_fold(fold["setting"]) == chosen])

    def _together(self, folds):
        """Returns the logits of all rows, from the folds of one setting and seed."""
        parts = [read_logits(self.folder(fold["setting"]) / "dev.npz") for fold in folds]
        order = np.argsort(np.concatenate([self._rows(fold) for fold in folds]))
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def _rows(self, fold):
        return self._task.training.fold_rows(fold["setting"]["fold"], fold["setting"]["seed"])

    def to_json(self):
        folds = self.best()
        scores = {name: float(np.mean([fold["scores"][name] for fold in folds])) for name in folds[0]["scores"]}
        return {**super().to_json(), "best": {"setting": self.chosen(), "scores": scores}, "ensemble": []}


def _without_fold(setting):
    return {name: value for name, value in setting.items() if name != "fold"}
