"""Labels that are probably wrong: ranked by the loss of predictions of models that have not seen them.

Chong et al. (2022, "Detecting label errors by using pre-trained language models").
"""

import collections
import dataclasses
from typing import Any

import numpy as np

from keras_bert.reports import page

SHOWN = 50  # Labels of the section.
_SAME = 20  # Rows of the same text to name.
_AROUND = 60  # Characters to show on both sides of a word.


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedLabel:
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
        told = {"row": self.row}
        if self.word is not None:
            start, end = self.span
            told["word"] = self.word
            told["text"] = self.text[start:end]
        told["label"] = self.label
        told["predicted"] = self.predicted
        told["loss"] = self.loss
        told["same_text"] = list(self.same_text)
        return told


def ranked(labels, contents=None):
    """Returns `JudgedLabel`s, the most doubtful first: those of repeated texts with different labels, then by loss.

    `contents` has what the model reads for each label, such as the texts of a pair: labels of the same content, or of
    the same word of it, should be equal. By default, labels of repeated texts may differ.
    """
    if contents is not None:
        labels = _with_same_texts(labels, contents)
    losses = np.array([label.loss for label in labels], "float64")
    losses = np.where(np.isnan(losses), np.inf, losses)
    is_single = [not label.same_text for label in labels]
    order = np.lexsort([-losses, is_single])  # The last key counts first.
    return [labels[number] for number in order]


def _with_same_texts(labels, contents):
    """Returns the labels with the first rows that have the same text and another label."""
    # Rows by text and word, and by what the label says of it.
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for label, content in zip(labels, contents, strict=True):
        groups[content, label.word][_hashable(label.label)].append(label.row)
    completed = []
    for label, content in zip(labels, contents, strict=True):
        rows_by_label = groups[content, label.word]
        same_text = _rows_of_others(rows_by_label, _hashable(label.label))
        completed.append(dataclasses.replace(label, same_text=same_text))
    return completed


def _rows_of_others(rows_by_label, own):
    """Returns the first rows whose label is not one's own; it stops early, since a text may be repeated very often."""
    rows = []
    for label, labeled in rows_by_label.items():
        if label != own:
            rows.extend(labeled[: _SAME - len(rows)])
        if len(rows) == _SAME:
            break
    return tuple(rows)


def _hashable(label):
    return tuple(label) if isinstance(label, list) else label


def section(labels, unit, file):
    """Returns the HTML section "Rows to check".

    `unit` is what places count, such as "row"; `file` is the name of the file to edit, or `None`.
    """
    has_words = any(label.word is not None for label in labels)
    rows = [_table_row(rank, label, unit) for rank, label in enumerate(labels[:SHOWN], 1)]
    return page.render(
        "label_checks.html",
        shown=len(rows),
        total=len(labels),
        repeated=sum(bool(label.same_text) for label in labels),
        unit="word" if has_words else "row",
        heads=["rank", "place", "text", "label", "prediction", "loss"],
        rows=rows,
        file=file,
    )


def _table_row(rank, label, unit):
    place = f"{unit}\N{NO-BREAK SPACE}{label.place:,}"
    if label.same_text:
        place += " (repeated)"
    predicted = page.NOTHING
    if label.predicted is not None:
        predicted = value_text(label.predicted)
    return [
        str(rank),
        place,
        _shown_text(label),
        value_text(label.label),
        predicted,
        f"{label.loss:.3g}",
    ]


def _shown_text(label):
    """Returns the text of a row, or HTML with a word in bold and what stands around it."""
    if label.span is None:
        return page.cut(label.text, 300)
    start, end = label.span
    before = label.text[max(0, start - _AROUND) : start]
    word = label.text[start:end]
    after = label.text[end : end + _AROUND]
    return page.words(page.isolated(before), page.bold(word), page.isolated(after), between="")


def value_text(value):
    """Returns a label or a prediction as text."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
