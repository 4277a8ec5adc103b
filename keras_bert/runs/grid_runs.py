"""The runs of a grid in a folder: which ones are left, what they have stored, and an ensemble of the best."""

import contextlib
import gc
import logging
import math
import pathlib
import shutil
import time

import numpy as np

from keras_bert.files import as_numbers, read_json, read_lines, write_json
from keras_bert.progress import Progress
from keras_bert.runs.grid import folder_name, in_order, ranked, seed_statistics, setting_text
from keras_bert.runs.unchanged_inputs import COMMON, check_same_settings
from keras_bert.tasks.logits import mean_logits

_RESULT = "result.json"
_SECONDS = "seconds.json"

_LOG = logging.getLogger("keras_bert")


class GridRuns:
    """The runs of a grid in a folder: which ones are left, their results and logits, and the best of them.

    `runs/` in the directory has a folder for each run, also for those of earlier grids. `metric` selects the best run;
    `combine` combines the logits of the `ensemble` best ones, a list of arrays. Only one of several workers should
    `write`. With `counts_earlier`, runs of earlier grids in the folder count, too; `names` are what messages call data,
    by their names among the settings that all runs share.

    Attributes:
        results: list of `{"setting", "scores", ...}` of the finished runs. A run that diverged has NaN as score.
        progress: `Progress` of the current run, or `None`.
    """

    def __init__(
        self,
        directory,
        metric,
        ensemble=1,
        *,
        write=True,
        combine=mean_logits,
        counts_earlier=True,
        names=None,
    ):
        self.directory = pathlib.Path(directory)
        self.metric = metric
        self.write = write
        self.results = []
        self.progress = None
        self._settings = []
        self._ensemble = ensemble
        self._combine = combine
        self._counts_earlier = counts_earlier
        self._names = names or {}

    def unfinished(self, settings, common):
        """Reads the results in the folder; returns the settings that have none yet.

        `common` are the settings that all runs share, such as the model; they must equal those of the folder's runs.
        """
        check_same_settings(self.directory, common, self._names)
        if self.write and not (self.directory / COMMON).exists():
            write_json(self.directory / COMMON, common)
        self.results = self._stored_results(settings)
        self._drop_best_without_model(settings)
        left = self._left(settings)
        self._check_folder_names(left)
        if not left:
            are_finished = "the run is finished" if len(settings) == 1 else f"all {len(settings)} runs are finished"
            _LOG.info("  %s", are_finished)
        self._settings = settings
        return left

    def _stored_results(self, settings):
        """Returns the results in the folder that count; says which others are there."""
        results = [_read_result(path) for path in (self.directory / "runs").glob(f"*/{_RESULT}")]
        if self._counts_earlier:
            return results
        counting = []
        others = []
        for result in results:
            if result["setting"] in settings:
                counting.append(result)
            else:
                others.append(folder_name(result["setting"]))
        if others:
            _LOG.info("  runs with other settings are in the folder and do not count: %s", ", ".join(others))
        return counting

    def _drop_best_without_model(self, settings):
        """Removes the result of the best run, which then runs again, if the folder has the model of another one.

        It has after a run was interrupted while its model was written, if that run is none of the grid any more, and
        where a later grid has replaced the model.
        """
        best = self.best()
        if not best or not self._kept.exists():
            return
        setting = best[0]["setting"]
        if read_json(self._kept) in [setting, *self._left(settings)]:
            return
        _LOG.info("  the folder has the model of another run: %s is repeated", setting_text(setting))
        if self.write:
            shutil.rmtree(self.folder(setting))
        self.results = [result for result in self.results if result["setting"] != setting]

    def _left(self, settings):
        """Returns the settings without results."""
        done = [result["setting"] for result in self.results]
        return [setting for setting in settings if setting not in done]

    def _check_folder_names(self, left):
        """Raises for two settings, finished ones or those that are left, with the same folder."""
        names = [folder_name(result["setting"]) for result in self.results]
        names.extend(folder_name(setting) for setting in left)
        for name in names:
            if names.count(name) > 1:
                runs = self.directory / "runs"
                raise ValueError(f"{runs}: two settings would share the folder {name}. Expected different names")

    @property
    def _kept(self):
        """The file of the setting whose model is kept."""
        return self.directory / "runs" / "kept.json"

    def keep(self, setting):
        """Notes that the model of a run is the one in the folder; call it before the model is written."""
        write_json(self._kept, setting)

    @contextlib.contextmanager
    def started(self, setting):
        """Creates the folder of a run; measures the time of the block, and then removes the run's snapshots."""
        folder = self.folder(setting)
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = self._progress_of(setting, resumed=self.progress is None)
        timing = _timed(folder / _SECONDS) if self.write else contextlib.nullcontext()
        with timing:
            yield folder
        if self.write:
            remove_snapshots(folder)

    def _progress_of(self, setting, resumed):
        """Returns the `Progress` of a run; a run takes time in proportion to its epochs."""
        done = [setting]
        done.extend(result["setting"] for result in self.results)
        later = [other for other in self._settings if other not in done]
        epochs_later = sum(other.get("epochs", 1) for other in later)
        runs = len(self._settings)
        return Progress(
            run=runs - len(later),
            runs=runs,
            rest=epochs_later / setting.get("epochs", 1),
            resumed=resumed,
        )

    def is_best(self, setting, result):
        """Returns whether a new run is better than all finished ones."""
        new = {"setting": setting} | result
        return ranked([*self.results, new], self.metric)[0] is new

    def add(self, setting, result):
        """Adds the result of a finished run, a dict with `scores`."""
        stored = {"setting": setting} | result
        self.results.append(stored)
        gc.collect()  # Models are in reference cycles; this frees their memory for the next run.
        if self.write:
            write_json(self.folder(setting) / _RESULT, stored, measured=True)

    def finish(self):
        """Sorts the results and adds NaN for scores that only other runs have. Raises an error if all runs diverged."""
        self.results = in_order(_with_all_scores(self.results))
        self.progress = None
        best = self.best()
        if not best:
            diverged = [result["diverged"] for result in self.results if "diverged" in result]
            raise FloatingPointError(
                f"{len(diverged)} of {len(self.results)} run(s) in {self.directory / 'runs'} diverged, which leaves no "
                f"model to keep. Add a lower learning rate. The first one: {diverged[0]}"
            )
        if math.isnan(best[0]["scores"][self.metric]):
            _LOG.warning("the score %s is NaN: no run is better than another, and the first one is kept", self.metric)

    def best(self):
        """Returns the results of the ensemble's runs, the best first, without runs that diverged."""
        best = ranked(self.results, self.metric)[: self._ensemble]
        return [result for result in best if "diverged" not in result]

    def logits(self, split):
        """Returns the combined logits of the ensemble as a dict of arrays."""
        kept = [read_logits(self.folder(result["setting"]) / f"{split}.npz") for result in self.best()]
        combined = {}
        for name in kept[0]:
            combined[name] = self._combine([arrays[name] for arrays in kept])
        return combined

    def curves(self):
        """Returns the lines of each run's `metrics.jsonl`, by folder name."""
        curves = {}
        for result in self.results:
            folder = self.folder(result["setting"])
            curves[folder.name] = read_lines(folder / "metrics.jsonl")
        return curves

    def seconds(self):
        """Returns the duration of all runs, including interrupted parts."""
        return sum(_seconds(self.folder(result["setting"]) / _SECONDS) for result in self.results)

    def to_json(self):
        """Returns the entries of `results.json` about the runs."""
        best = self.best()
        return {
            "metric": self.metric,
            "best": best[0],
            "ensemble": [result["setting"] for result in best],
            "summary": seed_statistics(self.results, self.metric),
            "runs": self.results,
        }

    def folder(self, setting):
        """Returns the folder of a run."""
        return self.directory / "runs" / folder_name(setting)


def _read_result(path):
    """Returns the result of a finished run; the scores of one that diverged are NaN, which JSON does not have."""
    result = read_json(path)
    result["scores"] = as_numbers(result["scores"])
    return result


def read_logits(path):
    """Returns the arrays of an `.npz` file as a dict."""
    with np.load(path) as file:
        return dict(file)


def _with_all_scores(results):
    """Adds NaN for scores that only other runs have; a run that diverged may have none."""
    missing = {}
    for result in sorted(results, key=lambda result: -len(result["scores"])):  # Names in the order of the longest.
        for name in result["scores"]:
            missing.setdefault(name, math.nan)
    return [result | {"scores": missing | result["scores"]} for result in results]


@contextlib.contextmanager
def _timed(path):
    """Adds the duration of the block to that in the file."""
    began = time.monotonic()
    try:
        yield
    finally:
        write_json(path, _seconds(path) + time.monotonic() - began)


def _seconds(path):
    """Returns the duration in a file, 0 without one."""
    return read_json(path) if path.exists() else 0.0


def remove_snapshots(folder):
    """Removes the weights that a run keeps while it trains, including those of earlier stages."""
    for name in ("snapshots", "best", "averaged"):
        for snapshots in list(folder.rglob(name)):
            shutil.rmtree(snapshots, ignore_errors=True)
