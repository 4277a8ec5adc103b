"""Report sections about a classifier or regression model on dev."""

import dataclasses

import numpy as np

from keras_bert.reports import charts, page
from keras_bert.reports.calibration import calibration_section
from keras_bert.reports.lengths import length_section

HARDEST = 20
MANY_CLASSES = 40  # Maximum number of classes of a confusion matrix.
_CLOUD = 2000  # Maximum number of points of a scatter plot.
CONFUSIONS = 30


def classification_sections(labels, text, pair, targets, logits, lengths=None, numbers=None):
    """Returns HTML sections about a classifier.

    Args:
        labels: list of class names, by class index.
        text, pair: lists of texts, one for each row of dev; `pair` may be `None`.
        targets: class indices.
        logits: array of shape `(rows, classes)`.
        lengths: number of tokens of each row. Defaults to `None`, no section about lengths.
        numbers: number of each row in its file, from 0. Defaults to its index.
    """
    labels, judged = [str(label) for label in labels], _judged(targets, logits)
    hardest = np.argsort(-judged.losses, kind="stable")[:HARDEST]
    hardest = hardest[np.lexsort((-judged.confidence[hardest], judged.right[hardest]))]
    shown = [example(row, text, pair, numbers) | _judgement(labels, judged, row) for row in hardest]
    return [
        class_sections(labels, judged.targets, judged.predictions),
        calibration_section(judged.confidence, judged.right),
        *([] if lengths is None else [length_section(lengths, ~judged.right)]),
        page.render("tasks/classification/hardest_labels.html", hardest=shown),
    ]


def class_sections(labels, targets, predictions, one="class", many="classes", unit="examples"):
    """Returns HTML sections with the confusions of classes and the scores of each class.

    Args:
        labels: list of class names, by class index.
        targets, predictions: arrays of class indices.
        one, many, unit: the words for a class, for classes and for what is classified.
    """
    classes = len(labels)
    counts = np.bincount(targets * classes + predictions, minlength=classes**2).reshape(classes, classes)
    found = confusions(labels, labels, counts) if classes > MANY_CLASSES else None
    right, total = np.trace(counts), len(targets)
    return page.render(
        "tasks/classification/report.html",
        labels=labels,
        counts=counts.tolist(),
        accuracy=f"{right:,} of {total:,} are correct, {page.percent(right / total)}.",
        confusions=found and found[:CONFUSIONS],
        kinds=len(found or ()),
        classes=_classes(labels, counts),
        words={"one": one, "many": many, "unit": unit},
    )


def classification_errors(labels, text, pair, targets, logits, numbers=None):
    """Returns the wrong predictions as rows of a table, the header first, the most confident at the top."""
    judged = _judged(targets, logits)
    wrong = np.flatnonzero(~judged.right)
    wrong = wrong[np.argsort(-judged.confidence[wrong], kind="stable")]
    columns = ["row", "true", "predicted", "probability", "loss", "text"] + ["pair"] * (pair is not None)
    rows = [example(row, text, pair, numbers) | _judgement(labels, judged, row) for row in wrong]
    return [columns, *(cells(row, columns) for row in rows)]


@dataclasses.dataclass(frozen=True)
class _Judged:
    """Arrays with a value for each row of dev."""

    targets: np.ndarray
    predictions: np.ndarray
    confidence: np.ndarray
    losses: np.ndarray
    right: np.ndarray


def _judged(targets, logits):
    targets, logits = np.asarray(targets, int), np.asarray(logits, "float64")
    probabilities, losses = _probabilities(logits, targets)
    predictions = np.argmax(logits, -1)
    confidence = probabilities[np.arange(len(targets)), predictions]
    return _Judged(targets, predictions, confidence, losses, predictions == targets)


def _judgement(labels, judged, row):
    return {
        "true": str(labels[judged.targets[row]]),
        "predicted": str(labels[judged.predictions[row]]),
        "probability": judged.confidence[row],
        "loss": judged.losses[row],
        "right": judged.right[row],
    }


def regression_sections(text, pair, targets, logits, lengths=None, numbers=None):
    """Returns HTML sections about a regression model; targets are floats, logits have the shape `(rows, 1)`."""
    targets, predictions, errors = _errors(targets, logits)
    hardest = np.argsort(-errors, kind="stable")[:HARDEST]
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = [f"Non-finite predictions, not plotted: {len(targets) - len(rows):,}."]
    notes = notes if len(rows) < len(targets) else []
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are plotted, sampled at random.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    points = targets[rows].tolist(), predictions[rows].tolist()
    chart = charts.scatter(*points, "target", "prediction") if len(rows) else ""
    shown = [example(row, text, pair, numbers) | _deviation(targets, predictions, errors, row) for row in hardest]
    return [
        page.render("tasks/classification/regression_report.html", chart=chart, notes=notes),
        *([] if lengths is None else [length_section(lengths, errors, percent=False)]),
        page.render("tasks/classification/hardest_scores.html", hardest=shown),
    ]


def regression_errors(text, pair, targets, logits, numbers=None):
    """Returns all predictions as rows of a table, the header first, the largest error at the top."""
    targets, predictions, errors = _errors(targets, logits)
    columns = ["row", "target", "predicted", "error", "text"] + ["pair"] * (pair is not None)
    order = np.argsort(-errors, kind="stable")
    rows = [example(row, text, pair, numbers) | _deviation(targets, predictions, errors, row) for row in order]
    return [columns, *(cells(row, columns) for row in rows)]


def _errors(targets, logits):
    """Returns targets, predictions and absolute errors, with NaN replaced by infinity."""
    targets, predictions = np.asarray(targets, "float64"), np.asarray(logits, "float64").reshape(-1)
    with np.errstate(invalid="ignore"):
        errors = np.abs(predictions - targets)
    return targets, predictions, np.where(np.isnan(errors), np.inf, errors)


def _deviation(targets, predictions, errors, row):
    return {"target": targets[row], "predicted": predictions[row], "error": errors[row]}


def cells(row, columns):
    """Returns the cells of a row of `errors.tsv`; rows are counted from 1, as in the report."""
    values = {**row, "row": row["row"] + 1}
    return [f"{values[name]:.6g}" if isinstance(values[name], float) else values[name] for name in columns]


def example(row, text, pair, numbers):
    """Returns a row of dev for a template, by its index; for `numbers` see `classification_sections`."""
    return {
        "row": row if numbers is None else numbers[row],
        "text": text[row],
        "pair": None if pair is None else pair[row],
    }


def _probabilities(logits, targets):
    """Returns class probabilities, and cross-entropies with NaN replaced by infinity."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        sums = np.exp(shifted).sum(-1, keepdims=True)
        losses = np.log(sums[:, 0]) - shifted[np.arange(len(targets)), targets]
        return np.exp(shifted) / sums, np.where(np.isnan(losses), np.inf, losses)


def confusions(rows, columns, counts):
    """Returns table rows of all confusions that occur, the most frequent first.

    Args:
        rows, columns: lists of names, of true and of predicted classes; equal names are not confused.
        counts: array `(rows, columns)`.
    """
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
    found, support, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [
        [label, share(hit, said), share(hit, true), share(2 * hit, true + said), f"{true:,}", f"{said:,}"]
        for label, hit, true, said in zip(labels, found, support, predicted, strict=True)
    ]
    if len(labels) > MANY_CLASSES:
        order = np.argsort(2 * found / np.maximum(support + predicted, 1), kind="stable")
        rows = [rows[number] for number in order]
    return rows
