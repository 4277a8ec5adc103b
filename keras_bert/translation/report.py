"""report.html of a translation model: curves, examples, and what each piece of a translation reads."""

from keras_bert.files import write_text
from keras_bert.reports import charts, curves, page

_NAMES = {
    "loss": "loss (with label smoothing)",
    "perplexity": "perplexity on dev",
    "bleu": "BLEU on dev (greedy)",
    "learning_rate": "learning rate",
}
_STYLES = {"training": "train", "dev": "evaluation"}


def write_translation_report(path, head, lines, scores, examples, alignments):
    """Writes the report.

    Args:
        path: output file.
        head: a `Head`.
        lines: the lines of `metrics.jsonl`, a list of dicts.
        scores: list of rows, (what, BLEU).
        examples: list of dicts with `row`, `source`, `reference`, `translation` and `score`.
        alignments: list of dicts with `source` and `target`, lists of pieces, and `attention`, a row of probabilities
            for each target piece.
    """
    figures = [figure for name in _NAMES if (figure := _figure(name, lines))]
    text = page.render(
        "translation/report.html", head=head, figures=figures, scores=scores, examples=examples, alignments=alignments
    )
    write_text(path, text)


def _figure(name, lines):
    points = {style: curves.points(lines, kind, name) for style, kind in _STYLES.items()}
    series = [(f"best {style}", style, found) for style, found in points.items() if found]
    return charts.lines(series, _NAMES[name], "steps") if series else ""
