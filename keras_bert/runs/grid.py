"""A grid of runs: its settings, the ranks of their results, and statistics over seeds."""

import itertools
import json
import math
import statistics

import numpy as np

from keras_bert.files import json_text
from keras_bert.progress import is_share
from keras_bert.training import loss_names

STATISTICS = ("mean", "deviation", "lowest", "highest")  # Of the scores over the seeds of a setting.


def settings(**choices):
    """Returns all combinations of the choices as a list of dicts; the last name varies fastest.

    Example:
        settings(learning_rate=[3e-5, 5e-5], seed=[1, 2, 3])
    """
    for name, values in choices.items():
        if not values or len(set(values)) != len(values):
            raise ValueError(f"`{name}` must be a non-empty list without duplicates. Received: {name}={values}")
    combinations = itertools.product(*choices.values())
    return [dict(zip(choices, values, strict=True)) for values in combinations]


def folder_name(setting):
    """Returns the folder name of a run, such as `learning_rate=3e-05,seed=1`; paths lose their folders."""
    texts = []
    for name, value in setting.items():
        _, _, base_name = str(value).rstrip("/").rpartition("/")
        texts.append(f"{name}={base_name}")
    return ",".join(texts)


def setting_text(setting):
    """Returns a setting as text, such as `learning_rate=3e-05, seed=1`."""
    return folder_name(setting).replace(",", ", ")


def without_seed(setting):
    """Returns what the repetitions of a run have in common: the setting without its seed and fold."""
    return {name: value for name, value in setting.items() if name not in ("seed", "fold")}


# Ranks.


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
    """Returns a key that sorts scores from the highest to the lowest, NaN last."""
    if math.isnan(score):
        return True, 0.0
    return False, -score


# Statistics.


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
    rows = []
    for setting, results_of_setting in groups.items():
        rows.append(_statistics(json.loads(setting), results_of_setting, metric))
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
    if diverged:
        row["diverged"] = diverged
    return row


def deviation(values):
    """Returns the sample standard deviation of some numbers; 0 of one, NaN if one is NaN."""
    if np.isnan(values).any():  # `stdev` raises on NaN.
        return math.nan
    if len(values) == 1:
        return 0.0
    return statistics.stdev(values)


# Tables.


def runs_table(results, metric):
    """Returns a Markdown table of all runs and scores, the best first; losses are not in percent."""
    names = list(results[0]["scores"])
    heads = " | ".join(names).replace("_", " ")
    lines = [f"| run | {heads} |", "|---" * (1 + len(names)) + "|"]
    for result in ranked(results, metric):
        missing = ""  # It may lack scores of others.
        if math.isnan(result["scores"][metric]):
            missing = _no_number(result)
        cells = " | ".join(_cell(name, result["scores"][name], missing) for name in names)
        lines.append(f"| {setting_text(result['setting'])} | {cells} |")
    return "\n".join(lines) + "\n"


def statistics_table(rows, metric):
    """Returns a Markdown table of `seed_statistics`; a setting with a single run has no deviation."""
    title = metric.replace("_", " ")
    if all(row["runs"] == 1 for row in rows):
        lines = [f"| setting | {title} |", "|---|---|"]
        for row in rows:
            cell = _cell(metric, row["mean"], _no_number(row))
            lines.append(f"| {setting_text(row['setting'])} | {cell} |")
        return "\n".join(lines) + "\n"
    lines = [f"| setting | runs | {title}, mean | deviation | lowest | highest |", "|---" * 6 + "|"]
    for row in rows:
        cells = []
        for name in STATISTICS:
            is_shown = name == "mean" or row["runs"] > 1
            cells.append(_cell(metric, row[name], _no_number(row)) if is_shown else "")
        lines.append(f"| {setting_text(row['setting'])} | {row['runs']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _no_number(result):
    """Returns what tables show in place of the NaN of a result, or of the statistics of several."""
    return "diverged" if "diverged" in result else "nan"


def _cell(name, value, missing):
    """Returns a score as a cell of a table; `missing` stands for NaN."""
    if math.isnan(value):
        return missing
    if is_share(name):
        return f"{100 * value:.2f}%"
    return f"{value:.4f}"
