"""report.html: the runs of fine-tuning as a self-contained page with SVG charts, without scripts."""

import itertools
import math
import pathlib

from keras_bert.data.text_files import NUMBER, without_formula
from keras_bert.files import write_text
from keras_bert.progress import is_share
from keras_bert.reports import charts, page
from keras_bert.runs import grid
from keras_bert.training import loss_names

ERRORS = "errors.tsv"


def write_report(path, head, metric, results, run_curves, sections, errors=()):
    """Writes the report and, beside it, `errors.tsv`.

    `metric` selects the best run of `results`, see `GridRuns`; `run_curves` has the lines of `metrics.jsonl` of each
    run by `grid.folder_name`; `sections` are HTML about the predictions on dev. The rows of `errors.tsv` begin with the
    header.
    """
    path = pathlib.Path(path)
    unit = 100 if is_share(metric) else 1
    drawn = [result for result in results if charts.drawable(result["scores"][metric])]
    best = _best(drawn, metric)
    best_name = None if best is None else grid.folder_name(best["setting"])
    text = page.render(
        "runs/report.html",
        head=head,
        metric=metric.replace("_", " "),
        times=", in percent" if unit == 100 else "",
        several=len(results) > 1,
        scores=_strips(metric, unit, drawn, best) | _table_of_runs(metric, results, drawn, best),
        curves=charts.learning_curves(metric, unit, run_curves, _losses(results, run_curves), best_name),
        sections=sections,
        errors=(ERRORS, len(errors) - 1) if errors else None,
    )
    write_text(path, text)
    if errors:
        write_text(path.with_name(ERRORS), "".join(tsv_line(row) for row in errors))


def _best(results, metric):
    """Returns the best result, `None` without any; folds are not compared with each other."""
    for result in grid.ranked(results, metric):
        if "fold" not in result["setting"]:
            return result
    return None


def _losses(results, run_curves):
    """Returns the names of the losses of all runs; results of those that diverged do not have them."""
    names = []
    for result in results:
        names += loss_names.names_of(result, ())
    if not names:
        for line in itertools.chain(*run_curves.values()):
            names += loss_names.names_of({}, line)
    return list(dict.fromkeys(names))


def tsv_line(row):
    """Quotes all but numbers, since spreadsheets may split at commas, too."""
    cells = []
    for value in row:
        text = str(value)
        if not NUMBER.fullmatch(text):
            quoted = without_formula(text).replace('"', '""')
            text = f'"{quoted}"'
        cells.append(text)
    return "\t".join(cells) + "\n"


def _score(name, value):
    """Returns a score as text, a share in percent."""
    if not charts.drawable(value):
        return str(value)
    if is_share(name):
        return page.percent(value)
    return f"{value:.4g}"


def _setting_text(setting):
    """Returns a setting as text, whose lines may break only between the parts."""
    parts = []
    for name, value in setting.items():
        part = f"{name.replace('_', ' ')} {value}"
        parts.append(part.replace(" ", "\N{NO-BREAK SPACE}"))
    return ", ".join(parts)


def _strips(metric, unit, drawn, best):
    """Dot plot: a row for each setting, a dot for each seed; none for a single run."""
    rows = grid.seed_statistics(drawn, metric)
    if sum(row["runs"] for row in rows) < 2:
        return {"strips": [], "scale": ""}
    values = [result["scores"][metric] for result in drawn]
    for row in rows:
        values.append(row["mean"] - row["deviation"])
        values.append(row["mean"] + row["deviation"])
    ends = charts.span([unit * value for value in values])
    strips = []
    for row in rows:
        runs = [result for result in drawn if grid.without_seed(result["setting"]) == row["setting"]]
        dots = [_seed_dot(run, metric, unit, run is best) for run in runs]
        strips.append(_strip(metric, unit, row, dots, ends))
    return {"strips": strips, "scale": charts.strip_scale(ends)}


def _strip(metric, unit, row, dots, ends):
    """Returns one row of the dot plot, given the statistics and the dots of a setting."""
    mean = unit * row["mean"]
    if row["runs"] > 1:
        chart = charts.strip(dots, mean, unit * row["deviation"], ends)
        value = f"{_score(metric, row['mean'])} ± {_score(metric, row['deviation'])}"
        lowest = _score(metric, row["lowest"])
        highest = _score(metric, row["highest"])
        spread = f"{lowest} to {highest}, {row['runs']} runs"
    else:
        chart = charts.strip(dots, mean, None, ends)
        value = _score(metric, row["mean"])
        spread = "one run"
    return {
        "setting": _setting_text(row["setting"]),
        "chart": chart,
        "value": value,
        "spread": spread,
        "winners": [text for _, text, is_best in dots if is_best],
    }


def _seed_dot(run, metric, unit, is_best):
    """Returns the value of a run in the plot, its title, and whether it is the best run."""
    value = run["scores"][metric]
    text = f"{_score(metric, value)}, seed {run['setting']['seed']}"
    if is_best:
        text = f"best run: {text}"
    if "fold" in run["setting"]:
        text += f", fold {run['setting']['fold']}"
    return unit * value, text, is_best


def _table_of_runs(metric, results, drawn, best):
    """Returns the table of all runs, and notes. A row has the number of the run, its scores and its settings.

    All runs have the same settings in the same order, such as the seed.
    """
    notes = []
    if len(drawn) < len(results):
        notes.append(f"Runs without a finite {metric.replace('_', ' ')}, not plotted: {len(results) - len(drawn)}.")
    names = {metric: None}  # In order.
    for result in results:
        names.update(dict.fromkeys(result["scores"]))  # Runs that diverged have only one.
    best_row = None  # Its index.
    rows = []
    for number, result in enumerate(results, 1):
        if result is best:
            best_row = len(rows)
        settings = dict(result["setting"])
        if "epoch" in result:
            settings["epochs"] = f"{settings['epochs']} (best: {result['epoch']})"
        scores = [_score(name, result["scores"].get(name, math.nan)) for name in names]
        rows.append([number, *scores, *settings.values()])
    # Scores come first, since narrow screens cut off the last columns.
    heads = ["run"]
    for name in [*names, *results[0]["setting"]]:
        heads.append(name.replace("_", " "))
    return {"notes": notes, "heads": heads, "rows": rows, "best": best_row}
