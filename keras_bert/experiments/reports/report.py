"""report.html: a study of fine-tuning on one page that loads nothing, with charts of SVG and no script."""

from keras_bert.experiments import grid
from keras_bert.experiments.reports import charts, page
from keras_bert.files import write_text

_MANY_RUNS = 8  # More of them have no colour of their own.
_POINTS = 300  # Of a curve, as many as one can see.


def write_report(path, title, facts, metric, results, curves, sections):
    """Writes the page.

    Args:
        path: the file.
        title: the heading, such as the name of the task.
        facts: list of pairs `(name, text)` that come first.
        metric: name of the score that counts.
        results: list of `{"setting", "scores"}`, as `grid.run_grid` returns.
        curves: the lines of `metrics.jsonl`, a list of dicts for each name of a run; names are those of
            `grid.folder_name`.
        sections: what the best run answers on dev, a list of HTML sections as `classification_sections`,
            `regression_sections` and `question_sections` give them.
    """
    unit = _unit(metric, [result["scores"].get(metric) for result in results])
    drawn = [result for result in results if charts.drawable(result["scores"].get(metric))]
    best = next(iter(grid.ranked(drawn, metric)), None)
    parts = [f"<h1>{page.escape(title)}</h1>", _facts(facts), _scores(metric, unit, results, drawn, best)]
    parts.append(_curves(metric, unit, curves, best and grid.folder_name(best["setting"])))
    parts += sections
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Whatever a text holds, nothing is fetched and no script runs.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{page.escape(title)}</title><style>{page.STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
    write_text(path, text)


def _facts(facts):
    pairs = (f'<dt>{page.escape(name)}</dt><dd dir="auto">{page.escape(text)}</dd>' for name, text in facts)
    return f"<dl>{''.join(pairs)}</dl>" if facts else ""


def _unit(name, values):
    """Scores are shown times 100, as papers write them, but for losses and what is no share of one."""
    values = [value for value in values if charts.drawable(value)]
    return 1 if "loss" in name or any(abs(value) > 1.000001 for value in values) else 100


def _setting_text(setting):
    # Lines break between the parts alone.
    parts = (f"{name.replace('_', ' ')} {value}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in setting.items())
    return ", ".join(parts) or "the only setting"


# Scores


def _scores(metric, unit, results, drawn, best):
    how = (
        f"Each dot is the {page.escape(metric)} of one run on dev{', times 100' if unit == 100 else ''}: further "
        "right is better; the line is the mean of a setting over its seeds, the band one standard deviation to both "
        "sides."
    )
    notes = []
    rows = grid.summary(drawn, metric)
    if any(row["runs"] == 1 for row in rows):
        notes.append("One run alone has no spread: a standard deviation needs two seeds of a setting.")
    if len(drawn) < len(results):
        notes.append(f"Runs without a finite {page.escape(metric)}, not drawn: {len(results) - len(drawn)}.")
    chart = _strips(metric, unit, rows, drawn, best) if rows else ""
    return page.section("Scores of the runs", how, chart, *map(page.note, notes), _runs(metric, unit, results, best))


def _without_seed(setting):
    return {name: value for name, value in setting.items() if name != "seed"}


def _strips(metric, unit, rows, drawn, best):
    reach = [row["mean"] + sign * row["deviation"] for row in rows for sign in (-1, 1)]
    ends = charts.span([unit * value for value in reach + [result["scores"][metric] for result in drawn]])
    lines = []
    for row in rows:
        runs = [result for result in drawn if _without_seed(result["setting"]) == row["setting"]]
        dots = [_seed_dot(run, unit * run["scores"][metric], run is best) for run in runs]
        deviation = unit * row["deviation"] if row["runs"] > 1 else None
        strip = charts.strip(dots, unit * row["mean"], deviation, ends)
        value = _spread(unit, row) + ("".join(f'<small class="winner">◉ {dot[1]}</small>' for dot in dots if dot[2]))
        lines.append(
            f'<div class="run"><div dir="auto">{page.escape(_setting_text(row["setting"]))}</div>{strip}'
            f'<div class="value">{value}</div></div>'
        )
    lines.append(f'<div class="run ends"><div></div>{charts.strip_scale(ends)}<div></div></div>')
    return f'<div class="strips">{"".join(lines)}</div>'


def _seed_dot(run, value, best):
    seed = f", seed {run['setting']['seed']}" if "seed" in run["setting"] else ""
    return value, f"{'best run: ' if best else ''}{value:.2f}{seed}", best


def _spread(unit, row):
    if row["runs"] == 1:
        return f"{unit * row['mean']:.2f} <small>one run</small>"
    ends = f"{unit * row['lowest']:.2f} to {unit * row['highest']:.2f}"
    return f"{unit * row['mean']:.2f} ± {unit * row['deviation']:.2f} <small>{ends}, {row['runs']} runs</small>"


def _runs(metric, unit, results, best):
    if not results:
        return page.note("No run.")
    settings = list(dict.fromkeys(name for result in results for name in result["setting"]))
    names = list(dict.fromkeys([metric, *(name for result in results for name in result["scores"])]))
    units = {name: _unit(name, [result["scores"].get(name) for result in results]) for name in names}
    rows = [
        [page.escape(number)]
        + [page.escape(result["setting"].get(name, page.NOTHING)) for name in settings]
        + [_score(result["scores"].get(name), units[name]) for name in names]
        for number, result in enumerate(results, 1)
    ]
    heads = ["run", *(page.escape(name.replace("_", " ")) for name in settings + names)]
    place = next((number for number, result in enumerate(results) if result is best), None)
    return page.table(heads, rows, 1, place)


def _score(value, unit):
    if not charts.drawable(value):
        return page.escape(page.NOTHING if value is None else value)
    return f"{unit * value:.2f}" if unit == 100 else f"{value:.4g}"


# Curves


def _curves(metric, unit, curves, best):
    how = (
        "First the loss of the training batches, which should fall; then the score on dev, whose turn for the worse "
        "while the loss still falls is overfitting."
    )
    losses = {name: _points(lines, "train", _loss_name(lines), 1) for name, lines in curves.items()}
    scores = {name: _points(lines, "evaluation", metric, unit) for name, lines in curves.items()}
    seen = [name for name in curves if losses[name] or scores[name]]
    if not seen:
        return page.section("Learning curves", how, page.note("No run has a curve."))
    ordered = sorted(seen, key=lambda name: name == best)  # The best one is drawn last, on top.
    styles = _styles(ordered, best)
    texts = _short_names(seen)
    score = f"{metric} on dev{', times 100' if unit == 100 else ''}"
    figures = (
        _figure([(styles[run], texts[run], values[run]) for run in ordered if values[run]], name)
        for values, name in ((losses, "training loss"), (scores, score))
    )
    missing = [name for name in curves if name not in seen]
    notes = [page.note(f"Without a curve: {page.escape('; '.join(missing))}.")] if missing else []
    key = _key(styles, texts, best)
    return page.section("Learning curves", how, f'<div class="pair">{"".join(figures)}</div>', key, *notes)


def _loss_name(lines):
    """The loss of classification and regression has that name; tasks with several losses list theirs first."""
    names = [name for line in lines if line.get("kind") == "train" for name in line]
    return next((name for name in names if name == "loss" or name.endswith("_loss")), "loss")


def _points(lines, kind, name, unit):
    found = [(line.get("step"), line.get(name)) for line in lines if line.get("kind") == kind]
    found = [(step, unit * value) for step, value in found if charts.drawable(step) and charts.drawable(value)]
    stride = -(-len(found) // _POINTS) or 1
    # Backwards, so that the last point is there.
    return found[::-1][::stride][::-1]


def _styles(ordered, best):
    others = [name for name in ordered if name != best]
    colours = {name: f"h{number}" if len(ordered) <= _MANY_RUNS else "rest" for number, name in enumerate(others)}
    return {name: colours.get(name, "best") for name in ordered}


def _short_names(names):
    """The names of runs without what all of them share."""
    parts = {name: name.split(",") for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(names) > 1 else set()
    short = {name: ", ".join(part for part in parts[name] if part not in shared) for name in names}
    return {name: (short[name] or name).replace("_", " ").replace("=", " ") for name in names}


def _figure(series, name):
    empty = f"<p class=note>No {page.escape(name)} was logged.</p>"
    return f"<figure>{charts.lines(series, name, 'steps') if series else empty}</figure>"


def _key(styles, texts, best):
    """The legend of both charts, the best run first."""
    entries = [("best", f"best run: {texts[best]}")] if best in styles else []
    others = [name for name in styles if name != best]
    if others and styles[others[0]] == "rest":
        entries.append(("rest", f"the {'other ' if entries else ''}{len(others)} runs"))
    else:
        entries += [(styles[name], texts[name]) for name in others]
    items = (
        f'<li><svg viewBox="0 0 28 10" aria-hidden="true"><line class="line {style}" x1="1" x2="27" y1="5" y2="5"/>'
        f"</svg><span>{page.escape(text)}</span></li>"
        for style, text in entries
    )
    return f'<ul class="key">{"".join(items)}</ul>'
