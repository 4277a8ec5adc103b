"""Writes the results of a study: `results.json`, `results.md` and `report.html`."""

import math
import pathlib

from keras_bert.files import write_json, write_text
from keras_bert.reports import ReportHead, curve_points, environment, line_chart, render
from research.studies import tables


def write_results(runner, output, seconds=0.0):
    """Writes the results of all finished rows, and returns the table with its notes as Markdown."""
    definition, scores, perplexities = runner.definition, runner.scores(), runner.perplexities()
    columns = runner.headings(scores)
    heads = tables.heads(columns, perplexities)
    ours = tables.score_rows(definition, columns, scores, perplexities)
    published = tables.published_rows(definition, columns, perplexities)
    differences, notes = tables.differences(definition, columns, scores), tables.notes(columns, scores, perplexities)
    notes += [definition.note] * bool(definition.note and published)
    scale, models = runner.scale, _models(runner)
    phases = "; ".join(f"{part['steps']:,} steps of {part['batch']} x {part['length']} tokens" for part in scale.phases)
    held_out = f" Held-out text: rows of {scale.phases[0]['length']} tokens." if perplexities else ""
    lines = [f"Models: {models}. Pre-training: {phases}.{held_out}", *differences, *notes]
    table = tables.markdown(heads, [*ours, *published])
    text = "\n".join([f"# {definition.title}\n", table, *(f"- {line}" for line in lines)])
    results = {"study": definition.title, "scores": scores, "perplexities": perplexities}
    write_json(output / "results.json", results, measured=True)
    write_text(output / "results.md", text + "\n")
    settings = {"learning rate of pre-training": scale.learning_rate, "warmup of pre-training": scale.warmup}
    for row in definition.rows:
        for score in list(scores.get(row.key, {}).values())[:1]:  # Of the first task.
            settings[row.title] = ", ".join(f"{name}={value}" for name, value in score["setting"].items())
    facts = {"models": models, "pre-training": phases}
    head = ReportHead(definition.title, facts, run=environment(seconds), settings=settings)
    report = render(
        str(pathlib.Path(__file__).with_name("report.html")),
        head=head,
        heads=heads,
        ours=ours,
        published=published,
        differences=differences,
        notes=notes,
        figures=list(filter(None, _figures(runner, columns, scores))),
    )
    write_text(output / "report.html", report)
    return text


def _models(runner):
    """Returns the names of the sizes of the models."""
    scale, scores = runner.scale, runner.scores()
    rows = [row for row in runner.definition.rows if row.is_built and row.key in runner.shown]
    tasks = {row.key: set(scores.get(row.key, ())) or {column.name for column in runner.columns} for row in rows}
    names = [row.recipe.size or scale.config for row in rows if row.recipe and not row.recipe.bilm]
    names += [scale.bilm for row in rows if row.recipe and row.recipe.bilm]
    names += [scale.bilstm for row in rows if row.recurrent and tasks[row.key] - {"squad"}]
    names += [scale.bidaf for row in rows if row.recurrent and "squad" in tasks[row.key]]
    return ", ".join(dict.fromkeys(names))


def _figures(runner, columns, scores):
    """Yields figures of the held-out losses, and of each column over pre-training steps, unless all rows have all."""
    runs = runner.models.curves()
    losses = {name: curve_points(lines, "evaluation", "mlm_loss") for name, lines in runs.items()}
    yield _figure("held-out loss of the language model", losses)
    rows = [row for row in runner.definition.rows if row.key in scores]
    for column in columns if any(row.share < 1 for row in rows) else ():
        models = {}
        for row in rows:
            mean = scores[row.key].get(column.name, {}).get("mean", math.nan)
            if not math.isnan(mean):  # A row that diverged has no point.
                point = row.share * runner.scale.steps, 100 * mean
                models.setdefault(row.title.partition(",")[0], []).append(point)
        yield _figure(f"{column.title}, {column.metric} (%)", {name: sorted(found) for name, found in models.items()})


def _figure(title, points):
    """Returns a chart of the points by model, over pre-training steps, and its key; `None` without a point."""
    known = [(f"h{number % 8}", name, found) for number, (name, found) in enumerate(points.items()) if found]
    series = [(f"{style} dev", name, found) for style, name, found in known]
    key = [(style, name) for style, name, _ in known]
    return (line_chart(series, title, "pre-training steps"), key) if series else None
