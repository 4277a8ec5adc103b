"""Sections of several reports: errors by length, and calibration (Guo et al., 2017)."""

import markupsafe
import numpy as np

from keras_bert.reports import charts, page

_GROUPS = 6
_BINS = 10


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
    rows = []
    for low, high in _ranges(lengths):
        chosen = values[(low <= lengths) & (lengths <= high)]
        rows.append([f"{low:,} to {high:,}" if low < high else f"{low:,}", f"{len(chosen):,}", show(chosen.mean(0))])
    return rows


def _ranges(lengths):
    """Returns the shortest and the longest length of each group; equal lengths are in the same group."""
    ends = np.unique(np.quantile(lengths, np.arange(1, _GROUPS + 1) / _GROUPS, method="inverted_cdf"))
    groups = np.searchsorted(ends, lengths)
    return [(int(lengths[groups == group].min()), int(end)) for group, end in enumerate(ends)]


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
    """Returns the expected calibration error: the mean distance of confidence and accuracy, weighted by the counts."""
    return sum(count * abs(sure - accuracy) for _, _, count, sure, accuracy in found) / sum(row[2] for row in found)


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
        bias=f"{'over' if gap > 0 else 'under'}confident by {page.percent(abs(gap))} on average",
        rows=[[f"{100 * low:.0f} to {100 * (low + 1 / _BINS):.0f}%", *cells] for low, cells in groups.items()],
    )
