"""What a model answers on dev, for the report: confusions or a scatter, the hardest examples, each class."""

import numpy as np

from keras_bert.experiments.reports import charts, page

_HARDEST = 20
_TEXT = 600  # Characters of an example that are shown.
_MANY_CLASSES = 40  # More of them fit no matrix.
_CLOUD = 2000  # Points of a scatter plot.
_CONFUSIONS = 30


def _checked(text, targets, logits, classes=None):
    """Targets and logits as arrays with a row for each text; `classes` is `None` for regression."""
    logits = np.asarray(logits, "float64")
    expected = len(text), classes or 1
    if not expected[0] or logits.shape not in (expected, expected[: 2 if classes else 1]):
        raise ValueError(f"`logits` must have the shape {expected}, a row at least. Received: {logits.shape}")
    targets = np.asarray(targets, int if classes else "float64")
    if len(targets) != expected[0] or (classes and not ((targets >= 0) & (targets < classes)).all()):
        raise ValueError(
            f"`targets` must be {expected[0]} {f'class numbers below {classes}' if classes else 'numbers'}. "
            f"Received: {len(targets)}, from {targets.min(initial=0)} to {targets.max(initial=0)}"
        )
    return targets, logits


# Classification


def classification_sections(labels, text, pair, targets, logits):
    """Sections about a classifier.

    Args:
        labels: names of the classes in the order of their numbers.
        text: list of texts, one for each row of dev.
        pair: the second texts, or `None`.
        targets: class numbers.
        logits: `(rows, classes)`.
    """
    labels = [str(label) for label in labels]
    classes = len(labels)
    targets, logits = _checked(text, targets, logits, classes)
    probabilities, losses = _probabilities(logits, targets)
    predictions = np.argmax(logits, -1)
    counts = np.bincount(targets * classes + predictions, minlength=classes**2).reshape(classes, classes)
    right = predictions == targets
    confidence = probabilities[np.arange(len(targets)), predictions]
    hardest = np.argsort(-losses, kind="stable")[:_HARDEST]
    hardest = hardest[np.lexsort((-confidence[hardest], right[hardest]))]
    names = list(map(page.bold, labels))
    heads = [
        f"true {names[targets[row]]} · predicted {names[predictions[row]]} with {confidence[row]:.1%}"
        f" · loss {losses[row]:.3g}{' · right' if right[row] else ''}"
        for row in hardest
    ]
    how = (
        f"The {len(hardest)} with the highest loss (cross-entropy), those that are wrong first, the surest ahead: "
        "look here for wrong labels and for what the model does not understand."
    )
    return [
        _confusion(labels, counts.tolist()),
        page.section("Hardest examples of dev", how, _examples(hardest, heads, text, pair)),
        _classes(labels, counts),
    ]


def _probabilities(logits, targets):
    """Probabilities of the classes and cross-entropies; what is not a number is the hardest."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        sums = np.exp(shifted).sum(-1, keepdims=True)
        losses = np.log(sums[:, 0]) - shifted[np.arange(len(targets)), targets]
        return np.exp(shifted) / sums, np.where(np.isnan(losses), np.inf, losses)


def _confusion(labels, counts):
    total, right = sum(map(sum, counts)), sum(row[number] for number, row in enumerate(counts))
    note = page.note(f"{right:,} of {total:,} are right, {right / total:.2%}.")
    if len(labels) <= _MANY_CLASSES:
        how = (
            "A row for each true class, a column for each predicted one: how many examples, and their share of the "
            "row, which shades the cell; what is right stands on the diagonal."
        )
        return page.section("Confusion matrix", how, page.box(charts.heat(counts, labels)), note)
    wrong = ((row, column) for row in range(len(labels)) for column in range(len(labels)) if row != column)
    pairs = sorted((pair for pair in wrong if counts[pair[0]][pair[1]]), key=lambda pair: -counts[pair[0]][pair[1]])
    cells = [
        [
            page.bold(labels[row]),
            page.bold(labels[column]),
            f"{counts[row][column]:,}",
            _share(counts[row][column], sum(counts[row])),
        ]
        for row, column in pairs[:_CONFUSIONS]
    ]
    how = (
        f"{len(labels)} classes are too many for a matrix: the {len(cells)} most frequent of the {len(pairs):,} "
        "confusions that occur, with their share of the true class."
    )
    return page.section("Confusions", how, page.table(["true", "predicted", "examples", "share"], cells, 2), note)


def _share(count, total):
    return f"{count / total:.1%}" if total else page.NOTHING


def _classes(labels, counts):
    found, support, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [
        [page.bold(label), _share(hit, said), _share(hit, true), _share(2 * hit, true + said), f"{true:,}", f"{said:,}"]
        for label, hit, true, said in zip(labels, found, support, predicted, strict=True)
    ]
    how = (
        "Precision is the share of the predictions of a class that are right, recall the share of its examples that "
        "are found, F1 their harmonic mean, support how many examples there are; a dash is a share of nothing."
    )
    if len(labels) > _MANY_CLASSES:
        order = np.argsort(2 * found / np.maximum(support + predicted, 1), kind="stable")
        rows, how = [rows[number] for number in order], how + " The lowest F1 comes first."
    return page.section(
        "Classes", how, page.table(["class", "precision", "recall", "F1", "support", "predicted"], rows, 1)
    )


# Regression


def regression_sections(text, pair, targets, logits):
    """Sections about a regression model; the targets are floats, the logits `(rows, 1)`."""
    targets, logits = _checked(text, targets, logits)
    predictions = logits.reshape(-1)
    with np.errstate(invalid="ignore"):
        errors = np.abs(predictions - targets)
    errors = np.where(np.isnan(errors), np.inf, errors)
    hardest = np.argsort(-errors, kind="stable")[:_HARDEST]
    heads = [
        f"target <b>{targets[row]:.4g}</b> · predicted <b>{predictions[row]:.4g}</b> · error {errors[row]:.3g}"
        for row in hardest
    ]
    how = (
        f"The {len(hardest)} with the largest error, the difference of prediction and target: look here for wrong "
        "targets and for what the model does not understand."
    )
    return [
        _scatter(targets, predictions),
        page.section("Hardest examples of dev", how, _examples(hardest, heads, text, pair)),
    ]


def _scatter(targets, predictions):
    how = "A point for each example of dev: on the dashed diagonal the prediction is the target, above it is too high."
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = [f"Predictions that are no finite numbers, not drawn: {len(targets) - len(rows):,}."]
    notes = notes if len(rows) < len(targets) else []
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are drawn, chosen by chance.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    points = targets[rows].tolist(), predictions[rows].tolist()
    chart = charts.scatter(*points, "target", "prediction") if len(rows) else ""
    return page.section("Prediction against target", how, chart, *map(page.note, notes))


def _examples(rows, heads, text, pair):
    items = []
    for row, head in zip(rows, heads, strict=True):
        texts = [f'<p dir="auto">{page.escape(page.cut(str(text[row]), _TEXT))}</p>']
        if pair is not None:
            texts.append(f'<p dir="auto" class="second">{page.escape(page.cut(str(pair[row]), _TEXT))}</p>')
        items.append(f'<li><p class="head">row {row + 1:,} · {head}</p>{"".join(texts)}</li>')
    return f'<ol class="hard">{"".join(items)}</ol>'
