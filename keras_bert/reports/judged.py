"""Judged predictions, which every report shows: confusions, calibration, lengths, the hardest rows, all errors."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from keras_bert.reports import page, sections
from keras_bert.reports.label_checks import LabelCheck, ranked

HARDEST = 20
SEPARATOR = "|"  # Between several labels in `errors.tsv`.
LOOK = "look here for {} and for weaknesses of the model. "
COUNTED = "Rows are counted from 1, also in errors.tsv; a line of column names does not count."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """The predictions of a model for the rows of dev beside what is right: sequences with a value for each row.

    `report` shows confusions of classes, calibration, errors by length and the hardest rows, those with the highest
    loss. All errors are in `errors.tsv`, the most confident first, without `confidence` those with the highest loss. A
    subclass overrides the sections that differ, `overview` for its own ones, and what is shown of a row.

    Args:
        gold: what is right: names of classes, lists of them, or numbers.
        predicted: what the model predicts.
        loss: floats, how wrong the predictions are.
        confidence: floats, the probabilities of the predictions, NaN where there is none. Defaults to `None`, without
            a section about calibration.
        length: ints, the number of tokens that the model reads. Defaults to `None`, without a section about lengths.
        place: the numbers of the rows in their file. Defaults to numbers from 1.
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

    words = "class", "classes", "examples"  # For a class, for classes and for what is classified.
    titles = "true", "loss"  # Of the columns of `gold` and of `loss`.
    title = "Hardest examples of dev"
    how = "The {shown} with the highest loss (cross-entropy), wrong predictions first, then by confidence: "
    how += LOOK.format("wrong labels") + COUNTED
    none = ""  # What is said if no row is wrong; others are not shown then.
    marks: ClassVar[tuple] = ()  # What the marks of gold answers and of predictions are called, if texts have them.
    once: ClassVar[str | None] = None  # The name of a text that is shown once.
    wrong_first = True
    repeats_agree = True  # Whether rows with the same texts should have the same label.

    @functools.cached_property
    def is_right(self):
        """Bools, whether predictions are correct."""
        if self.right is not None:
            return np.asarray(self.right, bool)
        return np.asarray([gold == predicted for gold, predicted in zip(self.gold, self.predicted, strict=True)], bool)

    @functools.cached_property
    def places(self):
        """The numbers of the rows in their file."""
        return range(1, len(self.is_right) + 1) if self.place is None else self.place

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
        return "" if self.confidence is None else sections.calibration_section(self.confidence, self.is_right)

    def lengths(self):
        """Returns the section about errors by length, or ""."""
        return "" if self.length is None else sections.length_section(self.length, ~self.is_right)

    def hardest(self):
        """Returns the section about the hardest rows."""
        rows, wrong = self.chosen(), f"{np.sum(~self.is_right):,} of {len(self.is_right):,}"
        how = self.how.format(shown=len(rows), wrong=wrong) if len(rows) else self.none
        examples = [(self.head(row), self.paragraphs(row)) for row in rows]
        return page.render("hardest.html", title=self.title, how=how, marks=self.marks, examples=examples)

    def chosen(self):
        """Returns the indices of the hardest rows, in their order."""
        rows = self.worst()
        if self.none:
            rows = rows[~self.is_right[rows]]
        if self.once:
            first = {}
            for row in rows:
                first.setdefault(self.texts[self.once][row], row)
            rows = np.array([*first.values()], int)
        rows = rows[:HARDEST]
        sure = [] if self.confidence is None else [-self.confidence[rows]]
        return rows[np.lexsort([*sure, self.is_right[rows]])] if self.wrong_first else rows

    def worst(self):
        """Returns the indices of all rows, the highest loss first."""
        loss = np.asarray(self.loss, "float64")
        return np.argsort(-np.where(np.isnan(loss), np.inf, loss), kind="stable")

    def head(self, row):
        """Returns the parts of the line above a hard row."""
        sure = [] if self.confidence is None else [f"with {page.percent(self.confidence[row], 1)}"]
        gold, predicted = (page.bold(_shown(values[row])) for values in (self.gold, self.predicted))
        parts = [
            f"row {self.places[row]:,}",
            page.words(self.titles[0], gold),
            page.words("predicted", predicted, *sure),
        ]
        return [*parts, f"{self.titles[1]} {self.loss[row]:.3g}", *["correct"] * bool(self.is_right[row])]

    def paragraphs(self, row):
        """Returns what is shown of a row: pairs of a class of `style.css` and a text, an excerpt, or HTML."""
        return [("second" if number else "", texts[row]) for number, texts in enumerate(self.texts.values())]

    def asked(self, row):
        """Returns what `LoadedBert.explain` takes of a row, a text and a target, or `None` if it takes none.

        By default, why the model predicts what it does.
        """
        texts = [values[row] for values in self.texts.values()]
        if len(texts) not in (1, 2) or not all(isinstance(text, str) and text.strip() for text in texts):
            return None
        return (tuple(texts) if len(texts) == 2 else texts[0]), None

    def columns(self):
        """Returns the columns of `errors.tsv` by name."""
        sides = {self.titles[0]: self.gold, "predicted": self.predicted}
        return {"row": self.places, **sides, **self.details(), self.titles[1]: self.loss, **self.texts}

    def details(self):
        """Returns the columns of `errors.tsv` between the prediction and the loss."""
        return {} if self.confidence is None else {"probability": self.confidence}

    @property
    def by_row(self):
        """The same predictions with one entry for each row of the data."""
        return self

    @property
    def label_losses(self):
        """What ranks the labels of the rows, see `label_checks`."""
        return self.loss

    @property
    def contents(self):
        """What the model reads of each row, a tuple of texts; `None` if it is not known."""
        return list(zip(*self.texts.values(), strict=True)) if self.texts else None

    def label_checks(self):
        """Returns the labels of all rows as `LabelCheck`s, the most doubtful first."""
        contents = self.contents
        checks = []
        for row, (label, predicted, loss) in enumerate(zip(self.gold, self.predicted, self.label_losses, strict=True)):
            check = LabelCheck(
                row=row,
                label=_plain(label),
                predicted=_plain(predicted),
                loss=float(loss),
                place=int(self.places[row]),
                text=" / ".join(map(str, contents[row])) if contents else "",
            )
            checks.append(check)
        return ranked(checks, contents if self.repeats_agree else None)

    def table(self):
        """Returns the columns of all rows by name, in the order of the rows, with cells as in `errors.tsv`."""
        return {name: [_cell(value) for value in values] for name, values in self.columns().items()}

    def errors(self):
        """Returns the rows of `errors.tsv`, the header first."""
        columns, rows = self.columns(), self.worst()
        if self.confidence is not None:
            rows = np.argsort(-np.asarray(self.confidence, "float64"), kind="stable")
        wrong = rows[~self.is_right[rows]]
        return [[*columns], *([_cell(values[row]) for values in columns.values()] for row in wrong)]


class JudgedNumbers(Judged):
    """Predicted numbers, none of which is right; the loss is the absolute error."""

    titles, wrong_first, repeats_agree = ("target", "error"), False, False
    how = "The {shown} with the largest error: " + LOOK.format("wrong targets") + COUNTED

    @classmethod
    def of_numbers(cls, targets, predictions, **fields):
        """Judges one number for each row; NaN is an infinite error."""
        targets, predictions = (np.asarray(values, "float64").reshape(-1) for values in (targets, predictions))
        with np.errstate(invalid="ignore"):
            errors = np.abs(predictions - targets)
        errors = np.where(np.isnan(errors), np.inf, errors)
        return cls(gold=targets, predicted=predictions, loss=errors, right=np.zeros(len(targets)), **fields)

    @property
    def label_losses(self):
        return np.square(np.asarray(self.loss, "float64"))

    def overview(self):
        return [sections.scatter_section(self.gold, self.predicted)]

    def lengths(self):
        return "" if self.length is None else sections.length_section(self.length, self.loss, percent=False)


def _plain(value):
    """Returns a value with a type of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _shown(value):
    """Returns a value as text for the report."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else value


def _cell(value):
    """Returns a value for `errors.tsv`; nothing is an empty cell."""
    if value is None:
        return ""
    if isinstance(value, list):
        return SEPARATOR.join(value)
    return f"{value:.6g}" if isinstance(value, float | np.floating) else value
