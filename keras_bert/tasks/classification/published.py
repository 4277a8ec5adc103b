"""Published GLUE test scores, and two ways to average over tasks."""

from keras_bert.tasks.classification.glue_tasks import TASKS

_IN_AVERAGE = [name for name in TASKS if name not in ("wnli", "ax")]  # The paper's nine columns.
# Percent of the main metric of each task, by (layers, width). BASE and LARGE: Devlin et al., 2019, table 1; the others:
# Google's model cards of the miniatures (Turc et al., 2019).
_COLUMNS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax")
_PUBLISHED = {
    (2, 128): ("BERT Tiny", (0.0, 83.2, 81.1, 73.6, 62.2, 70.2, 70.3, 81.5, 57.2, 62.3, 21.0)),
    (4, 256): ("BERT Mini", (0.0, 85.9, 81.1, 73.3, 66.4, 74.8, 74.3, 84.1, 57.9, 62.3, 26.1)),
    (4, 512): ("BERT Small", (27.8, 89.7, 83.4, 77.0, 68.1, 77.6, 77.0, 86.4, 61.8, 62.3, 28.6)),
    (8, 512): ("BERT Medium", (38.0, 89.6, 86.6, 78.4, 69.6, 80.0, 79.1, 87.7, 62.2, 62.3, 30.5)),
    (12, 768): ("BERT BASE", (52.1, 93.5, 88.9, 85.8, 71.2, 84.6, 83.4, 90.5, 66.4, None, None)),
    (24, 1024): ("BERT LARGE", (60.5, 94.9, 89.3, 86.5, 72.1, 86.7, 85.9, 92.7, 70.1, None, None)),
}
_ALWAYS = ("BERT BASE", "BERT LARGE")


def published(config):
    """Returns [(name, main metric by task, in percent)] for a BERT of the size of `config`, or for BASE and LARGE."""
    is_bert = hasattr(config, "num_attention_heads")
    size = (config.num_hidden_layers, config.hidden_size)
    rows = [_PUBLISHED[size]] if is_bert and size in _PUBLISHED else []
    rows = rows or [row for row in _PUBLISHED.values() if row[0] in _ALWAYS]
    return [(name, dict(zip(_COLUMNS, numbers, strict=True))) for name, numbers in rows]


def comparison_table(scores, config):
    """Returns a Markdown table of our dev scores (dicts of `score`, by task) and published test scores.

    The average follows Devlin et al., table 1: nine columns, one metric each, both MNLI sets separately, without WNLI.
    """
    names = [name for name in _COLUMNS if name in scores]
    ours = {name: 100 * scores[name][TASKS[name].main_metric] for name in names}
    rows = [("ours, dev", ours), *((f"{name}, test", numbers) for name, numbers in published(config))]
    titles = [f"{_title(name)} ({TASKS[name].main_metric.replace('_', ' ')})" for name in names]
    whole = all(name in scores for name in _IN_AVERAGE)
    lines = [f"| | {' | '.join(titles + ['average'] * whole)} |", "|---" * (1 + len(names) + whole) + "|"]
    for row, numbers in rows:
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
