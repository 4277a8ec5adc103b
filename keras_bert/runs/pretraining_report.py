"""The report of a pre-training run."""

import pathlib
import shlex

import tensorflow as tf

from keras_bert.files import read_lines, write_text
from keras_bert.heads.registry import describe
from keras_bert.pretraining.inspection import sample_fills
from keras_bert.reports import charts, curves, page
from keras_bert.reports.environment import environment
from keras_bert.reports.page import Head
from keras_bert.rewirings.joined import without_teacher
from keras_bert.runs.pretraining import open_source
from keras_bert.training.callbacks import flat_settings
from keras_bert.training.distribution import is_chief
from keras_bert.training.progress import is_share
from keras_bert.training.run_state import Snapshots

_NAMES = {
    "mlm_loss": "masked LM loss",
    "nsp_loss": "next sentence loss",
    "mlm_accuracy": "masked LM accuracy (%)",
    "nsp_accuracy": "next sentence accuracy (%)",
    "learning_rate": "learning rate",
}
_STYLES = {"training": "train", "dev": "evaluation"}


def report(run, results, source, steps):
    """Writes `report.html` to the directory of a finished run. With several workers, all must call it.

    `results` are those of the run's `fit`; `source` are the records to take sample fills from; `steps` are `(what,
    command)`, the next steps.
    """
    trainer, records, objective = run.trainer, run.records[0], run.settings.objective
    is_masked = not (objective.causal or objective.records)
    fills = _fills(trainer, source, objective, records.vocabulary) if is_masked else []
    if not is_chief(trainer.strategy):
        return
    output, encoder = trainer.directory, describe(without_teacher(trainer.model)).config
    size = encoder.size
    texts = [
        f"{phase['steps']:,} steps of {phase['batch']} x {phase['length']} tokens" for phase in run.settings.phases
    ]
    facts = {
        "model": f"{size}, {trainer.model.count_params():,} parameters",
        "training": "; ".join(texts),
        "data": f"{records.num_examples:,} examples, a vocabulary of {len(records.vocabulary):,} tokens",
        "last results": results_text(results),
    }
    settings = Snapshots(output / "snapshots", write=False).newest()["settings"]
    settings = flat_settings(settings) | {name: settings[name] for name in ("phases", "examples")}  # Not as JSON.
    head = Head(
        f"Pre-training, {output.name}",
        facts,
        environment(0, trainer.strategy.num_replicas_in_sync),
        {name.replace("_", " "): value for name, value in settings.items()},
    )
    lines = read_lines(output / "metrics.jsonl")
    write_pretraining_report(output / "report.html", head, lines, fills, steps)


def _fills(trainer, source, objective, vocabulary):
    sample = open_source(source, objective, vocabulary, batch_size=16, shuffle=False)

    def predict(inputs):
        return trainer.predict(tf.data.Dataset.from_tensors(inputs))

    return sample_fills(predict, sample)


def write_pretraining_report(path, head, lines, fills, steps):
    """Writes the report from the lines of `metrics.jsonl`, `sample_fills` and the next steps, `(what, command)`."""
    figures = [_figure(name, lines) for name in _NAMES]
    right = sum(fill["guesses"][0][0] == fill["truth"] for fill in fills)
    rows = [[_text(fill), fill["truth"], *_guesses(fill)] for fill in fills]
    text = page.render(
        "runs/pretraining_report.html",
        head=head,
        figures=[figure for figure in figures if figure],
        fills=rows,
        guesses=len(fills[0]["guesses"]) if fills else 0,
        right=right,
        steps=[(what, _shareable(command)) for what, command in steps],
    )
    write_text(path, text)


def _shareable(command):
    """Returns a command without the folder of its program, which is that of one machine."""
    program, *arguments = shlex.split(command)
    return shlex.join([pathlib.PurePath(program).name, *arguments])


def results_text(results):
    """Formats the results of an evaluation in one line."""
    names = {name: _NAMES.get(name, name.replace("_", " ")).removesuffix(" (%)") for name in results}
    return ", ".join(
        f"{names[name]} {page.percent(value, 1) if is_share(name) else f'{value:.4g}'}"
        for name, value in results.items()
    )


def _figure(name, lines):
    unit = 100 if is_share(name) else 1
    points = {style: curves.points(lines, kind, name, unit) for style, kind in _STYLES.items()}
    series = [(f"best {style}", style, found) for style, found in points.items() if found]
    return charts.lines(series, _NAMES[name], "steps") if series else ""


def _text(fill):
    return f"{fill['before']} [MASK] {fill['after']}".strip()


def _guesses(fill):
    return [f"{piece} {page.percent(chance, 0)}" for piece, chance in fill["guesses"]]
