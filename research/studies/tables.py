"""The tables of a study: scores beside the published ones, and differences between rows with their standard errors."""

import math


def heads(columns, perplexities):
    """Returns the titles of the columns."""
    titles = ["row"]
    if perplexities:
        titles.append("perplexity")
    for column in columns:
        titles.append(f"{column.title} ({column.metric.replace('_', ' ')})")
    return titles


def score_rows(definition, columns, scores, perplexities):
    """Returns the cells of our rows, in percent: mean ± deviation over the seeds; empty if not finished."""
    rows = []
    for row in definition.rows:
        if row.key not in scores and row.key not in perplexities:
            continue
        cells = [row.title]
        if perplexities:  # The table has a column of these.
            cells.append(f"{perplexities[row.key]:.2f}" if row.key in perplexities else "")
        for column in columns:
            cells.append(_score_cell(scores.get(row.key, {}).get(column.name)))
        rows.append(cells)
    baselines = [_majority(column.name, scores) for column in columns]
    if rows and any(baselines):
        cells = ["majority baseline"]
        if perplexities:
            cells.append("")
        rows.append(cells + baselines)
    return rows


def _majority(task, scores):
    """Returns the score of the task's majority baseline, in percent; empty if there is none."""
    for scores_of_row in scores.values():
        majority = scores_of_row.get(task, {}).get("majority")
        if majority is not None:
            return f"{100 * majority:.1f}"
    return ""


def published_rows(definition, columns, perplexities):
    """Returns the cells of the published rows, without those that have none for these columns."""
    rows = []
    for row in definition.rows:
        scores = [row.published.get(column.name) for column in columns]
        if all(score is None for score in scores):
            continue
        if perplexities:
            scores.insert(0, row.published.get("perplexity"))
        mark = "published" if row.is_built else "published, not rebuilt"
        cells = ["" if score is None else str(score) for score in scores]
        rows.append([f"{row.title}, {mark}", *cells])
    return rows


def _score_cell(score):
    """Returns the cell of a score, `None` for none: the mean over the seeds and, of several, the deviation."""
    if score is None:
        return ""
    if math.isnan(score["mean"]):
        return "diverged"
    mean = f"{100 * score['mean']:.1f}"
    if score["runs"] == 1:
        return mean
    return f"{mean} ± {100 * score['deviation']:.1f}"


def differences(definition, columns, scores):
    """Returns sentences about the differences of each row from the first one, in points with their standard errors."""
    rows = [row for row in definition.rows if row.key in scores]
    if not rows:
        return []
    first, *others = rows
    lines = []
    for row in others:
        differences_of_row = []
        for column in columns:
            score = scores[row.key].get(column.name)
            reference = scores[first.key].get(column.name)
            if _is_number(score) and _is_number(reference):
                differences_of_row.append(f"{column.title} {_difference(score, reference)}")
        if differences_of_row:
            lines.append(f"{row.title} against {first.title}: {', '.join(differences_of_row)}.")
    return lines


def _is_number(score):
    """Returns whether there is a score, of runs that did not all diverge."""
    return score is not None and not math.isnan(score["mean"])


def _difference(score, reference):
    """Returns the difference of two scores in points and, with several seeds, its standard error."""
    points = f"{100 * (score['mean'] - reference['mean']):+.1f}"
    if min(score["runs"], reference["runs"]) < 2:
        return points
    variance = score["deviation"] ** 2 / score["runs"] + reference["deviation"] ** 2 / reference["runs"]
    return f"{points} ± {100 * math.sqrt(variance):.1f}"


def notes(columns, scores, perplexities):
    """Returns sentences that explain the table."""
    runs = set()
    for scores_of_row in scores.values():
        runs.update(score["runs"] for score in scores_of_row.values())
    lines = []
    if runs and max(runs) > 1:
        count = str(max(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
        lines.append(
            f"Scores on dev in percent: mean ± standard deviation over {count} seeds of fine-tuning, all from one "
            "pre-training. Differences: ± standard error of the two means; it does not include the variance between "
            "pre-trainings."
        )
    elif runs:
        lines.append("Scores on dev in percent, of one run each.")
    for column in columns:
        limits = []
        if column.train_examples:
            limits.append(f"{column.train_examples:,} training examples")
        if column.dev_examples:
            limits.append(f"{column.dev_examples:,} dev examples")
        if limits:
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
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"
