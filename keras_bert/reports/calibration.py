"""Calibration: how often predictions of a certain confidence are correct (Guo et al., 2017)."""

import numpy as np

from keras_bert.reports import charts, page

_BINS = 10


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
