"""report.html of a pre-training run: curves, sample fills of [MASK] and what to do next."""

import pathlib
import shlex

from keras_bert.files import write_text
from keras_bert.reports import charts, curves, page
from keras_bert.training.progress import is_share

_NAMES = {
    "mlm_loss": "masked LM loss",
    "nsp_loss": "next sentence loss",
    "mlm_accuracy": "masked LM accuracy (%)",
    "nsp_accuracy": "next sentence accuracy (%)",
    "learning_rate": "learning rate",
}


def write_pretraining_report(path, head, lines, fills, steps):
    """Writes the report.

    Args:
        path: output file.
        head: a `Head`.
        lines: the lines of `metrics.jsonl`, a list of dicts.
        fills: list of dicts, see `sample_fills`; empty for a left-to-right model.
        steps: list of `(what, command)`, the next steps.
    """
    figures = [_figure(name, lines) for name in _NAMES]
    right = sum(fill["guesses"][0][0] == fill["truth"] for fill in fills)
    rows = [[_text(fill), fill["truth"], *_guesses(fill)] for fill in fills]
    text = page.render(
        "experiments/pretraining_report.html",
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


_STYLES = {"training": "train", "dev": "evaluation"}


def _text(fill):
    return f"{fill['before']} [MASK] {fill['after']}".strip()


def _guesses(fill):
    return [f"{piece} {page.percent(chance, 0)}" for piece, chance in fill["guesses"]]
