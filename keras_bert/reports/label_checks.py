"""Labels that are probably wrong: ranked by the loss of predictions of models that have not seen them.

Chong et al. (2022, "Detecting label errors by using pre-trained language models").
"""

import collections
import dataclasses
import itertools
from typing import Any

import numpy as np

from keras_bert.reports import page

SHOWN = 50  # Labels of the section.
_SAME = 20  # Rows of the same text to name.
_AROUND = 60  # Characters to show on both sides of a word.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelCheck:
    """A label of a row, or of a word, and how much a prediction speaks against it.

    Args:
        row: int, the number of the row, from 0.
        label: what the data say: a class, a list of labels, a number or an answer.
        predicted: what a model that was not trained on the row predicts; `None` if the task does not tell.
        loss: float, the loss of the prediction.
        place: int, the number of the row or the line in its file.
        text: string, the text of the row.
        word: int, the number of the word in the row. Defaults to `None`, a label of the whole row.
        span: tuple, start and end of the word in the text. Defaults to `None`.
        same_text: tuple of the numbers of the first rows with the same text and another label.
    """

    row: int
    label: Any
    predicted: Any
    loss: float
    place: int
    text: str
    word: int | None = None
    span: tuple | None = None
    same_text: tuple = ()

    def to_dict(self):
        """Returns what `LoadedBert.check_labels` tells."""
        found = {"row": self.row}
        if self.word is not None:
            start, end = self.span
            found |= {"word": self.word, "text": self.text[start:end]}
        found |= {"label": self.label, "predicted": self.predicted, "loss": self.loss}
        return {**found, "same_text": list(self.same_text)}


def ranked(checks, contents=None):
    """Returns `LabelCheck`s, the most doubtful first: those of repeated texts with different labels, then by loss.

    `contents` has what the model reads for each check, such as the texts of a pair: labels of the same content, or of
    the same word of it, should be equal. By default, labels of repeated texts may differ.
    """
    if contents is not None:
        checks = _with_same_texts(checks, contents)
    losses = np.array([check.loss for check in checks], "float64")
    losses = np.where(np.isnan(losses), np.inf, losses)
    is_single = [not check.same_text for check in checks]
    return [checks[number] for number in np.lexsort([-losses, is_single])]


def _with_same_texts(checks, contents):
    """Returns the checks with the first rows that have the same text and another label."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for check, content in zip(checks, contents, strict=True):
        groups[content, check.word][_key(check.label)].append(check.row)
    found = []
    for check, content in zip(checks, contents, strict=True):
        by_label = groups[content, check.word]
        others = [rows for key, rows in by_label.items() if key != _key(check.label)]
        same_text = tuple(itertools.islice(itertools.chain.from_iterable(others), _SAME))
        found.append(dataclasses.replace(check, same_text=same_text) if same_text else check)
    return found


def _key(label):
    return tuple(label) if isinstance(label, list) else label


def section(checks, unit, file):
    """Returns the HTML section "Rows to check".

    `unit` is what places count, such as "row"; `file` is the name of the file to edit, or `None`.
    """
    has_words = any(check.word is not None for check in checks)
    rows = [_table_row(rank, check, unit) for rank, check in enumerate(checks[:SHOWN], 1)]
    return page.render(
        "label_checks.html",
        shown=len(rows),
        total=len(checks),
        repeated=sum(bool(check.same_text) for check in checks),
        unit="word" if has_words else "row",
        heads=["rank", "place", "text", "label", "prediction", "loss"],
        rows=rows,
        file=file,
    )


def _table_row(rank, check, unit):
    text = page.cut(check.text, 300)
    if check.span is not None:
        start, end = check.span
        before = check.text[max(0, start - _AROUND) : start]
        after = check.text[end : end + _AROUND]
        text = page.words(page.isolated(before), page.bold(check.text[start:end]), page.isolated(after), between="")
    place = f"{unit}\N{NO-BREAK SPACE}{check.place:,}"
    if check.same_text:
        place += " (repeated)"
    predicted = page.NOTHING if check.predicted is None else as_text(check.predicted)
    return [str(rank), place, text, as_text(check.label), predicted, f"{check.loss:.3g}"]


def as_text(value):
    """Returns a label or a prediction as text."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
