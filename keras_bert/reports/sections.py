"""Sections of several reports: confusions, numbers over targets, errors by length, calibration (Guo et al., 2017)."""

import math

import markupsafe
import numpy as np

from keras_bert.reports import charts, page

MANY_CLASSES = 40  # Maximum number of classes of a confusion matrix.
CONFUSIONS = 30  # To list.
_CLOUD = 2000  # Maximum number of points of a scatter plot.
_GROUPS = 6
_BINS = 10


def class_sections(names, gold, predicted, words):
    """Returns HTML sections with the confusions of classes, lists of their `names`, and the scores of each class.

    `words` are those for a class, for classes and for what is classified.
    """
    places, classes = {name: number for number, name in enumerate(names)}, len(names)
    targets, predictions = (np.array([places[name] for name in column], int) for column in (gold, predicted))
    counts = np.bincount(targets * classes + predictions, minlength=classes**2).reshape(classes, classes)
    right, total = np.trace(counts), len(targets)
    return page.render(
        "classes.html",
        names=names,
        counts=counts.tolist(),
        accuracy=f"{right:,} of {total:,} are correct, {page.percent(right / total)}.",
        confusions=confusions(names, names, counts),
        heads=[words[0], "precision", "recall", "F1", "support", "predicted"],
        classes=_classes(names, counts),
        words=dict(zip(("one", "many", "unit"), words, strict=True)),
    )


def confusions(rows, columns, counts, others=0):
    """Returns the most frequent confusions of many true classes, `rows`, with predicted ones, and the number of all.

    It is a dict of table rows and a number; few classes have `None`, since a matrix shows them. The last `others` of
    the rows are no classes.
    """
    if len(rows) - others <= MANY_CLASSES:
        return None
    wrong = counts * (np.array(rows)[:, None] != np.array(columns))
    order, totals = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS], counts.sum(1)
    pairs = zip(*(places.tolist() for places in np.unravel_index(order, counts.shape)), strict=True)
    listed = [
        [rows[row], columns[column], f"{counts[row, column]:,}", share(counts[row, column], totals[row])]
        for row, column in pairs
        if wrong[row, column]
    ]
    return {"listed": listed, "kinds": np.count_nonzero(wrong)}


def share(count, total):
    """Formats the share of a count, or a dash without a total."""
    return page.percent(count / total, 1) if total else page.NOTHING


def _classes(names, counts):
    """Returns table rows with the scores of each class; many classes are sorted by ascending F1."""
    hits, support, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [
        [name, share(hit, said), share(hit, true), share(2 * hit, true + said), f"{true:,}", f"{said:,}"]
        for name, hit, true, said in zip(names, hits, support, predicted, strict=True)
    ]
    if len(names) > MANY_CLASSES:
        order = np.argsort(2 * hits / np.maximum(support + predicted, 1), kind="stable")
        rows = [rows[number] for number in order]
    return rows


def scatter_section(targets, predictions):
    """Returns the HTML section with the predictions over their targets, arrays of floats."""
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = [f"Non-finite predictions, not plotted: {len(targets) - len(rows):,}."] * (len(rows) < len(targets))
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are plotted, sampled at random.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    points = targets[rows].tolist(), predictions[rows].tolist()
    chart = charts.scatter(*points, "target", "prediction") if len(rows) else ""
    return page.render("scatter.html", chart=chart, notes=notes)


def length_section(lengths, errors, percent: bool = True):
    """Returns the HTML section for rows of dev; `errors` are bools, or absolute errors if `percent` is false."""
    mean = "Share of wrong predictions" if percent else "Mean absolute error"
    return page.render(
        "lengths.html",
        name="Errors by length",
        how=f"{mean} by the number of tokens that the model reads.",
        heads=["tokens", "number", "wrong" if percent else "error"],
        rows=length_rows(lengths, errors, share_bar if percent else "{:.4g}".format),
    )


def length_rows(lengths, values, show):
    """Returns table rows of up to six groups of about equal size: range of lengths, number of rows, mean of `values`.

    `show` formats a mean, which is an array if the values are tuples.
    """
    lengths, values = np.asarray(lengths, int), np.asarray(values, "float64")
    # Equal lengths are in the same group.
    ends = np.unique(np.quantile(lengths, np.arange(1, _GROUPS + 1) / _GROUPS, method="inverted_cdf"))
    groups, rows = np.searchsorted(ends, lengths), []
    for group, high in enumerate(ends):
        chosen, low = values[groups == group], lengths[groups == group].min()
        rows.append([f"{low:,} to {high:,}" if low < high else f"{low:,}", f"{len(chosen):,}", show(chosen.mean(0))])
    return rows


def share_bar(share):
    """Returns a share in percent with a bar below it, as HTML."""
    share = float(share)
    return markupsafe.Markup('<span class="bar" style="--share:{:.3f}">{}</span>').format(share, page.percent(share, 1))


def bins(confidence, right):
    """Returns `(low, high, count, mean confidence, accuracy)` of the non-empty ones of ten equal ranges of confidence.

    `confidence` are the probabilities of the predictions, `right` tells which of them are correct.
    """
    confidence, right = np.asarray(confidence, "float64"), np.asarray(right, bool)
    # A range includes its upper end: (0.9, 1.0].
    places = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    return [
        (place / _BINS, (place + 1) / _BINS, int(chosen.sum()), confidence[chosen].mean(), right[chosen].mean())
        for place in range(_BINS)
        if (chosen := places == place).any()
    ]


def expected_error(found):
    """Returns the expected calibration error: the mean distance of confidence and accuracy, weighted by the counts.

    It is NaN without predictions.
    """
    total = sum(row[2] for row in found)
    return sum(count * abs(sure - accuracy) for _, _, count, sure, accuracy in found) / total if total else math.nan


def _bias(gap):
    """Words for the mean confidence minus the accuracy."""
    if page.percent(abs(gap)) == page.percent(0):
        return "as confident as right on average"
    return f"{'over' if gap > 0 else 'under'}confident by {page.percent(abs(gap))} on average"


def calibration_section(confidence, right, note: str = ""):
    """Returns the HTML section, or "" without a finite confidence; `note` is a sentence about what a prediction is."""
    confidence, right = np.asarray(confidence, "float64"), np.asarray(right, bool)
    finite = np.isfinite(confidence)
    if not finite.any():
        return ""
    found = bins(confidence[finite], right[finite])
    groups = {low: ("0", "", "") for low in np.arange(_BINS) / _BINS}
    groups |= {
        low: (f"{count:,}", page.percent(sure), page.percent(accuracy)) for low, _, count, sure, accuracy in found
    }
    gap = confidence[finite].mean() - right[finite].mean()
    return page.render(
        "calibration.html",
        note=note,
        chart=charts.reliability([(100 * row[3], 100 * row[4], row[2]) for row in found]),
        error=page.percent(expected_error(found)),
        bias=_bias(gap),
        rows=[[f"{100 * low:.0f} to {100 * (low + 1 / _BINS):.0f}%", *cells] for low, cells in groups.items()],
    )
