"""report.html: the runs of fine-tuning as a self-contained page with SVG charts, without scripts."""

import itertools
import math
import pathlib

from keras_bert.data.text_files import NUMBER, as_text
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
    path, unit = pathlib.Path(path), 100 if is_share(metric) else 1
    drawn = [result for result in results if charts.drawable(result["scores"][metric])]
    # Folds are not compared with each other.
    best = next((run for run in grid.ranked(drawn, metric) if "fold" not in run["setting"]), None)
    text = page.render(
        "runs/report.html",
        head=head,
        metric=metric.replace("_", " "),
        times=", in percent" if unit == 100 else "",
        several=len(results) > 1,
        scores={**_strips(metric, unit, drawn, best), **_runs(metric, results, drawn, best)},
        curves=charts.learning_curves(
            metric, unit, run_curves, _losses(results, run_curves), best and grid.folder_name(best["setting"])
        ),
        sections=sections,
        errors=(ERRORS, len(errors) - 1) if errors else None,
    )
    write_text(path, text)
    if errors:
        write_text(path.with_name(ERRORS), "".join(tsv_line(row) for row in errors))


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
    cells = (text if NUMBER.fullmatch(text) else '"' + as_text(text).replace('"', '""') + '"' for text in map(str, row))
    return "\t".join(cells) + "\n"


def _score(name, value):
    if not charts.drawable(value):
        return str(value)
    return page.percent(value) if is_share(name) else f"{value:.4g}"


def _setting_text(setting):
    # Lines may break only between the parts.
    parts = (f"{name.replace('_', ' ')} {value}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in setting.items())
    return ", ".join(parts)


def _strips(metric, unit, drawn, best):
    """Dot plot: a row for each setting, a dot for each seed; none for a single run."""
    rows = grid.seed_statistics(drawn, metric)
    if sum(row["runs"] for row in rows) < 2:
        return {"strips": [], "scale": ""}
    reach = [row["mean"] + sign * row["deviation"] for row in rows for sign in (-1, 1)]
    ends = charts.span([unit * value for value in reach + [result["scores"][metric] for result in drawn]])
    strips = []
    for row in rows:
        runs = [result for result in drawn if grid.without_seed(result["setting"]) == row["setting"]]
        dots = [_seed_dot(run, metric, unit, run is best) for run in runs]
        several = row["runs"] > 1
        mean, deviation, lowest, highest = (
            _score(metric, row[name]) for name in ("mean", "deviation", "lowest", "highest")
        )
        strips.append(
            {
                "setting": _setting_text(row["setting"]),
                "chart": charts.strip(dots, unit * row["mean"], unit * row["deviation"] if several else None, ends),
                "value": f"{mean} ± {deviation}" if several else mean,
                "spread": f"{lowest} to {highest}, {row['runs']} runs" if several else "one run",
                "winners": [text for _, text, is_best in dots if is_best],
            }
        )
    return {"strips": strips, "scale": charts.strip_scale(ends)}


def _seed_dot(run, metric, unit, best):
    value = run["scores"][metric]
    text = f"{'best run: ' if best else ''}{_score(metric, value)}, seed {run['setting']['seed']}"
    text += f", fold {run['setting']['fold']}" if "fold" in run["setting"] else ""
    return unit * value, text, best


def _runs(metric, results, drawn, best):
    """Table of all runs, and notes."""
    notes, rows = [], []
    if len(drawn) < len(results):
        notes.append(f"Runs without a finite {metric.replace('_', ' ')}, not plotted: {len(results) - len(drawn)}.")
    names = dict.fromkeys([metric, *(name for result in results for name in result["scores"])])  # Diverged: only one.
    for number, result in enumerate(results, 1):
        scores, settings = [_score(name, result["scores"].get(name, math.nan)) for name in names], result["setting"]
        epochs = {"epochs": f"{settings['epochs']} (best: {result['epoch']})"} if "epoch" in result else {}
        rows.append([number, *scores, *{**settings, **epochs}.values()])
    return {
        "notes": notes,
        # Scores come first, since narrow screens cut off the last columns.
        "heads": ["run", *(name.replace("_", " ") for name in (*names, *results[0]["setting"]))],
        "rows": rows,
        "best": next((number for number, result in enumerate(results) if result is best), None),
    }
