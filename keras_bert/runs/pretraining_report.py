"""The report of a pre-training run."""

import pathlib
import shlex

import tensorflow as tf

from keras_bert.files import read_lines, write_text
from keras_bert.heads.registry import describe
from keras_bert.pretraining.inspection import sample_fills
from keras_bert.progress import is_share
from keras_bert.reports import charts, page
from keras_bert.reports.page import ReportHead
from keras_bert.reports.provenance import environment
from keras_bert.rewirings.joined import without_teacher
from keras_bert.runs.pretraining_records import open_source
from keras_bert.training.callbacks import flat_settings
from keras_bert.training.distribution import is_chief
from keras_bert.training.snapshots import Snapshots

_NAMES = {
    "mlm_loss": "masked LM loss",
    "nsp_loss": "next sentence loss",
    "mlm_accuracy": "masked LM accuracy (%)",
    "nsp_accuracy": "next sentence accuracy (%)",
    "learning_rate": "learning rate",
}


def report(run, results, source, steps):
    """Writes `report.html` to the directory of a finished run. With several workers, all must call it.

    `results` are those of the run's `fit`; `source` are the records to take sample fills from; `steps` are `(what,
    command)`, the next steps.
    """
    trainer = run.trainer
    objective = run.settings.objective
    fills = []
    if not objective.causal and not objective.records:  # Masked language models alone fill in words.
        fills = _fills(trainer, source, objective, run.records[0].vocabulary)
    if not is_chief(trainer.strategy):
        return
    lines = read_lines(trainer.directory / "metrics.jsonl")
    figures = []
    for name in _NAMES:
        figure = _figure(name, lines)
        if figure:
            figures.append(figure)
    text = page.render(
        "runs/pretraining_report.html",
        head=_head(run, results),
        figures=figures,
        fills=[_fill_row(fill) for fill in fills],
        guesses=len(fills[0]["guesses"]) if fills else 0,
        right=sum(fill["guesses"][0][0] == fill["truth"] for fill in fills),
        steps=[(what, _shareable(command)) for what, command in steps],
    )
    write_text(trainer.directory / "report.html", text)


def _fills(trainer, source, objective, vocabulary):
    """Returns what the model fills in for masked words of some records."""
    sample = open_source(source, objective, vocabulary, batch_size=16, shuffle=False)

    def predict(inputs):
        return trainer.predict(tf.data.Dataset.from_tensors(inputs))

    return sample_fills(predict, sample)


def _fill_row(fill):
    """Returns the sentence of a masked word, the word and the guesses, a row of the table."""
    sentence = f"{fill['before']} [MASK] {fill['after']}".strip()
    guesses = [f"{piece} {page.percent(chance, 0)}" for piece, chance in fill["guesses"]]
    return [sentence, fill["truth"], *guesses]


def _head(run, results):
    """Returns the head of the report: the model, its training, its data, the last results, and all settings."""
    trainer = run.trainer
    records = run.records[0]
    size = describe(without_teacher(trainer.model)).config.size
    phases = []
    for phase in run.settings.phases:
        phases.append(f"{phase['steps']:,} steps of {phase['batch']} x {phase['length']} tokens")
    facts = {
        "model": f"{size}, {trainer.model.count_params():,} parameters",
        "training": "; ".join(phases),
        "data": f"{records.num_examples:,} examples, a vocabulary of {len(records.vocabulary):,} tokens",
        "last results": ", ".join(_result(name, value) for name, value in results.items()),
    }
    stored = Snapshots(trainer.directory / "snapshots", write=False).newest()["settings"]
    shown = flat_settings(stored)
    for name in ("phases", "examples"):  # Not as JSON.
        shown[name] = stored[name]
    return ReportHead(
        f"Pre-training, {trainer.directory.name}",
        facts,
        run=environment(0, trainer.strategy.num_replicas_in_sync),
        settings={name.replace("_", " "): value for name, value in shown.items()},
    )


def _result(name, value):
    """Returns a result as text."""
    title = _NAMES.get(name, name.replace("_", " ")).removesuffix(" (%)")
    number = page.percent(value, 1) if is_share(name) else f"{value:.4g}"
    return f"{title} {number}"


def _figure(name, lines):
    """Returns the chart of a number of the lines of `metrics.jsonl`; "" without any."""
    unit = 100 if is_share(name) else 1
    series = []
    for style, kind in (("training", "train"), ("dev", "evaluation")):
        points = charts.curve_points(lines, kind, name, unit=unit)
        if points:
            series.append((f"best {style}", style, points))
    if not series:
        return ""
    return charts.line_chart(series, _NAMES[name], "steps")


def _shareable(command):
    """Returns a command without the folder of its program, which is that of one machine."""
    program, *arguments = shlex.split(command)
    return shlex.join([pathlib.PurePath(program).name, *arguments])
