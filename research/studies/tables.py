"""The tables of a study: scores beside the published ones, and differences between rows with their standard errors."""

import math


def heads(columns, perplexities):
    """Returns the titles of the columns."""
    names = [f"{column.title} ({column.metric.replace('_', ' ')})" for column in columns]
    return ["row", *(["perplexity"] if perplexities else []), *names]


def score_rows(definition, columns, scores, perplexities):
    """Returns the cells of our rows, in percent: mean ± deviation over the seeds; empty if not finished."""
    rows = []
    for row in definition.rows:
        if row.key in scores or row.key in perplexities:
            cells = [_score(scores.get(row.key, {}).get(column.name)) for column in columns]
            language = [f"{perplexities[row.key]:.2f}" if row.key in perplexities else ""] if perplexities else []
            rows.append([row.title, *language, *cells])
    baselines = [_majority(column.name, scores) for column in columns]
    if rows and any(baselines):
        rows.append(["majority baseline", *([""] if perplexities else []), *baselines])
    return rows


def _majority(task, scores):
    """Returns the score of the task's majority baseline, in percent; empty if there is none."""
    found = [row[task]["majority"] for row in scores.values() if row.get(task, {}).get("majority") is not None]
    return f"{100 * found[0]:.1f}" if found else ""


def published_rows(definition, columns, perplexities):
    """Returns the cells of the published rows, without those that have none for these columns."""
    rows = []
    for row in definition.rows:
        cells = [row.published.get(column.name) for column in columns]
        if any(cell is not None for cell in cells):
            cells = [row.published.get("perplexity"), *cells] if perplexities else cells
            mark = "published" if row.is_built else "published, not rebuilt"
            rows.append([f"{row.title}, {mark}", *("" if cell is None else str(cell) for cell in cells)])
    return rows


def _score(found):
    if found is None:
        return ""
    if math.isnan(found["mean"]):
        return "diverged"
    mean, deviation = (f"{100 * found[name]:.1f}" for name in ("mean", "deviation"))
    return f"{mean} ± {deviation}" if found["runs"] > 1 else mean


def differences(definition, columns, scores):
    """Returns sentences about the differences of each row from the first one, in points with their standard errors."""
    first, *others = [row for row in definition.rows if row.key in scores] or [None]
    lines = []
    for row in others:
        parts = []
        for column in columns:
            pair = [scores[key].get(column.name) for key in (row.key, first.key)]
            if None not in pair and not any(math.isnan(found["mean"]) for found in pair):
                parts.append(f"{column.title} {_difference(*pair)}")
        if parts:
            lines.append(f"{row.title} against {first.title}: {', '.join(parts)}.")
    return lines


def _difference(found, reference):
    points = f"{100 * (found['mean'] - reference['mean']):+.1f}"
    if min(found["runs"], reference["runs"]) < 2:
        return points
    error = math.sqrt(sum(part["deviation"] ** 2 / part["runs"] for part in (found, reference)))
    return f"{points} ± {100 * error:.1f}"


def notes(columns, scores, perplexities):
    """Returns sentences that explain the table."""
    runs = sorted({found["runs"] for row in scores.values() for found in row.values()})
    lines = []
    if runs and runs[-1] > 1:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        lines.append(
            f"Scores on dev in percent: mean ± standard deviation over {count} seeds of fine-tuning, all from one "
            "pre-training. Differences: ± standard error of the two means; it does not include the variance between "
            "pre-trainings."
        )
    elif runs:
        lines.append("Scores on dev in percent, of one run each.")
    for column in columns:
        counts = {"training": column.train_examples, "dev": column.dev_examples}
        if limits := [f"{count:,} {part} examples" for part, count in counts.items() if count]:
            lines.append(f"{column.title}: at most {' and '.join(limits)}.")
    if any(_majority(column.name, scores) for column in columns):
        lines.append(
            "The majority baseline always gives the most frequent label; for named entities, each word's most frequent "
            "tag. A score near it means that little was learned: compare no such rows."
        )
    if perplexities:
        lines.append(
            "Perplexity: of the predicted tokens of held-out text, with the masks of the row. That of a left-to-right "
            "model, which predicts every token from its left context, is not comparable with that of a masked one, nor "
            "that of a bilm, the mean over both directions."
        )
    return lines


def markdown(heads, rows):
    """Returns a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
