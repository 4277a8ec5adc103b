"""The runs of a cross-validation in a folder: a run for each fold of each setting and seed."""

import dataclasses
import functools
import statistics

import numpy as np

from keras_bert.runs import grid
from keras_bert.runs.grid_runs import GridRuns, read_logits

_ABSENT = -1e9  # Logit of choices that only rows of other folds have.


class FoldRuns(GridRuns):
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
        self.final = self.directory / "final"
        self._task = task
        self._folds = plan.folds
        self.assigned = functools.cache(self._assigned)
        # Settings of one seed share their rows.
        self.fold_task = functools.lru_cache(plan.folds.count)(self._fold_task)

    def _assigned(self, seed):
        """Returns the fold of each row, an array."""
        return self._folds.assign(self._task.splits["dev"][0].examples, seed)

    def _fold_task(self, fold, seed):
        """Returns the `Task` of the rows of a fold as dev, and of all others to train on."""
        is_dev = self.assigned(seed) == fold
        train_rows = np.flatnonzero(~is_dev).tolist()
        dev_rows = np.flatnonzero(is_dev).tolist()
        task = self._task
        try:
            data = task.data.parted(train_rows, dev_rows)
            if hasattr(data, "labels"):
                data = dataclasses.replace(data, labels=task.labels)  # A fold may have no row of a rare one.
            return type(task)(data, task.start, task.settings)
        except ValueError as error:
            raise ValueError(
                f"fold {fold} of {self._folds.count}: {error}. Expected fewer folds, or more rows of the kind"
            ) from error

    def rescore(self):
        """Updates the scores of each fold by `fold_scores` of the task, given the predictions of all folds."""
        repetitions = {}  # The folds of each setting and seed.
        for result in self.results:
            if "diverged" not in result:
                name = grid.folder_name(_without_fold(result["setting"]))
                repetitions.setdefault(name, []).append(result)
        for folds in repetitions.values():
            if len(folds) != self._folds.count:
                continue
            logits = self._logits_of_all_rows(folds)
            for fold in folds:
                fold["scores"] |= self._task.report.fold_scores(self._rows_of_fold(fold), logits)

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
        best = row["setting"]
        return [result for result in self.results if grid.without_seed(result["setting"]) == best]

    def means(self):
        """Formats mean and standard deviation of the scores over the folds and seeds of the best setting."""
        folds = self.best()
        report = self._task.report
        known = report.score_names or report.summary.majority
        texts = []
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
        folds = [fold for fold in self.best() if _without_fold(fold["setting"]) == chosen]
        return self._logits_of_all_rows(folds)

    def _logits_of_all_rows(self, folds):
        """Returns what is kept of all rows in their order, from the folds of one setting and seed."""
        kept = [read_logits(self.folder(fold["setting"]) / "dev.npz") for fold in folds]
        rows = np.concatenate([self._rows_of_fold(fold) for fold in folds])
        sizes = np.array(self._task.report.entries())[rows]
        # Where the entries of each row begin when they are in order, and their places among those of all folds.
        places = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
        order = np.concatenate([places[number] for number in np.argsort(rows)])
        logits = {}
        for name in kept[0]:
            logits[name] = _stacked([arrays[name] for arrays in kept])[order]
        return logits

    def _rows_of_fold(self, fold):
        """Returns the numbers of the rows of a fold, given its result."""
        setting = fold["setting"]
        return np.flatnonzero(self.assigned(setting["seed"]) == setting["fold"])

    def to_json(self):
        folds = self.best()
        scores = {}
        for name in folds[0]["scores"]:
            scores[name] = float(np.mean([fold["scores"][name] for fold in folds]))
        entries = super().to_json()
        entries["best"] = {"setting": self.chosen(), "scores": scores}
        entries["ensemble"] = []
        return entries


def _without_fold(setting):
    """Returns a setting without its fold."""
    return {name: value for name, value in setting.items() if name != "fold"}


def _stacked(arrays):
    """Concatenates the rows of arrays, which may have different numbers of columns."""
    width = max(_columns(array) for array in arrays)
    padded = []
    for array in arrays:
        if array.ndim > 1 and _columns(array) < width:
            padding = [(0, 0)] * array.ndim
            padding[1] = (0, width - _columns(array))
            array = np.pad(array, padding, constant_values=_ABSENT)
        padded.append(array)
    return np.concatenate(padded)


def _columns(array):
    """Returns the number of columns of an array, 0 if it has one dimension."""
    return array.shape[1] if array.ndim > 1 else 0
