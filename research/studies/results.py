"""Writes the results of a study: `results.json`, `results.md` and `report.html`."""

import math
import pathlib

from keras_bert.files import write_json, write_text
from keras_bert.reports import ReportHead, curve_points, environment, line_chart, render
from research.studies import tables


def write_results(runner, output, seconds=0.0):
    """Writes the results of all finished rows, and returns the table with its notes as Markdown."""
    definition = runner.definition
    scores = runner.scores()
    perplexities = runner.perplexities()
    write_json(
        output / "results.json",
        {"study": definition.title, "scores": scores, "perplexities": perplexities},
        measured=True,
    )
    columns = runner.headings(scores)
    heads = tables.heads(columns, perplexities)
    ours = tables.score_rows(definition, columns, scores, perplexities)
    published = tables.published_rows(definition, columns, perplexities)
    differences = tables.differences(definition, columns, scores)
    notes = tables.notes(columns, scores, perplexities)
    if definition.note and published:
        notes.append(definition.note)
    facts = {"models": _models(runner, scores), "pre-training": _phases_in_words(runner.scale)}
    first_line = f"Models: {facts['models']}. Pre-training: {facts['pre-training']}."
    if perplexities:
        first_line += f" Held-out text: rows of {runner.scale.phases[0]['length']} tokens."
    bullets = [f"- {line}" for line in (first_line, *differences, *notes)]
    table = tables.markdown(heads, [*ours, *published])
    text = "\n".join([f"# {definition.title}\n", table, *bullets])
    write_text(output / "results.md", text + "\n")
    report = render(
        str(pathlib.Path(__file__).with_name("report.html")),
        head=ReportHead(definition.title, facts, run=environment(seconds), settings=_settings(runner, scores)),
        heads=heads,
        ours=ours,
        published=published,
        differences=differences,
        notes=notes,
        figures=_figures(runner, columns, scores),
    )
    write_text(output / "report.html", report)
    return text


def _phases_in_words(scale):
    """Returns the phases of pre-training in words."""
    phases = []
    for phase in scale.phases:
        phases.append(f"{phase['steps']:,} steps of {phase['batch']} x {phase['length']} tokens")
    return "; ".join(phases)


def _settings(runner, scores):
    """Returns the settings of pre-training, and those of the best runs of each row on its first task."""
    settings = {
        "learning rate of pre-training": runner.scale.learning_rate,
        "warmup of pre-training": runner.scale.warmup,
    }
    for row in runner.definition.rows:
        scores_of_row = list(scores.get(row.key, {}).values())
        if scores_of_row:
            setting = scores_of_row[0]["setting"]
            settings[row.title] = ", ".join(f"{name}={value}" for name, value in setting.items())
    return settings


def _models(runner, scores):
    """Returns the names of the sizes of the models, in words: of BERT, then of those that it is compared with."""
    scale = runner.scale
    shown = runner.shown
    berts = []
    language_models = []
    classifiers = []
    readers = []
    for row in runner.definition.rows:
        if not row.is_built or row.key not in shown:
            continue
        if row.recipe and row.recipe.bilm:
            language_models.append(scale.bilm)
        elif row.recipe:
            berts.append(row.recipe.size or scale.config)
        if row.recurrent:
            tasks = set(scores.get(row.key, ())) or {column.name for column in runner.columns}
            if tasks - {"squad"}:
                classifiers.append(scale.bilstm)
            if "squad" in tasks:
                readers.append(scale.bidaf)
    return ", ".join(dict.fromkeys([*berts, *language_models, *classifiers, *readers]))


def _figures(runner, columns, scores):
    """Returns figures of the held-out losses, and of each column over pre-training steps, unless all rows have all.

    Those without a point are left out.
    """
    losses = {}
    for name, lines in runner.models.curves().items():
        losses[name] = curve_points(lines, "evaluation", "mlm_loss")
    figures = [_figure("held-out loss of the language model", losses)]
    rows = [row for row in runner.definition.rows if row.key in scores]
    if any(row.share < 1 for row in rows):
        for column in columns:
            title = f"{column.title}, {column.metric} (%)"
            figures.append(_figure(title, _points_over_steps(runner.scale, column, rows, scores)))
    return [figure for figure in figures if figure is not None]


def _points_over_steps(scale, column, rows, scores):
    """Returns the sorted points of a column, pre-training steps and percent, by model."""
    points = {}
    for row in rows:
        mean = scores[row.key].get(column.name, {}).get("mean", math.nan)
        if not math.isnan(mean):  # A row that diverged has no point.
            model = row.title.partition(",")[0]
            points.setdefault(model, []).append((row.share * scale.steps, 100 * mean))
    return {model: sorted(points_of_model) for model, points_of_model in points.items()}


def _figure(title, points_by_model):
    """Returns a chart of the points, over pre-training steps, and its key; `None` without a point."""
    series = []
    key = []
    for number, (name, points) in enumerate(points_by_model.items()):
        if points:
            style = f"h{number % 8}"
            series.append((f"{style} dev", name, points))
            key.append((style, name))
    if not series:
        return None
    return line_chart(series, title, "pre-training steps"), key
