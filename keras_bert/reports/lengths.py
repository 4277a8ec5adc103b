"""Scores by the length of the text."""

import markupsafe
import numpy as np

from keras_bert.reports import page

_GROUPS = 6


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
