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
from keras_bert.training.run_state import Snapshots

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
    trainer, objective, output = run.trainer, run.settings.objective, run.trainer.directory
    is_masked = not (objective.causal or objective.records)
    fills = _fills(trainer, source, objective, run.records[0].vocabulary) if is_masked else []
    if not is_chief(trainer.strategy):
        return
    figures = [_figure(name, read_lines(output / "metrics.jsonl")) for name in _NAMES]
    text = page.render(
        "runs/pretraining_report.html",
        head=_head(run, results),
        figures=[figure for figure in figures if figure],
        fills=[[f"{fill['before']} [MASK] {fill['after']}".strip(), fill["truth"], *_guesses(fill)] for fill in fills],
        guesses=len(fills[0]["guesses"]) if fills else 0,
        right=sum(fill["guesses"][0][0] == fill["truth"] for fill in fills),
        steps=[(what, _shareable(command)) for what, command in steps],
    )
    write_text(output / "report.html", text)


def _fills(trainer, source, objective, vocabulary):
    sample = open_source(source, objective, vocabulary, batch_size=16, shuffle=False)
    return sample_fills(lambda inputs: trainer.predict(tf.data.Dataset.from_tensors(inputs)), sample)


def _head(run, results):
    trainer, records, phases = run.trainer, run.records[0], run.settings.phases
    size = describe(without_teacher(trainer.model)).config.size
    texts = [f"{phase['steps']:,} steps of {phase['batch']} x {phase['length']} tokens" for phase in phases]
    facts = {
        "model": f"{size}, {trainer.model.count_params():,} parameters",
        "training": "; ".join(texts),
        "data": f"{records.num_examples:,} examples, a vocabulary of {len(records.vocabulary):,} tokens",
        "last results": ", ".join(_result(name, value) for name, value in results.items()),
    }
    settings = Snapshots(trainer.directory / "snapshots", write=False).newest()["settings"]
    settings = flat_settings(settings) | {name: settings[name] for name in ("phases", "examples")}  # Not as JSON.
    settings = {name.replace("_", " "): value for name, value in settings.items()}
    machine = environment(0, trainer.strategy.num_replicas_in_sync)
    return ReportHead(f"Pre-training, {trainer.directory.name}", facts, run=machine, settings=settings)


def _result(name, value):
    text = page.percent(value, 1) if is_share(name) else f"{value:.4g}"
    return f"{_NAMES.get(name, name.replace('_', ' ')).removesuffix(' (%)')} {text}"


def _figure(name, lines):
    unit, series = 100 if is_share(name) else 1, []
    for style, kind in (("training", "train"), ("dev", "evaluation")):
        if points := charts.curve_points(lines, kind, name, unit=unit):
            series.append((f"best {style}", style, points))
    return charts.line_chart(series, _NAMES[name], "steps") if series else ""


def _guesses(fill):
    return [f"{piece} {page.percent(chance, 0)}" for piece, chance in fill["guesses"]]


def _shareable(command):
    """Returns a command without the folder of its program, which is that of one machine."""
    program, *arguments = shlex.split(command)
    return shlex.join([pathlib.PurePath(program).name, *arguments])
