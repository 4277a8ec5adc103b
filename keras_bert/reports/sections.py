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
    one, many, unit = words
    counts = _confusion_matrix(names, gold, predicted)
    right = np.trace(counts)
    total = len(gold)
    return page.render(
        "classes.html",
        names=names,
        counts=counts.tolist(),
        accuracy=f"{right:,} of {total:,} are correct, {page.percent(right / total)}.",
        confusions=confusions(names, names, counts),
        heads=[one, "precision", "recall", "F1", "support", "predicted"],
        classes=_class_rows(names, counts),
        words={"one": one, "many": many, "unit": unit},
    )


def _confusion_matrix(names, gold, predicted):
    """Returns how often classes are predicted, a row for each true class and a column for each predicted one."""
    number_of = {name: number for number, name in enumerate(names)}
    targets = np.array([number_of[name] for name in gold], int)
    predictions = np.array([number_of[name] for name in predicted], int)
    size = len(names)
    counts = np.bincount(targets * size + predictions, minlength=size**2)
    return counts.reshape(size, size)


def confusions(rows, columns, counts, others=0):
    """Returns the most frequent confusions of many true classes, `rows`, with predicted ones, and the number of all.

    It is a dict of table rows and a number; few classes have `None`, since a matrix shows them. The last `others` of
    the rows are no classes.
    """
    if len(rows) - others <= MANY_CLASSES:
        return None
    wrong = counts * (np.array(rows)[:, None] != np.array(columns))
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]
    totals = counts.sum(1)
    listed = []
    for row, column in zip(*np.unravel_index(order, counts.shape), strict=True):
        if not wrong[row, column]:
            break  # The most frequent ones come first.
        count = counts[row, column]
        listed.append([rows[row], columns[column], f"{count:,}", share(count, totals[row])])
    return {"listed": listed, "kinds": np.count_nonzero(wrong)}


def share(count, total):
    """Formats the share of a count, or a dash without a total."""
    if not total:
        return page.NOTHING
    return page.percent(count / total, 1)


def _class_rows(names, counts):
    """Returns table rows with the scores of each class; many classes are sorted by ascending F1."""
    hits = np.diag(counts)
    support = counts.sum(1)
    predicted = counts.sum(0)
    order = np.arange(len(names))
    if len(names) > MANY_CLASSES:
        order = np.argsort(2 * hits / np.maximum(support + predicted, 1), kind="stable")
    rows = []
    for number in order:
        hit = hits[number]
        true = support[number]
        said = predicted[number]
        row = [
            names[number],
            share(hit, said),
            share(hit, true),
            share(2 * hit, true + said),
            f"{true:,}",
            f"{said:,}",
        ]
        rows.append(row)
    return rows


def scatter_section(targets, predictions):
    """Returns the HTML section with the predictions over their targets, arrays of floats."""
    rows = np.flatnonzero((np.abs(targets) < 1e100) & (np.abs(predictions) < 1e100))
    notes = []
    if len(rows) < len(targets):
        notes.append(f"Non-finite predictions, not plotted: {len(targets) - len(rows):,}.")
    if len(rows) > _CLOUD:
        notes.append(f"{_CLOUD:,} of {len(rows):,} points are plotted, sampled at random.")
        rows = np.sort(np.random.default_rng(0).choice(rows, _CLOUD, replace=False))
    chart = ""
    if len(rows):
        shown_targets = targets[rows].tolist()
        shown_predictions = predictions[rows].tolist()
        chart = charts.scatter(shown_targets, shown_predictions, "target", "prediction")
    return page.render("scatter.html", chart=chart, notes=notes)


def length_section(lengths, errors, percent: bool = True):
    """Returns the HTML section for rows of dev; `errors` are bools, or absolute errors if `percent` is false."""
    if percent:
        mean = "Share of wrong predictions"
        title = "wrong"
        show = share_bar
    else:
        mean = "Mean absolute error"
        title = "error"
        show = "{:.4g}".format
    return page.render(
        "lengths.html",
        name="Errors by length",
        how=f"{mean} by the number of tokens that the model reads.",
        heads=["tokens", "number", title],
        rows=length_rows(lengths, errors, show),
    )


def length_rows(lengths, values, show):
    """Returns table rows of up to six groups of about equal size: range of lengths, number of rows, mean of `values`.

    `show` formats a mean, which is an array if the values are tuples.
    """
    lengths = np.asarray(lengths, int)
    values = np.asarray(values, "float64")
    # Equal lengths are in the same group.
    shares = np.arange(1, _GROUPS + 1) / _GROUPS
    ends = np.unique(np.quantile(lengths, shares, method="inverted_cdf"))
    groups = np.searchsorted(ends, lengths)
    rows = []
    for group, high in enumerate(ends):
        is_member = groups == group
        low = lengths[is_member].min()
        range_of_lengths = f"{low:,} to {high:,}" if low < high else f"{low:,}"
        group_values = values[is_member]
        rows.append([range_of_lengths, f"{len(group_values):,}", show(group_values.mean(0))])
    return rows


def share_bar(share):
    """Returns a share in percent with a bar below it, as HTML."""
    number = float(share)
    bar = markupsafe.Markup('<span class="bar" style="--share:{:.3f}">{}</span>')
    return bar.format(number, page.percent(number, 1))


def bins(confidence, right):
    """Returns `(low, high, count, mean confidence, accuracy)` of the non-empty ones of ten equal ranges of confidence.

    `confidence` are the probabilities of the predictions, `right` tells which of them are correct.
    """
    confidence = np.asarray(confidence, "float64")
    right = np.asarray(right, bool)
    # A range includes its upper end: (0.9, 1.0].
    places = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    filled = []
    for place in range(_BINS):
        is_member = places == place
        if not is_member.any():
            continue
        low = place / _BINS
        high = (place + 1) / _BINS
        mean = confidence[is_member].mean()
        accuracy = right[is_member].mean()
        filled.append((low, high, int(is_member.sum()), mean, accuracy))
    return filled


def expected_error(filled_bins):
    """Returns the expected calibration error: the mean distance of confidence and accuracy, weighted by the counts.

    It is NaN without predictions.
    """
    total = 0
    error = 0
    for _, _, count, mean, accuracy in filled_bins:
        total += count
        error += count * abs(mean - accuracy)
    return error / total if total else math.nan


def _bias(gap):
    """Words for the mean confidence minus the accuracy."""
    amount = page.percent(abs(gap))
    if amount == page.percent(0):
        return "as confident as right on average"
    side = "over" if gap > 0 else "under"
    return f"{side}confident by {amount} on average"


def calibration_section(confidence, right, note: str = ""):
    """Returns the HTML section, or "" without a finite confidence; `note` is a sentence about what a prediction is."""
    confidence = np.asarray(confidence, "float64")
    is_finite = np.isfinite(confidence)
    if not is_finite.any():
        return ""
    confidence = confidence[is_finite]
    right = np.asarray(right, bool)[is_finite]
    filled_bins = bins(confidence, right)
    points = []
    for _, _, count, mean, accuracy in filled_bins:
        points.append((100 * mean, 100 * accuracy, count))
    return page.render(
        "calibration.html",
        note=note,
        chart=charts.reliability(points),
        error=page.percent(expected_error(filled_bins)),
        bias=_bias(confidence.mean() - right.mean()),
        rows=_calibration_rows(filled_bins),
    )


def _calibration_rows(filled_bins):
    """Returns a table row for each range of confidence, also for those without predictions."""
    cells = {low: ["0", "", ""] for low in np.arange(_BINS) / _BINS}
    for low, _, count, mean, accuracy in filled_bins:
        cells[low] = [f"{count:,}", page.percent(mean), page.percent(accuracy)]
    rows = []
    for low, row_cells in cells.items():
        rows.append([f"{100 * low:.0f} to {100 * (low + 1 / _BINS):.0f}%", *row_cells])
    return rows
