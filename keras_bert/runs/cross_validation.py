"""k-fold cross-validation of any task, for data without dev."""

import dataclasses
import logging

import numpy as np

from keras_bert.files import json_text, read_json, replacing, write_json
from keras_bert.runs import grid
from keras_bert.runs.finetuning import Finetuning
from keras_bert.runs.fold_results import FoldResultsWriter
from keras_bert.runs.fold_runs import FoldRuns
from keras_bert.runs.grid_runs import remove_snapshots
from keras_bert.runs.run import Run
from keras_bert.training.distribution import sum_over_replicas

_LOG = logging.getLogger("keras_bert")
_RESULT = "result.json"


class _FoldRun(Run):
    """Trains on all folds but one, and predicts that one."""

    def finish(self):
        task = self.finetuning.grid_runs.fold_task(self.setting["fold"], self.setting["seed"])
        trainer, result = self.train(self.finetuning.stages(self.setting, task))
        kept = task.report.dev_logits(trainer.fitted_outputs)
        return trainer, result, {"dev": self.task.report.of_fold(kept, task)}


class CrossValidation(Finetuning):
    """Runs a grid with cross-validation, and then trains the model to keep on all rows with the best setting.

    Each run trains on all folds but one, for all its epochs, and predicts the remaining one. The best setting has the
    highest mean over folds and seeds; each seed has its own folds. The model to keep has the first seed, and so have
    the predictions of all rows in the report and in `out_of_fold.tsv`.
    The `Plan` has `Folds`, and a task whose dev data are those to train on.
    """

    run_class = _FoldRun
    results_class = FoldResultsWriter
    keeps_best = False  # The model to keep is trained on all rows.

    def __init__(self, plan):
        _check_plan(plan)
        super().__init__(plan)
        self.evaluated_on = f"{plan.folds.count}-fold cross-validation"

    def choices(self):
        return self.plan.choices | {"fold": list(range(1, self.plan.folds.count + 1))}

    def make_grid_runs(self):
        return FoldRuns(self.output, self.task, self.plan)

    @property
    def _rows(self):
        """The rows that folds divide."""
        return self.task.splits["dev"][0].examples

    @property
    def facts(self):
        groups = self._rows.group if self.plan.folds.groups is None else "groups"
        text = f"{self.plan.folds.count}-fold cross-validation of the training rows; {groups} are not divided"
        return super().facts | {"dev examples": text}

    def common(self):
        common = super().common()
        common["folds"] = self.plan.folds.count
        if self.plan.folds.groups is not None:
            common["groups"] = json_text(self.plan.folds.groups)
        return common

    def label_checks(self):
        """Returns the labels of the rows as `LabelCheck`s, the most doubtful first, by out-of-fold predictions."""
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
        classes = self._rows.strata()
        if classes is None or not isinstance(classes[0], int | str):
            return
        folds_of_class = {}
        folds = self.grid_runs.assigned(self.plan.choices["seed"][0]).tolist()
        for label, fold in zip(classes, folds, strict=True):
            folds_of_class.setdefault(label, set()).add(fold)
        alone = sum(len(folds_of_class[label]) == 1 for label in classes)
        if alone == len(classes):
            raise ValueError(
                "labels cannot be checked if rows of a class are in one fold alone. Expected at least two different "
                f"texts of a class. Received: {len(classes):,} rows of {len(folds_of_class):,} classes"
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
        result = self.grid_runs.final / _RESULT
        if result.exists() and read_json(result) == setting:
            return
        self._train_final(setting)
        if self.grid_runs.write:
            write_json(result, setting)

    def train_folds(self):
        """Trains and predicts each fold."""
        first_seed = self.choices()["seed"][0]
        for fold in range(1, self.plan.folds.count + 1):
            self.grid_runs.fold_task(fold, first_seed)  # Raises for rows that cannot be learned from.
        super().train_runs()
        if self.strategy:
            sum_over_replicas(self.strategy, 0)  # Workers wait for the predictions, which the first one writes.
        self.grid_runs.rescore()

    def _train_final(self, setting):
        """Trains the model to keep on all rows, and saves it with its predictions of test."""
        folder = self.grid_runs.final / grid.folder_name(setting)
        *earlier, last = self.stages(setting)
        without_dev = dataclasses.replace(last, dev=None)
        trainer, _ = Run(self, setting, folder).train([*earlier, without_dev])
        logits = self.task.report.test_logits(trainer.predict)
        if self.grid_runs.write:
            with replacing(self.grid_runs.final / "test.npz") as temporary:
                np.savez(temporary, **logits)
            self.save(trainer.model, self.grid_runs.logits("dev"), setting)
            remove_snapshots(folder)


def _check_plan(plan):
    """Raises for what a cross-validation cannot have, and for rows that have no folds."""
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
    rows = plan.task.splits["dev"][0].examples
    for seed in plan.choices["seed"]:
        plan.folds.assign(rows, seed)  # Raises an error for rows that have no folds.


class FoldsAlone(CrossValidation):
    """Predicts each row by a model that was not trained on it, and trains no model to keep."""

    def __init__(self, plan):
        super().__init__(plan)
        self.check_learnable()

    def train_runs(self):
        self.train_folds()

    def label_checks(self):
        return self.task.report.label_checks(self.grid_runs.logits("dev"))  # They were checked before.
