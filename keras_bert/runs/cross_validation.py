"""k-fold cross-validation of any task, for data without dev."""

import dataclasses
import functools
import logging
import statistics

import numpy as np

from keras_bert.files import read_json, replacing, write_json, write_text
from keras_bert.reports import label_checks
from keras_bert.runs import grid, rows_to_check
from keras_bert.runs.finetuning import Finetuning, Run
from keras_bert.runs.grid import GridRuns, read_logits, remove_snapshots
from keras_bert.runs.report import tsv_line
from keras_bert.runs.results import Results
from keras_bert.training.distribution import sum_over_replicas

_LOG = logging.getLogger("keras_bert")
_RESULT = "result.json"
_ABSENT = -1e9  # Logit of choices that only rows of other folds have.
OUT_OF_FOLD = "out_of_fold.tsv"


class CrossValidation(Finetuning):
    """Runs a grid with cross-validation, and then trains the model to keep on all rows with the best setting.

    Each run trains on all folds but one, for all its epochs, and predicts the remaining one. The best setting has the
    highest mean over folds and seeds; each seed has its own folds. The model to keep has the first seed, and so have
    the predictions of all rows in the report and in `out_of_fold.tsv`.
    The `Plan` has `Folds`, and a task whose dev data are those to train on.
    """

    keeps_best = False  # The model to keep is trained on all rows.

    def __init__(self, plan):
        shared = plan.hyperparameters
        if shared.best or shared.patience is not None:
            raise ValueError(
                "`best` and `patience` need dev data: in cross-validation, each fold trains for all its epochs, like "
                f"the final model. Received: best={shared.best}, patience={shared.patience}"
            )
        if plan.teacher is not None:
            raise ValueError("`teacher`: not with `folds`, since it may have seen the rows of every fold")
        if plan.ensemble != 1:
            raise ValueError("`ensemble`: not with `folds`, which keep one model")
        for seed in plan.choices["seed"]:
            plan.folds.assign(plan.task.splits["dev"][0].examples, seed)  # Raises an error for rows that have no folds.
        super().__init__(plan)
        self.evaluated_on = f"{plan.folds.count}-fold cross-validation"
        self.run_class, self.results_class = _FoldRun, _FoldResults

    def choices(self):
        return {**self.plan.choices, "fold": list(range(1, self.plan.folds.count + 1))}

    def make_grid_runs(self):
        return _FoldRuns(self.output, self.task, self.plan)

    @property
    def facts(self):
        rows = self.task.splits["dev"][0].examples
        groups = rows.group if self.plan.folds.groups is None else "groups"
        text = f"{self.plan.folds.count}-fold cross-validation of the training rows; {groups} are not divided"
        return {**super().facts, "dev examples": text}

    def common(self):
        common = {**super().common(), "folds": self.plan.folds.count}
        if self.plan.folds.groups is not None:
            common["groups"] = grid.json_text(self.plan.folds.groups)
        return common

    def label_checks(self):
        """Returns the labels of the rows as `JudgedLabel`s, the most doubtful first, by out-of-fold predictions."""
        self.check_learnable()
        return self.task.report.label_checks(self.grid_runs.logits("dev"))

    def check_learnable(self):
        """Raises if predictions say nothing about the labels: if no fold can learn them, or the first model knows them.

        A class of a single fold is warned of: its rows are predicted by models that do not know it.
        """
        if self.task.training.keeps_head(self.task.bert):
            raise ValueError(
                f"{self.task.model} has the head of the task {self.task.name} with the same labels and may have been "
                "trained on these rows: its predictions say nothing about their labels. Expected the pre-trained model "
                "that it was made from"
            )
        classes = self.task.splits["dev"][0].examples.strata()
        if classes is None or not isinstance(classes[0], int | str):
            return
        folds = self.grid_runs.assigned(self.plan.choices["seed"][0]).tolist()
        known = {}
        for label, fold in zip(classes, folds, strict=True):
            known.setdefault(label, set()).add(fold)
        alone = sum(len(known[label]) == 1 for label in classes)
        if alone == len(classes):
            raise ValueError(
                "labels cannot be checked if rows of a class are in one fold alone. Expected at least two different "
                f"texts of a class. Received: {len(classes):,} rows of {len(known):,} classes"
            )
        if alone:
            _LOG.warning(
                "%d row(s) have a class that no other fold has: models that do not know it predict them, with a high "
                "loss whatever their label is",
                alone,
            )

    def train_runs(self):
        self.train_folds()
        setting = self.grid_runs.chosen()
        folder = self.grid_runs.final / grid.folder_name(setting)
        result = self.grid_runs.final / _RESULT
        if not result.exists() or read_json(result) != setting:
            self._train_final(setting, folder)
            if self.grid_runs.write:
                write_json(result, setting)

    def train_folds(self):
        """Trains and predicts each fold."""
        for fold in range(1, self.plan.folds.count + 1):
            self.grid_runs.fold_task(fold, self.choices()["seed"][0])  # Raises for rows that cannot be learned from.
        super().train_runs()
        if self.strategy:
            sum_over_replicas(self.strategy, 0)  # Workers wait for the predictions, which the first one writes.
        self.grid_runs.rescore()

    def _train_final(self, setting, folder):
        *earlier, last = self.stages(setting)
        trainer, _ = Run(self, setting, folder).train([*earlier, dataclasses.replace(last, dev=None)])
        logits = self.task.report.test_logits(trainer.predict)
        if self.grid_runs.write:
            with replacing(self.grid_runs.final / "test.npz") as temporary:
                np.savez(temporary, **logits)
            self.save(trainer.model, self.grid_runs.logits("dev"), setting)
            remove_snapshots(folder)


class FoldsAlone(CrossValidation):
    """Predicts each row by a model that was not trained on it, and trains no model to keep."""

    def __init__(self, plan):
        super().__init__(plan)
        self.check_learnable()

    def train_runs(self):
        self.train_folds()

    def label_checks(self):
        return self.task.report.label_checks(self.grid_runs.logits("dev"))  # They were checked before.


class _FoldRun(Run):
    """Trains on all folds but one, and predicts that one."""

    def finish(self):
        task = self.runs.grid_runs.fold_task(self.setting["fold"], self.setting["seed"])
        trainer, result = self.train(self.runs.stages(self.setting, task))
        kept = task.report.dev_logits(trainer.fitted_outputs)
        return trainer, result, {"dev": self.task.report.of_fold(kept, task)}


class _FoldResults(Results):
    """Results of folds."""

    def find(self):
        findings = super().find()
        judged = self.task.report.judge(self.grid_runs.logits("dev"))
        folds = self.grid_runs.assigned(self.grid_runs.chosen()["seed"]).tolist()
        predicted = {} if judged is None else judged.by_row.table()
        columns = {"row": range(1, len(folds) + 1), "fold": folds, **predicted}
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        write_text(self.output / OUT_OF_FOLD, "".join(map(tsv_line, rows)))
        return self._with_label_checks(findings)

    def _with_label_checks(self, findings):
        """Returns the findings with the section of the rows to check, whose file is written."""
        finetuning, source = self.finetuning, self.finetuning.plan.source
        try:
            checks = finetuning.label_checks()
        except ValueError as error:
            return dataclasses.replace(findings, facts={**findings.facts, "rows to check": f"none: {error}"})
        examples = self.task.splits["dev"][0].examples
        file = None
        if source is not None:
            try:
                file = rows_to_check.write(self.output, source, examples, checks)
            except (ValueError, OSError) as error:  # The file of the rows has changed, or is gone.
                _LOG.warning("%s is not written: %s", rows_to_check.NAME, error)
        unit = getattr(getattr(examples, "origin", None), "unit", "row")
        section = label_checks.section(checks, unit, file)
        facts = findings.facts if file is None else {**findings.facts, "rows to check": f"{file}, the worst first"}
        return dataclasses.replace(findings, sections=[*findings.sections, section], facts=facts)

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

    def __init__(self, directory, task, plan):
        super().__init__(
            directory,
            task.report.metric,
            write=plan.writes,
            combine=task.report.combine,
            counts_earlier=plan.counts_earlier,
            names=plan.data_names,
        )
        self._task, self._folds, self.final = task, plan.folds, self.directory / "final"
        self.assigned = functools.cache(self._assigned)
        # Settings of one seed share their rows.
        self.fold_task = functools.lru_cache(plan.folds.count)(self._fold_task)

    def _assigned(self, seed):
        """Returns the fold of each row, an array."""
        return self._folds.assign(self._task.splits["dev"][0].examples, seed)

    def _fold_task(self, fold, seed):
        """Returns the `Task` of the rows of a fold as dev, and of all others to train on."""
        is_dev = self.assigned(seed) == fold
        task = self._task
        try:
            data = task.data.parted(np.flatnonzero(~is_dev).tolist(), np.flatnonzero(is_dev).tolist())
            if hasattr(data, "labels"):
                data = dataclasses.replace(data, labels=task.labels)  # A fold may have no row of a rare one.
            return type(task)(data, task.start, task.settings)
        except ValueError as error:
            raise ValueError(
                f"fold {fold} of {self._folds.count}: {error}. Expected fewer folds, or more rows of the kind"
            ) from error

    def rescore(self):
        """Updates the scores of each fold by `fold_scores` of the task, given the predictions of all folds."""
        groups = {}
        for result in self.results:
            if "diverged" not in result:
                groups.setdefault(grid.folder_name(_without_fold(result["setting"])), []).append(result)
        for folds in groups.values():
            if len(folds) == self._folds.count:
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
        if "diverged" in row:
            return []
        return [result for result in self.results if grid.without_seed(result["setting"]) == row["setting"]]

    def means(self):
        """Formats mean and standard deviation of the scores over the folds and seeds of the best setting."""
        folds, report = self.best(), self._task.report
        texts, known = [], report.score_names or report.summary.majority
        for name in folds[0]["scores"]:
            if name in known or not known:
                values = [100 * fold["scores"][name] for fold in folds]
                deviation = grid.deviation(values)
                texts.append(f"{name.replace('_', ' ')} {statistics.fmean(values):.2f}% ± {deviation:.2f}%")
        return f"{', '.join(texts)} (mean and deviation of {len(folds)} runs)"

    def logits(self, split):
        """Returns what is kept of all rows, each by the model that was not trained on it, of the first seed."""
        if split == "test":
            return read_logits(self.final / "test.npz")
        chosen = self.chosen()
        return self._together([fold for fold in self.best() if _without_fold(fold["setting"]) == chosen])

    def _together(self, folds):
        """Returns what is kept of all rows in their order, from the folds of one setting and seed."""
        parts = [read_logits(self.folder(fold["setting"]) / "dev.npz") for fold in folds]
        rows = np.concatenate([self._rows(fold) for fold in folds])
        sizes = np.array(self._task.report.entries())[rows]
        # Where the entries of each row begin when they are in order, and their places among those of all folds.
        places = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
        order = np.concatenate([places[number] for number in np.argsort(rows)])
        return {name: _stacked([part[name] for part in parts])[order] for name in parts[0]}

    def _rows(self, fold):
        setting = fold["setting"]
        return np.flatnonzero(self.assigned(setting["seed"]) == setting["fold"])

    def to_json(self):
        folds = self.best()
        scores = {name: float(np.mean([fold["scores"][name] for fold in folds])) for name in folds[0]["scores"]}
        return {**super().to_json(), "best": {"setting": self.chosen(), "scores": scores}, "ensemble": []}


def _without_fold(setting):
    return {name: value for name, value in setting.items() if name != "fold"}


def _stacked(arrays):
    """Concatenates the rows of arrays, which may have different numbers of columns."""
    width = max(array.shape[1] if array.ndim > 1 else 0 for array in arrays)
    padded = []
    for array in arrays:
        if array.ndim > 1 and array.shape[1] < width:
            lacking = [(0, 0), (0, width - array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
            array = np.pad(array, lacking, constant_values=_ABSENT)
        padded.append(array)
    return np.concatenate(padded)
