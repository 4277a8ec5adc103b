"""The settings of a grid of runs, the order of their results, and statistics over seeds."""

import itertools
import json
import math
import statistics

import numpy as np

from keras_bert.training.progress import is_share


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
    """Sorts results by descending metric, NaN last, ties in the order of their settings."""
    return sorted(in_order(results), key=lambda result: _descending(result["scores"][metric]))


def _descending(score):
    return (math.isnan(score), 0.0 if math.isnan(score) else -score)


def seed_statistics(results, metric):
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
        missing = "diverged" if math.isnan(result["scores"][metric]) else ""  # A run may lack scores of others.
        numbers = " | ".join(_cell(name, result["scores"][name], missing) for name in names)
        lines.append(f"| {setting_text(result['setting'])} | {numbers} |")
    return "\n".join(lines) + "\n"


def statistics_table(rows, metric):
    """Returns a Markdown table of `seed_statistics`; a setting with a single run has no deviation."""
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


def _cell(name, value, missing="diverged"):
    return missing if math.isnan(value) else f"{100 * value:.2f}%" if is_share(name) else f"{value:.4f}"
