"""The runs of a grid in one folder, their logits, and an ensemble of the best runs."""

import contextlib
import json
import logging
import math
import pathlib
import shutil
import time

import numpy as np

from keras_bert.experiments import grid
from keras_bert.files import read_json, write_json
from keras_bert.tasks.logits import mean_logits
from keras_bert.training.progress import Progress

_SECONDS = "seconds.json"

_LOG = logging.getLogger("keras_bert")


class GridRuns:
    """Runs a grid and keeps the logits of each run and the model of the best run.

    Args:
        directory: output folder; `runs/` in it contains a folder for each run.
        metric: name of the score that selects the best run.
        ensemble: int, number of best runs whose logits are combined. Defaults to 1.
        write: bool, whether this process writes files; only one of several workers should. Defaults to `True`.
        combine: function that combines the logits of several runs, a list of arrays.

    Attributes:
        results: list of `{"setting", "scores", ...}` of all runs, set by `run`. A run that diverged has NaN as score.
        progress: `Progress` of the current run, or `None`.
    """

    def __init__(self, directory, metric, ensemble=1, write=True, combine=mean_logits):
        self.directory, self.metric, self.write = pathlib.Path(directory), metric, write
        self._ensemble, self._combine, self.results, self.progress = ensemble, combine, [], None

    def run(self, settings, common, train):
        """Trains the unfinished runs.

        Args:
            settings: list of settings, see `grid.settings`.
            common: the settings that all runs share, see `grid.run_grid`.
            train: function of `(setting, folder)` that returns the result, a dict with `scores`; the logits of each
                split as dicts of arrays, `{"dev": {...}, "test": {...}}`; and a function that saves the model. If it
                raises a FloatingPointError, the run has diverged: it is ranked last, and the grid continues.
        """

        def run(setting, folder, finished):
            self.progress = _progress(settings, setting, finished, resumed=self.progress is None)
            with _timed(folder / _SECONDS) if self.write else contextlib.nullcontext():
                result = self._train_and_store(train, setting, folder, finished)
            if self.write:
                remove_snapshots(folder)
            return result

        self.results = grid.run_grid(settings, self.directory / "runs", run, common, write=self.write)
        if self.progress is None:
            _LOG.info("  %s", "the run is finished" if len(settings) == 1 else f"all {len(settings)} runs are finished")
        self.progress = None
        if not self.best():
            diverged = [result["diverged"] for result in self.results if "diverged" in result]
            raise FloatingPointError(
                f"{len(diverged)} of {len(self.results)} run(s) in {self.directory / 'runs'} diverged, which leaves no "
                f"model to keep. Add a lower learning rate. The first one: {diverged[0]}"
            )

    def _train_and_store(self, train, setting, folder, finished):
        try:
            result, logits, save = train(setting, folder)
        except FloatingPointError as error:
            _LOG.warning("%s diverged and is ranked last: %s", grid.setting_text(setting), error)
            return {"scores": {self.metric: math.nan}, "diverged": str(error)}
        if self.write:
            for split, arrays in logits.items():
                np.savez(folder / f"{split}.npz", **arrays)
            mine = {"setting": setting, **result}
            if grid.ranked([*finished, mine], self.metric)[0] is mine:
                save()
        return result

    def best(self):
        """Returns the results of the ensemble's runs, the best first, without runs that diverged."""
        ranked = grid.ranked(self.results, self.metric)[: self._ensemble]
        return [result for result in ranked if not math.isnan(result["scores"][self.metric])]

    def logits(self, split):
        """Returns the combined logits of the ensemble as a dict of arrays."""
        arrays = []
        for result in self.best():
            with np.load(self._folder(result) / f"{split}.npz") as file:
                arrays.append(dict(file))
        return {name: self._combine([part[name] for part in arrays]) for name in arrays[0]}

    def curves(self):
        """Returns the lines of each run's `metrics.jsonl`, by folder name."""
        files = {self._folder(result).name: self._folder(result) / "metrics.jsonl" for result in self.results}
        return {name: [json.loads(line) for line in file.read_text().splitlines()] for name, file in files.items()}

    def seconds(self):
        """Returns the duration of all runs, including interrupted parts."""
        return sum(_seconds(self._folder(result) / _SECONDS) for result in self.results)

    def summary(self):
        """Returns the results as JSON values."""
        best = self.best()
        return {
            "metric": self.metric,
            "best": best[0],
            "ensemble": [result["setting"] for result in best],
            "summary": grid.summary(self.results, self.metric),
            "runs": self.results,
        }

    def _folder(self, result):
        return self.directory / "runs" / grid.folder_name(result["setting"])


def _progress(settings, setting, finished, resumed):
    """Returns the `Progress` of a run of the grid; a run takes time in proportion to its epochs."""
    done = [setting, *(result["setting"] for result in finished)]
    later = [other for other in settings if other not in done]
    rest = sum(other.get("epochs", 1) for other in later) / setting.get("epochs", 1)
    return Progress(len(settings) - len(later), len(settings), rest, resumed)


@contextlib.contextmanager
def _timed(path):
    """Adds the duration of the block to that in the file."""
    began = time.monotonic()
    try:
        yield
    finally:
        write_json(path, _seconds(path) + time.monotonic() - began)


def _seconds(path):
    return read_json(path) if path.exists() else 0.0


def remove_snapshots(folder):
    """Removes the weights that a run keeps while it trains, including those of earlier stages."""
    for name in ("snapshots", "best", "averaged"):
        for snapshots in list(folder.rglob(name)):
            shutil.rmtree(snapshots, ignore_errors=True)
