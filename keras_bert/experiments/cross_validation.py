"""k-fold cross-validation, for tables without dev data."""

import math

import numpy as np

from keras_bert.experiments import grid
from keras_bert.experiments.finetuning import Finetuning
from keras_bert.experiments.study import Study, remove_snapshots
from keras_bert.files import read_json, write_json

_RESULT = "result.json"


class CrossValidation(Finetuning):
    """Runs a grid with cross-validation, and then trains the model to keep on all rows with the best setting.

    Each run trains on all folds but one, for all its epochs, and predicts the remaining one. The scores are those of
    the predictions of all folds; the best setting has the highest mean over folds and seeds. Each seed has its own
    folds. The model to keep has the first seed.

    Args:
        task: a `ClassificationTask` whose data has `folds`.
        choices, hyperparameters, output, strategy, log_every: see `Finetuning`.
    """

    def __init__(self, task, choices, hyperparameters, output, strategy=None, log_every=10):
        if hyperparameters.best or hyperparameters.patience is not None:
            raise ValueError(
                "`best` and `patience` need dev data: in cross-validation, each fold trains for all its epochs, like "
                f"the final model. Received: best={hyperparameters.best}, patience={hyperparameters.patience}"
            )
        folds = list(range(1, task.data.folds + 1))
        super().__init__(
            task, {**choices, "fold": folds}, hyperparameters, output, strategy=strategy, log_every=log_every
        )
        self.evaluated_on = f"{task.data.folds}-fold cross-validation"
        self.study = _FoldStudy(output, task, self.study.write)

    def run(self):
        super().run()
        setting = self.study.chosen()
        folder = self.study.final / grid.folder_name(setting)
        result = self.study.final / _RESULT
        if not result.exists() or read_json(result) != setting:
            self._train_final(setting, folder)
            if self.study.write:
                write_json(result, setting)

    def _run(self, setting, folder):
        train, dev = self.task.fold(setting["fold"], setting["seed"])
        trainer, result = self._train(setting, folder, [train], dev)
        return result, {"dev": {self.task.task.name: trainer.predict(dev)["logits"]}}, lambda: None

    def _train_final(self, setting, folder):
        trainer, _ = self._train(setting, folder, self.task.train, None)
        logits = self.task.test_logits(trainer.predict)
        if self.study.write:
            np.savez(self.study.final / "test.npz", **logits)
            self._save(trainer.model, {})
            remove_snapshots(folder)

    def _best_facts(self, scores):
        kept = f"{grid.setting_text(self.study.chosen())}; the model is trained on all rows"
        return {"best run": kept, f"scores of {self.evaluated_on}": scores}


class _FoldStudy(Study):
    """A study whose runs are the folds of each setting and seed."""

    def __init__(self, directory, task, write):
        super().__init__(directory, task.metric, write=write, combine=task.combine)
        self._task, self.final = task, self.directory / "final"

    def chosen(self):
        """Returns the setting with the highest mean, with its first seed."""
        best = self.best()[0]["setting"]
        return {name: value for name, value in best.items() if name != "fold"}

    def best(self):
        """Returns the folds of the setting with the highest mean; none if a run of every setting diverged."""
        row = grid.summary(self.results, self.metric)[0]
        if math.isnan(row["mean"]):
            return []
        return [result for result in self.results if grid.without_seed(result["setting"]) == row["setting"]]

    def logits(self, split):
        """Returns the logits of all rows, each predicted by the model that was not trained on it."""
        if split == "test":
            with np.load(self.final / "test.npz") as file:
                return dict(file)
        seeds = {}
        for result in self.best():
            seeds.setdefault(result["setting"]["seed"], []).append(result)
        name = self._task.task.name
        return {name: self._combine([self._of_all_rows(results, name) for results in seeds.values()])}

    def _of_all_rows(self, results, name):
        parts, rows = [], []
        for result in results:
            with np.load(self._folder(result) / "dev.npz") as file:
                parts.append(file[name])
            rows.append(self._task.fold_rows(result["setting"]["fold"], result["setting"]["seed"]))
        return np.concatenate(parts)[np.argsort(np.concatenate(rows))]

    def summary(self):
        folds = self.best()
        scores = {name: float(np.mean([fold["scores"][name] for fold in folds])) for name in folds[0]["scores"]}
        return {**super().summary(), "best": {"setting": self.chosen(), "scores": scores}, "ensemble": []}
