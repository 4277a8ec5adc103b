"""Report sections about a classifier or regression model on dev."""

import numpy as np

from keras_bert.experiments.reports import charts, page

_HARDEST = 20
_MANY_CLASSES = 40  # Maximum number of classes of a confusion matrix.
_CLOUD = 2000  # Maximum number of points of a scatter plot.
_CONFUSIONS = 30


def classification_sections(labels, text, pair, targets, logits):
    """Returns HTML sections about a classifier.

    Args:
        labels: list of class names, by class index.
        text, pair: lists of texts, one for each row of dev; `pair` may be `None`.
        targets: class indices.
        logits: array of shape `(rows, classes)`.
    """
    labels = [str(label) for label in labels]
    classes = len(labels)
    targets, logits = np.asarray(targets, int), np.asarray(logits, "float64")
    probabilities, losses = _probabilities(logits, targets)
    predictions = np.argmax(logits, -1)
    counts = np.bincount(targets * classes + predictions, minlength=classes**2).reshape(classes, classes)
    right = predictions == targets
    confidence = probabilities[np.arange(len(targets)), predictions]
    hardest = np.argsort(-losses, kind="stable")[:_HARDEST]
    hardest = hardest[np.lexsort((-confidence[hardest], right[hardest]))]
    confusions = _confusions(labels, counts) if classes > _MANY_CLASSES else None
    section = page.render(
        "classification.html",
        labels=labels,
        counts=counts.tolist(),
        accuracy=f"{right.sum():,} of {len(right):,} are correct, {right.mean():.2%}.",
        confusions=None if confusions is None else confusions[:_CONFUSIONS],
        kinds=len(confusions or ()),
        classes=_classes(labels, counts),
        hardest=[
            {
                **_example(row, text, pair),
                "true": labels[targets[row]],
                "predicted": labels[predictions[row]],
                "confidence": confidence[row],
                "loss": losses[row],
                "right": right[row],
            }
            for row in hardest
        ],
    )
    return [section]


def regression_sections(text, pair, targets, logits):
    """Returns HTML sections about a regression model; targets are floats, logits have the shape `(rows, 1)`."""
    targets, predictions = np.asarray(targets, "float64"), np.asarray(logits, "float64").reshape(-1)
    with np.errstate(invalid="ignore"):
        errors = np.abs(predictions - targets)
    errors = np.where(np.isnan(errors), np.inf, errors)
    hardest = np.argsort(-errors, kind="stable")[:_HARDEST]
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = [f"Non-finite predictions, not plotted: {len(targets) - len(rows):,}."]
    notes = notes if len(rows) < len(targets) else []
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are plotted, sampled at random.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    points = targets[rows].tolist(), predictions[rows].tolist()
    section = page.render(
        "regression.html",
        chart=charts.scatter(*points, "target", "prediction") if len(rows) else "",
        notes=notes,
        hardest=[
            {**_example(row, text, pair), "target": targets[row], "predicted": predictions[row], "error": errors[row]}
            for row in hardest
        ],
    )
    return [section]


def _example(row, text, pair):
    return {"row": row, "text": text[row], "pair": None if pair is None else pair[row]}


def _probabilities(logits, targets):
    """Returns class probabilities, and cross-entropies with NaN replaced by infinity."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        sums = np.exp(shifted).sum(-1, keepdims=True)
        losses = np.log(sums[:, 0]) - shifted[np.arange(len(targets)), targets]
        return np.exp(shifted) / sums, np.where(np.isnan(losses), np.inf, losses)


def _confusions(labels, counts):
    """Returns table rows of all confusions that occur, the most frequent first."""
    wrong = counts * ~np.eye(len(labels), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
    pairs = zip(*(places.tolist() for places in np.unravel_index(order, counts.shape)), strict=True)
    return [
        [labels[row], labels[column], f"{counts[row, column]:,}", _share(counts[row, column], counts[row].sum())]
        for row, column in pairs
    ]


def _share(count, total):
    return f"{count / total:.1%}" if total else page.NOTHING


def _classes(labels, counts):
    """Returns table rows with the scores of each class; many classes are sorted by ascending F1."""
    found, support, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [
        [label, _share(hit, said), _share(hit, true), _share(2 * hit, true + said), f"{true:,}", f"{said:,}"]
        for label, hit, true, said in zip(labels, found, support, predicted, strict=True)
    ]
    if len(labels) > _MANY_CLASSES:
        order = np.argsort(2 * found / np.maximum(support + predicted, 1), kind="stable")
        rows = [rows[number] for number in order]
    return rows
