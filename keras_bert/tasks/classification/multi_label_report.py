"""Report sections about a multi-label classifier on dev."""

import dataclasses
import functools

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.sections import calibration_section, length_section, share_bar
from keras_bert.tasks.classification import thresholds as threshold_choice
from keras_bert.tasks.classification.multi_label import SEPARATOR
from keras_bert.tasks.classification.report import (
    CONFUSIONS,
    HARDEST,
    MANY_CLASSES,
    described,
    error_table,
    share,
)

_MOST_LABELS = 8  # Larger numbers of labels per row are counted together.


def label_set_report(labels, examples, targets, logits, thresholds, lengths=None):
    """Returns HTML sections about a multi-label classifier, and the examples with wrong labels as rows of `errors.tsv`.

    `labels` are names, in the order of the logits; `targets` (0 and 1) and `logits` are arrays `(rows, labels)`. The
    ids of the `Examples` of dev are the numbers of the rows. Without `lengths`, the number of tokens of each row, there
    is no section about lengths.
    """
    judged = _judged(labels, targets, logits, thresholds)
    hardest = np.argsort(-judged.losses, kind="stable")[:HARDEST]
    hardest = hardest[np.argsort(judged.right[hardest], kind="stable")]
    section = page.render(
        "tasks/classification/multi_label_report.html",
        labels=_label_rows(judged),
        sorted=len(labels) > MANY_CLASSES,
        exact=f"In {judged.right.sum():,} of {len(judged.right):,} examples all labels are correct, "
        f"{page.percent(judged.right.mean())}.",
        sizes=_sizes(judged),
        instead=_instead(judged),
        together=_together(judged),
    )
    note = "A prediction is the probability of a label for an example; it is correct if the example has the label."
    sections = [
        section,
        calibration_section(judged.probabilities.ravel(), judged.targets.ravel(), note),
        *([] if lengths is None else [length_section(lengths, ~judged.right)]),
        page.render(
            "tasks/classification/hardest_label_sets.html",
            hardest=described(examples, hardest, functools.partial(_judgement, judged)),
        ),
    ]
    wrong = np.flatnonzero(~judged.right)
    wrong = wrong[np.argsort(-judged.losses[wrong], kind="stable")]
    columns = ["row", "true", "predicted", "missed", "wrong", "loss"]
    return sections, error_table(columns, examples, wrong, functools.partial(_error, judged))


@dataclasses.dataclass(frozen=True)
class _Judged:
    """Labels, their thresholds, and arrays `(rows, labels)`, or `(rows,)` for `losses` and `right`."""

    labels: list
    thresholds: float | list
    targets: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray
    losses: np.ndarray
    right: np.ndarray


def _judged(labels, targets, logits, thresholds):
    targets, logits = np.asarray(targets, bool), np.asarray(logits, "float64")
    predicted = threshold_choice.predicted(logits, thresholds)
    losses = np.logaddexp(0, np.where(targets, -logits, logits)).mean(-1)
    arrays = targets, predicted, threshold_choice.probabilities(logits), losses, (predicted == targets).all(-1)
    return _Judged(labels, thresholds, *arrays)


def _judgement(judged, row, separator=", "):
    labels, targets, predicted = judged.labels, judged.targets[row], judged.predicted[row]
    values = judged.probabilities[row]

    def names(chosen):
        return separator.join(labels[place] for place in np.flatnonzero(chosen))

    def doubtful(chosen):
        return [(labels[place], values[place]) for place in np.flatnonzero(chosen)]

    return {
        "true": names(targets),
        "predicted": names(predicted),
        "missed": doubtful(targets & ~predicted),
        "wrong": doubtful(predicted & ~targets),
        "loss": judged.losses[row],
        "right": judged.right[row],
    }


def _error(judged, row):
    values = _judgement(judged, row, SEPARATOR)
    lists = {name: SEPARATOR.join(label for label, _ in values[name]) for name in ("missed", "wrong")}
    return values | lists


def _label_rows(judged):
    """Returns table rows with the scores of each label, of all decisions, and the mean of the labels."""
    labels, targets, predicted = judged.labels, judged.targets, judged.predicted
    counts = np.stack(
        [(targets & predicted).sum(0), (~targets & predicted).sum(0), (targets & ~predicted).sum(0)]
        + [(~targets & ~predicted).sum(0)]
    ).T
    scores = 2 * counts[:, 0] / np.maximum(targets.sum(0) + predicted.sum(0), 1)
    order = np.argsort(scores, kind="stable") if len(labels) > MANY_CLASSES else range(len(labels))
    limits = np.broadcast_to(judged.thresholds, [len(labels)])
    rows = [[labels[place], f"{limits[place]:g}", *_scores(counts[place])] for place in order]
    mean = ["mean (macro)", "", share_bar(scores.mean()), *[""] * 6]
    return [*rows, ["all (micro)", "", *_scores(counts.sum(0))], mean]


def _scores(counts):
    hits, wrong, missed, _ = counts
    total = 2 * hits + wrong + missed
    score = share_bar(2 * hits / total) if total else page.NOTHING
    return [score, share(hits, hits + wrong), share(hits, hits + missed), *(f"{count:,}" for count in counts)]


def _sizes(judged):
    """Returns how many labels rows have and how many are predicted, as a matrix with the names of its rows."""
    true, predicted = (np.minimum(found.sum(1), _MOST_LABELS) for found in (judged.targets, judged.predicted))
    highest = int(max(true.max(), predicted.max()))
    size = highest + 1
    counts = np.bincount(true * size + predicted, minlength=size**2).reshape(size, size)
    names = [f"{number}{' or more' * (number == _MOST_LABELS)}" for number in range(size)]
    return {"counts": counts.tolist(), "names": names}


def _instead(judged):
    """Returns table rows of labels that are predicted wrongly where others are missed, the most frequent first."""
    missed = judged.targets & ~judged.predicted
    found = _cooccurrences(missed, judged.predicted & ~judged.targets)
    order = np.argsort(-found.data, kind="stable")[:CONFUSIONS]
    totals = missed.sum(0)
    return [
        [judged.labels[one], judged.labels[other], f"{count:,}", share(count, totals[one])]
        for one, other, count in zip(found.row[order], found.col[order], found.data[order], strict=True)
    ]


def _together(judged):
    """Returns table rows of pairs of labels, those whose number of rows is predicted worst first."""
    true, predicted = (_cooccurrences(found, found).tocsr() for found in (judged.targets, judged.predicted))
    differences = (predicted - true).tocoo()
    upper = np.flatnonzero((differences.row < differences.col) & (differences.data != 0))
    order = upper[np.argsort(-abs(differences.data[upper]), kind="stable")][:CONFUSIONS]
    pairs = zip(differences.row[order].tolist(), differences.col[order].tolist(), strict=True)
    return [
        [judged.labels[one], judged.labels[other], f"{true[one, other]:,}", f"{predicted[one, other]:,}"]
        for one, other in pairs
    ]


def _cooccurrences(first, second):
    """Returns the number of rows of each pair of labels, one from each array, as a sparse matrix."""
    from scipy.sparse import coo_array, csr_array

    return coo_array(csr_array(first.T.astype(int)) @ csr_array(second.astype(int)))
