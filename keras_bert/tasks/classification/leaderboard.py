"""GLUE's tasks side by side: a table of their main metrics, and the averages of paper and leaderboard."""

from keras_bert.tasks.classification.glue_tasks import TASKS

_COLUMNS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax")
_IN_AVERAGE = [name for name in TASKS if name not in ("wnli", "ax")]  # The paper's nine columns.


def table(scores, others=None):
    """Returns a Markdown table of our dev scores (dicts of `score`, by task), and of `others` in percent, by name.

    The average follows Devlin et al., table 1: nine columns, one metric each, both MNLI sets separately, without WNLI.
    """
    names = [name for name in _COLUMNS if name in scores]
    rows = {"ours, dev": {name: 100 * scores[name][TASKS[name].main_metric] for name in names}, **(others or {})}
    titles = [f"{_title(name)} ({TASKS[name].main_metric.replace('_', ' ')})" for name in names]
    whole = all(name in scores for name in _IN_AVERAGE)
    lines = [f"| | {' | '.join(titles + ['average'] * whole)} |", "|---" * (1 + len(names) + whole) + "|"]
    for row, numbers in rows.items():
        cells = [numbers[name] for name in names]
        cells += [sum(numbers[name] for name in _IN_AVERAGE) / len(_IN_AVERAGE)] if whole else []
        lines.append(f"| {row} | {' | '.join('' if cell is None else f'{cell:.1f}' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def averages(scores):
    """Returns a line with the leaderboard's averages, or "" if a task is missing."""
    if any(name not in scores for name in _IN_AVERAGE):
        return ""
    whole, without = average(scores)
    whole = "" if whole is None else f"{100 * whole:.1f} with WNLI, "
    return f"Leaderboard average (all metrics of each task): {whole}{100 * without:.1f} without WNLI.\n"


def _title(name):
    return {"mnli": "MNLI-m", "mnli_mismatched": "MNLI-mm", "ax": "AX"}.get(name, TASKS[name].title)


def average(scores):
    """Returns the leaderboard's average of all nine tasks (`None` without WNLI), and of eight tasks without WNLI.

    The score of a task is the mean of its metrics, for MNLI of both test sets. `scores` is a dict by task name.
    """
    means = {name: sum(values.values()) / len(values) for name, values in scores.items() if name != "ax"}
    means["mnli"] = (means["mnli"] + means.pop("mnli_mismatched")) / 2
    wnli = means.pop("wnli", None)
    without = sum(means.values()) / len(means)
    return (sum(means.values()) + wnli) / (len(means) + 1) if wnli is not None else None, without
