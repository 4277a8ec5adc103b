"""report.html: a fine-tuning study as a self-contained page with SVG charts, without scripts."""

from keras_bert.experiments import grid
from keras_bert.experiments.reports import charts, page
from keras_bert.files import write_text

_MANY_RUNS = 8  # If there are more, all but the best share one colour.
_POINTS = 300  # Maximum number of points of a curve.


def write_report(path, title, facts, metric, results, curves, sections):
    """Writes the report.

    Args:
        path: output file.
        title: heading, such as the name of the task.
        facts: list of pairs `(name, text)` for the head of the page.
        metric: name of the score that selects the best run.
        results: list of `{"setting", "scores"}`, as returned by `grid.run_grid`.
        curves: dict of the lines of `metrics.jsonl`, a list of dicts for each run; the keys are folder names as
            returned by `grid.folder_name`.
        sections: HTML sections about the predictions on dev, see `classification_sections`, `regression_sections` and
            `question_sections`.
    """
    unit = _unit(metric, results)
    drawn = [result for result in results if charts.drawable(result["scores"][metric])]
    best = next(iter(grid.ranked(drawn, metric)), None)
    text = page.render(
        "report.html",
        title=title,
        facts=facts,
        metric=metric,
        times=", times 100" if unit == 100 else "",
        scores={**_strips(metric, unit, drawn, best), **_runs(metric, results, drawn, best)},
        curves=_curves(metric, unit, curves, best and grid.folder_name(best["setting"])),
        sections=sections,
    )
    write_text(path, text)


def _unit(name, results):
    """Returns 100 for scores between -1 and 1, as papers report them; 1 for losses and other scores."""
    values = [result["scores"][name] for result in results if charts.drawable(result["scores"][name])]
    return 1 if "loss" in name or any(abs(value) > 1.000001 for value in values) else 100


def _setting_text(setting):
    # Lines may break only between the parts.
    parts = (f"{name.replace('_', ' ')} {value}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in setting.items())
    return ", ".join(parts)


# Scores


def _strips(metric, unit, drawn, best):
    """Dot plot: a row for each setting, a dot for each seed."""
    rows = grid.summary(drawn, metric)
    if not rows:
        return {"strips": [], "scale": ""}
    reach = [row["mean"] + sign * row["deviation"] for row in rows for sign in (-1, 1)]
    ends = charts.span([unit * value for value in reach + [result["scores"][metric] for result in drawn]])
    strips = []
    for row in rows:
        runs = [result for result in drawn if grid.without_seed(result["setting"]) == row["setting"]]
        dots = [_seed_dot(run, unit * run["scores"][metric], run is best) for run in runs]
        several = row["runs"] > 1
        mean, deviation, lowest, highest = (unit * row[name] for name in ("mean", "deviation", "lowest", "highest"))
        strips.append(
            {
                "setting": _setting_text(row["setting"]),
                "chart": charts.strip(dots, mean, deviation if several else None, ends),
                "value": f"{mean:.2f} ± {deviation:.2f}" if several else f"{mean:.2f}",
                "spread": f"{lowest:.2f} to {highest:.2f}, {row['runs']} runs" if several else "one run",
                "winners": [text for _, text, is_best in dots if is_best],
            }
        )
    return {"strips": strips, "scale": charts.strip_scale(ends)}


def _seed_dot(run, value, best):
    return value, f"{'best run: ' if best else ''}{value:.2f}, seed {run['setting']['seed']}", best


def _runs(metric, results, drawn, best):
    """Table of all runs, and notes."""
    notes = []
    if any(row["runs"] == 1 for row in grid.summary(drawn, metric)):
        notes.append("A single run has no spread: a standard deviation needs two seeds of a setting.")
    if len(drawn) < len(results):
        notes.append(f"Runs without a finite {metric}, not plotted: {len(results) - len(drawn)}.")
    settings, names = results[0]["setting"], dict.fromkeys([metric, *results[0]["scores"]])
    units = {name: _unit(name, results) for name in names}
    return {
        "notes": notes,
        "heads": ["run", *(name.replace("_", " ") for name in (*settings, *names))],
        "rows": [
            [number, *result["setting"].values(), *(_score(result["scores"][name], units[name]) for name in names)]
            for number, result in enumerate(results, 1)
        ],
        "best": next((number for number, result in enumerate(results) if result is best), None),
    }


def _score(value, unit):
    if not charts.drawable(value):
        return str(value)
    return f"{unit * value:.2f}" if unit == 100 else f"{value:.4g}"


# Curves


def _curves(metric, unit, curves, best):
    losses = {name: _points(lines, "train", _loss_name(lines), 1) for name, lines in curves.items()}
    scores = {name: _points(lines, "evaluation", metric, unit) for name, lines in curves.items()}
    seen = [name for name in curves if losses[name] or scores[name]]
    if not seen:
        return {"figures": [], "notes": ["No run has a curve."]}
    ordered = sorted(seen, key=lambda name: name == best)  # The best run is drawn last, on top.
    styles, texts = _styles(ordered, best), _short_names(seen)
    figures = {"training loss": losses, f"{metric} on dev{', times 100' if unit == 100 else ''}": scores}
    missing = [name for name in curves if name not in seen]
    return {
        "figures": [
            (name, _chart([(styles[run], texts[run], values[run]) for run in ordered if values[run]], name))
            for name, values in figures.items()
        ],
        "key": _key(styles, texts, best),
        "notes": [f"Without a curve: {'; '.join(missing)}."] if missing else [],
    }


def _chart(series, name):
    return charts.lines(series, name, "steps") if series else ""


def _loss_name(lines):
    """Returns the name of the first loss in the log: `loss`, or the first of several losses."""
    names = [name for line in lines if line.get("kind") == "train" for name in line]
    return next((name for name in names if name == "loss" or name.endswith("_loss")), "loss")


def _points(lines, kind, name, unit):
    found = [(line.get("step"), line.get(name)) for line in lines if line.get("kind") == kind]
    found = [(step, unit * value) for step, value in found if charts.drawable(step) and charts.drawable(value)]
    stride = -(-len(found) // _POINTS) or 1
    # Sampled backwards, so that the last point is kept.
    return found[::-1][::stride][::-1]


def _styles(ordered, best):
    others = [name for name in ordered if name != best]
    colours = {name: f"h{number}" if len(ordered) <= _MANY_RUNS else "rest" for number, name in enumerate(others)}
    return {name: colours.get(name, "best") for name in ordered}


def _short_names(names):
    """Returns the names of runs without the parts that all share."""
    parts = {name: name.split(",") for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(names) > 1 else set()
    short = {name: ", ".join(part for part in parts[name] if part not in shared) for name in names}
    return {name: (short[name] or name).replace("_", " ").replace("=", " ") for name in names}


def _key(styles, texts, best):
    """Legend of both charts: pairs of style and text, the best run first."""
    entries = [("best", f"best run: {texts[best]}")] if best in styles else []
    others = [name for name in styles if name != best]
    if others and styles[others[0]] == "rest":
        return entries + [("rest", f"the {'other ' if entries else ''}{len(others)} runs")]
    return entries + [(styles[name], texts[name]) for name in others]
