"""report.html of a study: its table beside the paper's, differences between rows, curves of the pre-trainings."""

import pathlib

from keras_bert.files import write_text
from keras_bert.reports import charts, curves, page

_LOSS = "mlm_loss"


def write_study_report(path, head, table, differences, notes, runs, steps):
    """Writes the report. `table` has heads, our rows and published rows; `runs` the lines of `metrics.jsonl` by
    pre-training, `steps` tuples `(task, {model: [(steps, score), ...]})` of scores over pre-training steps."""
    text = page.render(
        str(pathlib.Path(__file__).with_name("report.html")),
        head=head,
        heads=table[0],
        ours=table[1],
        published=table[2],
        differences=differences,
        notes=notes,
        figures=[figure for figure in [_losses(runs), *(_steps(*task) for task in steps)] if figure],
    )
    write_text(path, text)


def _losses(runs):
    series, key = [], []
    for number, (name, lines) in enumerate(runs.items()):
        points = curves.points(lines, "evaluation", _LOSS)
        if points:
            series.append((f"h{number % 8} dev", name, points))
            key.append((f"h{number % 8}", name))
    return (charts.lines(series, "held-out loss of the language model", "pre-training steps"), key) if series else None


def _steps(task, models):
    series = [(f"h{number} dev", name, sorted(points)) for number, (name, points) in enumerate(models.items())]
    key = [(f"h{number}", name) for number, name in enumerate(models)]
    return charts.lines(series, f"{task} (%)", "pre-training steps"), key
