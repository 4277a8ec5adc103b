"""Report sections about a classifier or regression model on dev."""

import dataclasses
import functools

import numpy as np

from keras_bert.reports import charts, page
from keras_bert.reports.sections import calibration_section, length_section

HARDEST = 20
MANY_CLASSES = 40  # Maximum number of classes of a confusion matrix.
_CLOUD = 2000  # Maximum number of points of a scatter plot.
CONFUSIONS = 30


def classification_report(labels, examples, logits, lengths=None):
    """Returns HTML sections about a classifier, and the wrong predictions as rows of `errors.tsv`.

    The ids of `examples`, those of dev, are row numbers; without `lengths`, in tokens, there is no section about them.
    """
    labels, judged = [str(label) for label in labels], judge(examples.labels, logits)

    def describe(row):
        return {
            "true": labels[judged.targets[row]],
            "predicted": labels[judged.predictions[row]],
            **judged.numbers(row),
        }

    hardest = judged.hardest()
    hardest = hardest[np.lexsort((-judged.confidence[hardest], judged.right[hardest]))]
    sections = [
        class_sections(labels, judged.targets, judged.predictions),
        calibration_section(judged.confidence, judged.right),
        *([] if lengths is None else [length_section(lengths, ~judged.right)]),
        page.render("tasks/classification/hardest_labels.html", hardest=described(examples, hardest, describe)),
    ]
    columns = ["row", "true", "predicted", "probability", "loss"]
    return sections, error_table(columns, examples, judged.wrong(), describe)


def class_sections(labels, targets, predictions, one="class", many="classes", unit="examples"):
    """Returns HTML sections with the confusions of classes and the scores of each class.

    `one`, `many` and `unit` are the words for a class, for classes and for what is classified.
    """
    classes = len(labels)
    counts = np.bincount(targets * classes + predictions, minlength=classes**2).reshape(classes, classes)
    listed = confusions(labels, labels, counts) if classes > MANY_CLASSES else None
    right, total = np.trace(counts), len(targets)
    return page.render(
        "tasks/classification/report.html",
        labels=labels,
        counts=counts.tolist(),
        accuracy=f"{right:,} of {total:,} are correct, {page.percent(right / total)}.",
        confusions=listed and listed[:CONFUSIONS],
        kinds=len(listed or ()),
        classes=_classes(labels, counts),
        words={"one": one, "many": many, "unit": unit},
    )


@dataclasses.dataclass(frozen=True)
class Judged:
    """Arrays with a value for each row of dev; `shares` are the probabilities of all classes, `(rows, classes)`."""

    targets: np.ndarray
    predictions: np.ndarray
    shares: np.ndarray
    losses: np.ndarray

    @functools.cached_property
    def right(self):
        """Whether a row is predicted correctly."""
        return self.predictions == self.targets

    @functools.cached_property
    def confidence(self):
        """The probability of the prediction."""
        return self.shares[np.arange(len(self.targets)), self.predictions]

    def hardest(self):
        """Returns the rows with the highest loss."""
        return np.argsort(-self.losses, kind="stable")[:HARDEST]

    def wrong(self):
        """Returns the wrong rows, the most confident first."""
        wrong = np.flatnonzero(~self.right)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    def numbers(self, row):
        """Returns what `hardest_labels.html` and `errors.tsv` show of a row."""
        return {"probability": self.confidence[row], "loss": self.losses[row], "right": self.right[row]}


def judge(targets, logits):
    """Returns `Judged`, given class indices and logits `(rows, classes)`."""
    targets, logits = np.asarray(targets, int), np.asarray(logits, "float64")
    shares, losses = _probabilities(logits, targets)
    return Judged(targets, np.argmax(logits, -1), shares, losses)


def regression_report(examples, logits, lengths=None):
    """Returns sections like `classification_report`, and all predictions, the largest error first.

    The labels of `examples` are floats, logits have the shape `(rows, 1)`.
    """
    targets, predictions, errors = _errors(examples.labels, logits)

    def describe(row):
        return {"target": targets[row], "predicted": predictions[row], "error": errors[row]}

    order = np.argsort(-errors, kind="stable")
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = [f"Non-finite predictions, not plotted: {len(targets) - len(rows):,}."]
    notes = notes if len(rows) < len(targets) else []
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are plotted, sampled at random.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    points = targets[rows].tolist(), predictions[rows].tolist()
    chart = charts.scatter(*points, "target", "prediction") if len(rows) else ""
    shown = described(examples, order[:HARDEST], describe)
    sections = [
        page.render("tasks/classification/regression_report.html", chart=chart, notes=notes),
        *([] if lengths is None else [length_section(lengths, errors, percent=False)]),
        page.render("tasks/classification/hardest_scores.html", hardest=shown),
    ]
    return sections, error_table(["row", "target", "predicted", "error"], examples, order, describe)


def _errors(targets, logits):
    """Returns targets, predictions and absolute errors, with NaN replaced by infinity."""
    targets, predictions = np.asarray(targets, "float64"), np.asarray(logits, "float64").reshape(-1)
    with np.errstate(invalid="ignore"):
        errors = np.abs(predictions - targets)
    return targets, predictions, np.where(np.isnan(errors), np.inf, errors)


def described(examples, rows, describe):
    """Returns rows of `Examples` for a template, by index; `describe` returns more values of a row as a dict."""
    return [
        {
            "row": examples.ids[row],
            "text": examples.text[row],
            "pair": None if examples.pair is None else examples.pair[row],
            **describe(row),
        }
        for row in rows
    ]


def error_table(columns, examples, rows, describe):
    """Returns the rows of `errors.tsv`, the header first; rows are counted from 1, as in the report."""
    columns = [*columns, "text", *([] if examples.pair is None else ["pair"])]
    lines = [values | {"row": values["row"] + 1} for values in described(examples, rows, describe)]
    return [columns, *([_cell(values[name]) for name in columns] for values in lines)]


def _cell(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def _probabilities(logits, targets):
    """Returns class probabilities, and cross-entropies with NaN replaced by infinity."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        sums = np.exp(shifted).sum(-1, keepdims=True)
        losses = np.log(sums[:, 0]) - shifted[np.arange(len(targets)), targets]
        return np.exp(shifted) / sums, np.where(np.isnan(losses), np.inf, losses)


def confusions(rows, columns, counts):
    """Returns table rows of all confusions of true classes, `rows`, with predicted ones, the most frequent first."""
    wrong = counts * (np.array(rows)[:, None] != np.array(columns))
    order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
    pairs = zip(*(places.tolist() for places in np.unravel_index(order, counts.shape)), strict=True)
    return [
        [rows[row], columns[column], f"{counts[row, column]:,}", share(counts[row, column], counts[row].sum())]
        for row, column in pairs
    ]


def share(count, total):
    """Formats the share of a count, or a dash without a total."""
    return page.percent(count / total, 1) if total else page.NOTHING


def _classes(labels, counts):
    """Returns table rows with the scores of each class; many classes are sorted by ascending F1."""
    hits, support, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [
        [label, share(hit, said), share(hit, true), share(2 * hit, true + said), f"{true:,}", f"{said:,}"]
        for label, hit, true, said in zip(labels, hits, support, predicted, strict=True)
    ]
    if len(labels) > MANY_CLASSES:
        order = np.argsort(2 * hits / np.maximum(support + predicted, 1), kind="stable")
        rows = [rows[number] for number in order]
    return rows
