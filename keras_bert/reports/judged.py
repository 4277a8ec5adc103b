"""Judged predictions, which every report shows: confusions, calibration, lengths, the hardest rows, all errors."""

import dataclasses
from typing import Any

import numpy as np

from keras_bert.reports import page, sections

HARDEST = 20
_COUNTED = "Rows are counted from 1, also in errors.tsv; a line of column names does not count."


@dataclasses.dataclass(frozen=True)
class Hardest:
    """What a report says about its hardest rows."""

    order: str  # What the rows that are shown have, such as "the highest loss".
    doubt: str = "wrong labels"  # What to look for besides weaknesses of the model.
    name: str = "Hardest examples of dev"  # The heading.
    errors: str = ""  # What wrong rows are called, if others are not shown.
    more: str = _COUNTED  # Sentences at the end.
    key: tuple = ()  # What the marks of gold answers and of predictions are called, if texts have them.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """The predictions of a model for the rows of dev beside what is right: sequences with a value for each row.

    `report` shows confusions of classes, calibration, errors by length and the hardest rows, those with the highest
    loss. All errors are in `errors.tsv`, the most confident first, without `confidence` those with the highest loss. A
    subclass overrides the sections that differ, `overview` for its own ones, and what is shown of a row.

    Args:
        gold: what is right, such as the names of classes.
        predicted: what the model predicts.
        loss: floats, how wrong the predictions are.
        confidence: floats, the probabilities of the predictions, NaN where there is none. Defaults to `None`, without
            a section about calibration.
        length: ints, the number of tokens that the model reads. Defaults to `None`, without a section about lengths.
        place: the numbers or names of the rows in their file. Defaults to numbers from 1.
        texts: dict of lists of strings by name, what the model reads.
        right: bools, whether predictions are correct. Defaults to those that are equal to `gold`.
        names: list of strings, the classes in their order. Defaults to those that occur.

    Example:
        sections, errors = Judged(gold=["yes", "no"], predicted=["yes", "yes"], loss=[0.1, 2.3]).report()
    """

    gold: Any
    predicted: Any
    loss: Any
    confidence: Any = None
    length: Any = None
    place: Any = None
    texts: dict = dataclasses.field(default_factory=dict)
    right: Any = None
    names: Any = ()

    hardest_rows = Hardest("the highest loss (cross-entropy), wrong predictions first, then by confidence")
    words = "class", "classes", "examples"  # For a class, for classes and for what is classified.

    def __post_init__(self):
        same = [gold == predicted for gold, predicted in zip(self.gold, self.predicted, strict=True)]
        right = np.asarray(same if self.right is None else self.right, bool)
        place = range(1, len(same) + 1) if self.place is None else self.place
        for name, value in (("right", right), ("place", place)):
            object.__setattr__(self, name, value)

    @classmethod
    def of_classes(cls, names, targets, logits, **fields):
        """Judges class indices by logits `(rows, classes)`; NaN is an infinite loss."""
        targets, logits = np.asarray(targets, int), np.asarray(logits, "float64")
        rows, predicted, names = np.arange(len(targets)), np.argmax(logits, -1), list(map(str, names))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shifted = logits - logits.max(-1, keepdims=True)
            sums = np.exp(shifted).sum(-1)
            losses = np.log(sums) - shifted[rows, targets]
            confidence = np.exp(shifted)[rows, predicted] / sums
        gold, said = ([names[number] for number in numbers] for numbers in (targets, predicted))
        losses = np.where(np.isnan(losses), np.inf, losses)
        return cls(gold=gold, predicted=said, loss=losses, confidence=confidence, names=names, **fields)

    def report(self):
        """Returns the HTML sections, and the rows of `errors.tsv`, the header first."""
        found = [*self.overview(), self.calibration(), self.lengths(), self.hardest()]
        return [section for section in found if section], self.errors()

    def overview(self):
        """Returns the first sections, a list."""
        names = list(dict.fromkeys([*self.names, *self.gold, *self.predicted]))
        return [sections.class_sections(names, self.gold, self.predicted, self.words)]

    def calibration(self):
        """Returns the section about calibration, or ""."""
        return "" if self.confidence is None else sections.calibration_section(self.confidence, self.right)

    def lengths(self):
        """Returns the section about errors by length, or ""."""
        return "" if self.length is None else sections.length_section(self.length, ~self.right)

    def hardest(self):
        """Returns the section about the hardest rows."""
        about, rows = self.hardest_rows, self.chosen()
        lead = f"{about.errors}: {np.sum(~self.right):,} of {len(self.right):,}. " if about.errors else ""
        how = f"{lead}The {len(rows)} with {about.order}: look here for {about.doubt} and for weaknesses of the model."
        examples = [self.shown(row) for row in rows]
        return page.render("hardest.html", about=about, how=f"{how} {about.more}", examples=examples)

    def chosen(self):
        """Returns the indices of the hardest rows, wrong ones first."""
        rows = self.worst()[:HARDEST]
        sure = [] if self.confidence is None else [-self.confidence[rows]]
        return rows[np.lexsort([*sure, self.right[rows]])]

    def worst(self):
        """Returns the indices of the rows, or of the wrong ones if others are not shown, the highest loss first."""
        loss = np.asarray(self.loss, "float64")
        rows = np.argsort(-np.where(np.isnan(loss), np.inf, loss), kind="stable")
        return rows[~self.right[rows]] if self.hardest_rows.errors else rows

    def distinct(self, keys):
        """Returns the indices of the hardest rows, one for each of the `keys` of all rows."""
        first = {}
        for row in self.worst():
            first.setdefault(keys[row], row)
        return list(first.values())[:HARDEST]

    def shown(self, row):
        """Returns what the report shows of a row: the parts of its head, and its paragraphs.

        Paragraphs are pairs of a class of `style.css` and a text, or an excerpt, see `excerpts.py`, or HTML.
        """
        sure = [] if self.confidence is None else [f"with {page.percent(self.confidence[row], 1)}"]
        head = [f"row {self.place[row]:,}", page.words("true", page.bold(self.gold[row]))]
        head += [page.words("predicted", page.bold(self.predicted[row]), *sure), *self.ends(row)]
        return head, self.paragraphs(row)

    def ends(self, row):
        """Returns the last parts of the head of a row."""
        return [f"loss {self.loss[row]:.3g}"] + ["correct"] * bool(self.right[row])

    def paragraphs(self, row):
        """Returns the texts of a row as paragraphs."""
        return [("second" if number else "", texts[row]) for number, texts in enumerate(self.texts.values())]

    def columns(self):
        """Returns the columns of `errors.tsv` by name."""
        sure = {} if self.confidence is None else {"probability": self.confidence}
        return {
            "row": self.place,
            "true": self.gold,
            "predicted": self.predicted,
            **sure,
            "loss": self.loss,
            **self.texts,
        }

    def errors(self):
        """Returns the rows of `errors.tsv`, the header first."""
        columns, rows = self.columns(), self.worst()
        if self.confidence is not None:
            rows = np.argsort(-np.asarray(self.confidence, "float64"), kind="stable")
        wrong = rows[~self.right[rows]]
        return [[*columns], *([_cell(values[row]) for values in columns.values()] for row in wrong)]


class JudgedNumbers(Judged):
    """Predicted numbers, none of which is right; the loss is the absolute error."""

    hardest_rows = Hardest("the largest error", "wrong targets")

    @classmethod
    def of_numbers(cls, targets, predictions, **fields):
        """Judges one number for each row; NaN is an infinite error."""
        targets, predictions = (np.asarray(values, "float64").reshape(-1) for values in (targets, predictions))
        with np.errstate(invalid="ignore"):
            errors = np.abs(predictions - targets)
        errors = np.where(np.isnan(errors), np.inf, errors)
        return cls(gold=targets, predicted=predictions, loss=errors, right=np.zeros(len(targets)), **fields)

    def overview(self):
        return [sections.scatter_section(self.gold, self.predicted)]

    def lengths(self):
        return "" if self.length is None else sections.length_section(self.length, self.loss, percent=False)

    def chosen(self):
        return self.worst()[:HARDEST]

    def shown(self, row):
        numbers = (("target", self.gold), ("predicted", self.predicted))
        head = [page.words(name, page.bold(f"{values[row]:.4g}")) for name, values in numbers]
        return [f"row {self.place[row]:,}", *head, f"error {self.loss[row]:.3g}"], self.paragraphs(row)

    def columns(self):
        return {"row": self.place, "target": self.gold, "predicted": self.predicted, "error": self.loss, **self.texts}


def _cell(value):
    return f"{value:.6g}" if isinstance(value, float | np.floating) else value
