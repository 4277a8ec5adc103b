"""Resumable grids of runs, one folder per run, and their statistics."""

import gc
import itertools
import json
import math
import pathlib
import statistics

import numpy as np

from keras_bert.files import difference, read_json, write_json

_RESULT = "result.json"


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


def run_grid(grid, directory, run, common, write=True):
    """Runs the settings that have no result yet.

    Args:
        grid: list of settings.
        directory: folder of the runs; may contain runs of earlier grids.
        run: function of `(setting, folder, finished results)` that returns the result, a dict with `scores`, a dict of
            numbers. It may be interrupted and called again.
        common: dict of the settings that all runs share, such as the model. Must equal that of the folder's runs.
        write: bool, whether this process writes files; only one of several workers should. Defaults to `True`.

    Returns:
        A sorted list of `{"setting", "scores", ...}` of all runs in the directory, including those of earlier grids.
        Scores that only other runs have are NaN.
    """
    directory = pathlib.Path(directory)
    _check_common(directory / "common.json", common, write)
    results = [read_json(path) for path in directory.glob(f"*/{_RESULT}")]
    done = [result["setting"] for result in results]
    names = [folder_name(setting) for setting in [*done, *(setting for setting in grid if setting not in done)]]
    if shared := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{directory}: two settings would share the folder {shared[0]}. Expected different names")
    for setting in grid:
        if setting not in done:
            folder = directory / folder_name(setting)
            folder.mkdir(parents=True, exist_ok=True)
            result = {"setting": setting, **run(setting, folder, list(results))}
            results.append(result)
            gc.collect()  # Models are in reference cycles; this frees their memory for the next run.
            if write:
                write_json(folder / _RESULT, result)
    return sorted(_with_all_scores(results), key=_order)


def _with_all_scores(results):
    """Adds NaN for scores that only other runs have; a run that diverged may have none."""
    longest_first = sorted(results, key=lambda result: -len(result["scores"]))
    names = dict.fromkeys((name for result in longest_first for name in result["scores"]), math.nan)
    return [{**result, "scores": names | result["scores"]} for result in results]


def _check_common(path, common, write):
    if path.exists():
        if differs := difference(read_json(path), common):
            raise ValueError(
                f"{path.parent} contains runs with other settings: {differs}. Use the same ones or another directory"
            )
    elif write:
        write_json(path, common)


def _order(result):
    return list(result["setting"].values())


def ranked(results, metric):
    """Sorts results by descending metric, NaN last, ties in the order of their settings."""
    return sorted(sorted(results, key=_order), key=lambda result: _descending(result["scores"][metric]))


def _descending(score):
    return (math.isnan(score), 0.0 if math.isnan(score) else -score)


def summary(results, metric):
    """Computes statistics of the metric over the seeds of each setting.

    Returns:
        A list of dicts, the best mean first: the setting without its seed, `mean`, `deviation` (sample standard
        deviation; 0 for one run), `lowest`, `highest` and `runs`. If a run's score is NaN, the statistics are NaN.
    """
    groups = {}
    for result in results:
        groups.setdefault(json.dumps(without_seed(result["setting"])), []).append(result["scores"][metric])
    rows = [
        {
            "setting": json.loads(setting),
            "mean": statistics.fmean(values),
            "deviation": _deviation(values),
            "lowest": float(np.min(values)),
            "highest": float(np.max(values)),
            "runs": len(values),
        }
        for setting, values in groups.items()
    ]
    return sorted(rows, key=lambda row: _descending(row["mean"]))


def without_seed(setting):
    """Returns what the repetitions of a run have in common: the setting without its seed and fold."""
    return {name: value for name, value in setting.items() if name not in ("seed", "fold")}


def _deviation(values):
    if np.isnan(values).any():  # `stdev` raises on NaN.
        return math.nan
    return statistics.stdev(values) if len(values) > 1 else 0.0


def runs_table(results, metric):
    """Returns a Markdown table of all runs and scores, the best first; losses are not in percent."""
    names = list(results[0]["scores"])
    lines = [f"| run | {' | '.join(names)} |".replace("_", " "), "|---" * (1 + len(names)) + "|"]
    for result in ranked(results, metric):
        missing = "diverged" if math.isnan(result["scores"][metric]) else ""  # Runs of earlier versions lack scores.
        numbers = " | ".join(_cell(name, result["scores"][name], missing) for name in names)
        lines.append(f"| {setting_text(result['setting'])} | {numbers} |")
    return "\n".join(lines) + "\n"


def markdown(rows, metric):
    """Returns a Markdown table of a `summary`; a setting with a single run has no deviation."""
    title = metric.replace("_", " ")
    if all(row["runs"] == 1 for row in rows):
        cells = [f"| {setting_text(row['setting'])} | {_cell(metric, row['mean'])} |" for row in rows]
        return "\n".join([f"| setting | {title} |", "|---|---|", *cells]) + "\n"
    lines = [f"| setting | runs | {title}, mean | deviation | lowest | highest |", "|---|---|---|---|---|---|"]
    for row in rows:
        names = ("mean", "deviation", "lowest", "highest")
        numbers = [_cell(metric, row[name]) if name == "mean" or row["runs"] > 1 else "" for name in names]
        lines.append(f"| {setting_text(row['setting'])} | {row['runs']} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def setting_text(setting):
    """Returns a setting as text, such as `learning_rate=3e-05, seed=1`."""
    return folder_name(setting).replace(",", ", ")


def _is_share(name):
    return name != "loss" and not name.endswith("_loss")


def _cell(name, value, missing="diverged"):
    return missing if math.isnan(value) else f"{100 * value:.2f}%" if _is_share(name) else f"{value:.4f}"
