"""A grid of runs: its settings, its runs in a folder and an ensemble of the best, and statistics over seeds."""

import contextlib
import gc
import itertools
import json
import logging
import math
import pathlib
import shutil
import statistics
import time

import numpy as np

from keras_bert.files import as_numbers, json_text, read_json, read_lines, write_json
from keras_bert.progress import Progress, is_share
from keras_bert.runs.unchanged_inputs import COMMON, check_same_settings
from keras_bert.tasks.logits import mean_logits
from keras_bert.training import loss_names

_RESULT, _SECONDS = "result.json", "seconds.json"
STATISTICS = ("mean", "deviation", "lowest", "highest")  # Of the scores over the seeds of a setting.

_LOG = logging.getLogger("keras_bert")


def settings(**choices):
    """Returns all combinations of the choices as a list of dicts; the last name varies fastest.

    Example:
        settings(learning_rate=[3e-5, 5e-5], seed=[1, 2, 3])
    """
    for name, values in choices.items():
        if not values or len(set(values)) != len(values):
            raise ValueError(f"`{name}` must be a non-empty list without duplicates. Received: {name}={values}")
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def folder_name(setting):
    """Returns the folder name of a run, such as `learning_rate=3e-05,seed=1`; paths lose their folders."""
    return ",".join(f"{name}={str(value).rstrip('/').rpartition('/')[2]}" for name, value in setting.items())


def in_order(results):
    """Sorts results by the values of their settings."""
    return sorted(results, key=lambda result: list(result["setting"].values()))


def ranked(results, metric):
    """Sorts results by descending metric, NaN last, ties by their loss, as epochs are, and then by their settings."""

    def key(result):
        scores = result["scores"]
        loss = loss_names.total(scores, loss_names.names_of(result, scores))
        return "diverged" in result, *_descending(scores[metric]), loss

    return sorted(in_order(results), key=key)


def _descending(score):
    return (math.isnan(score), 0.0 if math.isnan(score) else -score)


def seed_statistics(results, metric):
    """Computes statistics of the metric over the seeds of each setting.

    Args:
        results: list of dicts with `setting` and `scores`, such as the `runs` of `results.json`.
        metric: str, the name of a score.

    Returns:
        A list of dicts, the best mean first: the setting without its seed, `mean`, `deviation` (sample standard
        deviation; 0 for one run), `lowest`, `highest` and `runs`. If a run's score is NaN, the statistics are NaN.
        `diverged` is there if runs diverged, and is their number.
    """
    groups = {}
    for result in results:
        groups.setdefault(json_text(without_seed(result["setting"])), []).append(result)
    rows = [_statistics(json.loads(setting), of_setting, metric) for setting, of_setting in groups.items()]
    return sorted(rows, key=lambda row: _descending(row["mean"]))


def _statistics(setting, results, metric):
    """Returns the statistics of the runs of one setting."""
    values = [result["scores"][metric] for result in results]
    row = {
        "setting": setting,
        "mean": statistics.fmean(values),
        "deviation": deviation(values),
        "lowest": float(np.min(values)),
        "highest": float(np.max(values)),
        "runs": len(values),
    }
    diverged = sum("diverged" in result for result in results)
    return {**row, "diverged": diverged} if diverged else row


def _read_result(path):
    """Returns the result of a finished run; the scores of one that diverged are NaN, which JSON does not have."""
    result = read_json(path)
    return {**result, "scores": as_numbers(result["scores"])}


def without_seed(setting):
    """Returns what the repetitions of a run have in common: the setting without its seed and fold."""
    return {name: value for name, value in setting.items() if name not in ("seed", "fold")}


def deviation(values):
    """Returns the sample standard deviation of some numbers; 0 of one, NaN if one is NaN."""
    if np.isnan(values).any():  # `stdev` raises on NaN.
        return math.nan
    return statistics.stdev(values) if len(values) > 1 else 0.0


def runs_table(results, metric):
    """Returns a Markdown table of all runs and scores, the best first; losses are not in percent."""
    names = list(results[0]["scores"])
    lines = [f"| run | {' | '.join(names)} |".replace("_", " "), "|---" * (1 + len(names)) + "|"]
    for result in ranked(results, metric):
        missing = _no_number(result) if math.isnan(result["scores"][metric]) else ""  # It may lack scores of others.
        numbers = " | ".join(_cell(name, result["scores"][name], missing) for name in names)
        lines.append(f"| {setting_text(result['setting'])} | {numbers} |")
    return "\n".join(lines) + "\n"


def statistics_table(rows, metric):
    """Returns a Markdown table of `seed_statistics`; a setting with a single run has no deviation."""
    title = metric.replace("_", " ")
    if all(row["runs"] == 1 for row in rows):
        cells = [f"| {setting_text(row['setting'])} | {_cell(metric, row['mean'], _no_number(row))} |" for row in rows]
        return "\n".join([f"| setting | {title} |", "|---|---|", *cells]) + "\n"
    lines = [f"| setting | runs | {title}, mean | deviation | lowest | highest |", "|---|---|---|---|---|---|"]
    for row in rows:
        names = ("mean", "deviation", "lowest", "highest")
        shown = [name == "mean" or row["runs"] > 1 for name in names]
        missing = _no_number(row)
        numbers = [_cell(metric, row[name], missing) if show else "" for name, show in zip(names, shown, strict=True)]
        lines.append(f"| {setting_text(row['setting'])} | {row['runs']} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def setting_text(setting):
    """Returns a setting as text, such as `learning_rate=3e-05, seed=1`."""
    return folder_name(setting).replace(",", ", ")


def _no_number(result):
    """Returns what tables show in place of the NaN of a result, or of the statistics of several."""
    return "diverged" if "diverged" in result else "nan"


def _cell(name, value, missing):
    return missing if math.isnan(value) else f"{100 * value:.2f}%" if is_share(name) else f"{value:.4f}"


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
        self, directory, metric, ensemble=1, *, write=True, combine=mean_logits, counts_earlier=True, names=None
    ):
        self.directory, self.metric, self.write = pathlib.Path(directory), metric, write
        self._ensemble, self._combine, self._settings = ensemble, combine, []
        self.results, self.progress = [], None
        self._counts_earlier, self._names = counts_earlier, names or {}

    def unfinished(self, settings, common):
        """Reads the results in the folder; returns the settings that have none yet.

        `common` are the settings that all runs share, such as the model; they must equal those of the folder's runs.
        """
        runs = self.directory / "runs"
        check_same_settings(self.directory, common, self._names)
        if self.write and not (self.directory / COMMON).exists():
            write_json(self.directory / COMMON, common)
        found = [_read_result(path) for path in runs.glob(f"*/{_RESULT}")]
        self.results = found if self._counts_earlier else self._only(settings, found)
        self._drop_best_without_model(settings)
        left = self._left(settings)
        done = [result["setting"] for result in self.results]
        names = [folder_name(setting) for setting in [*done, *left]]
        if shared := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{runs}: two settings would share the folder {shared[0]}. Expected different names")
        if not left:
            _LOG.info("  %s", "the run is finished" if len(settings) == 1 else f"all {len(settings)} runs are finished")
        self._settings = settings
        return left

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

    @staticmethod
    def _only(settings, found):
        """Returns the results of runs with these settings; says which others are there."""
        earlier = [result for result in found if result["setting"] not in settings]
        if earlier:
            names = ", ".join(folder_name(result["setting"]) for result in earlier)
            _LOG.info("  runs with other settings are in the folder and do not count: %s", names)
        return [result for result in found if result not in earlier]

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
        self.progress = self._progress(setting, resumed=self.progress is None)
        with _timed(folder / _SECONDS) if self.write else contextlib.nullcontext():
            yield folder
        if self.write:
            remove_snapshots(folder)

    def _progress(self, setting, resumed):
        """Returns the `Progress` of a run; a run takes time in proportion to its epochs."""
        done = [setting, *(result["setting"] for result in self.results)]
        later = [other for other in self._settings if other not in done]
        rest = sum(other.get("epochs", 1) for other in later) / setting.get("epochs", 1)
        return Progress(len(self._settings) - len(later), len(self._settings), rest, resumed)

    def is_best(self, setting, result):
        """Returns whether a new run is better than all finished ones."""
        new = {"setting": setting, **result}
        return ranked([*self.results, new], self.metric)[0] is new

    def add(self, setting, result):
        """Adds the result of a finished run, a dict with `scores`."""
        self.results.append({"setting": setting, **result})
        gc.collect()  # Models are in reference cycles; this frees their memory for the next run.
        if self.write:
            write_json(self.folder(setting) / _RESULT, self.results[-1], measured=True)

    def finish(self):
        """Sorts the results and adds NaN for scores that only other runs have. Raises an error if all runs diverged."""
        self.results, self.progress = in_order(_with_all_scores(self.results)), None
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
        arrays = [read_logits(self.folder(result["setting"]) / f"{split}.npz") for result in self.best()]
        return {name: self._combine([part[name] for part in arrays]) for name in arrays[0]}

    def curves(self):
        """Returns the lines of each run's `metrics.jsonl`, by folder name."""
        files = [self.folder(result["setting"]) / "metrics.jsonl" for result in self.results]
        return {file.parent.name: read_lines(file) for file in files}

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


def read_logits(path):
    """Returns the arrays of an `.npz` file as a dict."""
    with np.load(path) as file:
        return dict(file)


def _with_all_scores(results):
    """Adds NaN for scores that only other runs have; a run that diverged may have none."""
    longest_first = sorted(results, key=lambda result: -len(result["scores"]))
    names = dict.fromkeys((name for result in longest_first for name in result["scores"]), math.nan)
    return [{**result, "scores": names | result["scores"]} for result in results]


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
