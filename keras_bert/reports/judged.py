"""Judged predictions, which every report shows: confusions, calibration, lengths, the hardest rows, all errors."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from keras_bert.reports import page, sections
from keras_bert.reports.label_checks import JudgedLabel, ranked

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

    words = ("class", "classes", "examples")  # For a class, for classes and for what is classified.
    titles = ("true", "loss")  # Of the columns of `gold` and of `loss`.
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
        right = self.right
        if right is None:
            pairs = zip(self.gold, self.predicted, strict=True)
            right = [gold == predicted for gold, predicted in pairs]
        return np.asarray(right, bool)

    @functools.cached_property
    def places(self):
        """The numbers of the rows in their file."""
        if self.place is None:
            return range(1, len(self.is_right) + 1)
        return self.place

    @classmethod
    def of_classes(cls, names, targets, logits, **fields):
        """Judges class indices by logits `(rows, classes)`; NaN is an infinite loss."""
        names = [str(name) for name in names]
        targets = np.asarray(targets, int)
        logits = np.asarray(logits, "float64")
        rows = np.arange(len(targets))
        predicted = np.argmax(logits, -1)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shifted = logits - logits.max(-1, keepdims=True)
            sums = np.exp(shifted).sum(-1)
            losses = np.log(sums) - shifted[rows, targets]
            confidence = np.exp(shifted)[rows, predicted] / sums
        return cls(
            gold=[names[number] for number in targets],
            predicted=[names[number] for number in predicted],
            loss=np.where(np.isnan(losses), np.inf, losses),
            confidence=confidence,
            names=names,
            **fields,
        )

    def report(self):
        """Returns the HTML sections, and the rows of `errors.tsv`, the header first."""
        possible = [*self.overview(), self.calibration(), self.lengths(), self.hardest()]
        shown = [section for section in possible if section]
        return shown, self.errors()

    def overview(self):
        """Returns the first sections, a list."""
        names = list(dict.fromkeys([*self.names, *self.gold, *self.predicted]))
        return [sections.class_sections(names, self.gold, self.predicted, self.words)]

    def calibration(self):
        """Returns the section about calibration, or ""."""
        if self.confidence is None:
            return ""
        return sections.calibration_section(self.confidence, self.is_right)

    def lengths(self):
        """Returns the section about errors by length, or ""."""
        if self.length is None:
            return ""
        return sections.length_section(self.length, ~self.is_right)

    def hardest(self):
        """Returns the section about the hardest rows."""
        rows = self.chosen()
        if len(rows):
            wrong = f"{np.sum(~self.is_right):,} of {len(self.is_right):,}"
            how = self.how.format(shown=len(rows), wrong=wrong)
        else:
            how = self.none
        examples = [(self.head(row), self.paragraphs(row)) for row in rows]
        return page.render(
            "hardest.html",
            title=self.title,
            how=how,
            marks=self.marks,
            examples=examples,
        )

    def chosen(self):
        """Returns the indices of the hardest rows, in their order."""
        rows = self.worst()
        if self.none:
            rows = rows[~self.is_right[rows]]
        if self.once:
            rows = self._first_of_each_text(rows)
        rows = rows[:HARDEST]
        if not self.wrong_first:
            return rows
        keys = []
        if self.confidence is not None:
            keys.append(-self.confidence[rows])
        keys.append(self.is_right[rows])  # The last key counts first.
        return rows[np.lexsort(keys)]

    def _first_of_each_text(self, rows):
        """Returns the rows without those whose text, that of `once`, was in an earlier one."""
        first_rows = {}
        for row in rows:
            first_rows.setdefault(self.texts[self.once][row], row)
        return np.array([*first_rows.values()], int)

    def worst(self):
        """Returns the indices of all rows, the highest loss first."""
        loss = np.asarray(self.loss, "float64")
        return np.argsort(-np.where(np.isnan(loss), np.inf, loss), kind="stable")

    def head(self, row):
        """Returns the parts of the line above a hard row."""
        gold_title, loss_title = self.titles
        prediction = ["predicted", page.bold(_for_report(self.predicted[row]))]
        if self.confidence is not None:
            prediction.append(f"with {page.percent(self.confidence[row], 1)}")
        parts = [
            f"row {self.places[row]:,}",
            page.words(gold_title, page.bold(_for_report(self.gold[row]))),
            page.words(*prediction),
            f"{loss_title} {self.loss[row]:.3g}",
        ]
        if self.is_right[row]:
            parts.append("correct")
        return parts

    def paragraphs(self, row):
        """Returns what is shown of a row: pairs of a class of `style.css` and a text, an excerpt, or HTML."""
        shown = []
        for texts in self.texts.values():
            style = "second" if shown else ""
            shown.append((style, texts[row]))
        return shown

    def asked(self, row):
        """Returns what `LoadedBert.explain` takes of a row, a text and a target, or `None` if it takes none.

        By default, why the model predicts what it does.
        """
        texts = [values[row] for values in self.texts.values()]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            return None
        if len(texts) == 1:
            return texts[0], None
        if len(texts) == 2:
            return tuple(texts), None
        return None

    def columns(self):
        """Returns the columns of `errors.tsv` by name."""
        gold_title, loss_title = self.titles
        columns = {"row": self.places, gold_title: self.gold, "predicted": self.predicted}
        columns.update(self.details())
        columns[loss_title] = self.loss
        columns.update(self.texts)
        return columns

    def details(self):
        """Returns the columns of `errors.tsv` between the prediction and the loss."""
        if self.confidence is None:
            return {}
        return {"probability": self.confidence}

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
        if not self.texts:
            return None
        return list(zip(*self.texts.values(), strict=True))

    def label_checks(self):
        """Returns the labels of all rows as `JudgedLabel`s, the most doubtful first."""
        contents = self.contents
        labels = []
        judged = zip(self.gold, self.predicted, self.label_losses, strict=True)
        for row, (gold, predicted, loss) in enumerate(judged):
            text = ""
            if contents:
                text = " / ".join(map(str, contents[row]))
            label = JudgedLabel(
                row=row,
                label=_python_value(gold),
                predicted=_python_value(predicted),
                loss=float(loss),
                place=int(self.places[row]),
                text=text,
            )
            labels.append(label)
        if not self.repeats_agree:
            return ranked(labels)
        return ranked(labels, contents)

    def table(self):
        """Returns the columns of all rows by name, in the order of the rows, with cells as in `errors.tsv`."""
        table = {}
        for name, values in self.columns().items():
            table[name] = [_cell(value) for value in values]
        return table

    def errors(self):
        """Returns the rows of `errors.tsv`, the header first."""
        if self.confidence is None:
            rows = self.worst()
        else:
            rows = np.argsort(-np.asarray(self.confidence, "float64"), kind="stable")
        columns = self.columns()
        lines = [list(columns)]
        for row in rows[~self.is_right[rows]]:
            lines.append([_cell(values[row]) for values in columns.values()])
        return lines


class JudgedNumbers(Judged):
    """Predicted numbers, none of which is right; the loss is the absolute error."""

    titles = ("target", "error")
    wrong_first = False
    repeats_agree = False
    how = "The {shown} with the largest error: " + LOOK.format("wrong targets") + COUNTED

    @classmethod
    def of_numbers(cls, targets, predictions, **fields):
        """Judges one number for each row; NaN is an infinite error."""
        targets = np.asarray(targets, "float64").reshape(-1)
        predictions = np.asarray(predictions, "float64").reshape(-1)
        with np.errstate(invalid="ignore"):
            errors = np.abs(predictions - targets)
        return cls(
            gold=targets,
            predicted=predictions,
            loss=np.where(np.isnan(errors), np.inf, errors),
            right=np.zeros(len(targets)),
            **fields,
        )

    @property
    def label_losses(self):
        return np.square(np.asarray(self.loss, "float64"))

    def overview(self):
        return [sections.scatter_section(self.gold, self.predicted)]

    def lengths(self):
        if self.length is None:
            return ""
        return sections.length_section(self.length, self.loss, percent=False)


def _python_value(value):
    """Returns a value with a type of Python instead of one of NumPy."""
    return value.item() if isinstance(value, np.generic) else value


def _for_report(value):
    """Returns a value as text for the report."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return value


def _cell(value):
    """Returns a value for `errors.tsv`; nothing is an empty cell."""
    if value is None:
        return ""
    if isinstance(value, list):
        return SEPARATOR.join(value)
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return value
