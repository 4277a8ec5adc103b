"""What a report shows about several labels per text."""

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.judged import COUNTED, LOOK, Judged
from keras_bert.reports.sections import CONFUSIONS, MANY_CLASSES, calibration_section, share, share_bar
from keras_bert.tasks.classification.predictions import predicted, probabilities

_MOST_LABELS = 8  # Larger numbers of labels per row are counted together.
_DECISIONS = "A prediction is the probability of a label for an example; it is correct if the example has the label."


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedSets(Judged):
    """Judged sets of labels, the `names`; all arrays are `(rows, labels)`."""

    thresholds: Any
    targets: Any
    decisions: Any  # Whether a label is predicted.
    probabilities: Any

    how = "The {shown} with the highest loss (mean binary cross-entropy of the labels), wrong predictions first: "
    how += LOOK.format("wrong labels") + COUNTED

    def overview(self):
        section = page.render(
            "tasks/classification/multi_label_report.html",
            labels=self._label_rows(),
            sorted=len(self.names) > MANY_CLASSES,
            exact=f"In {self.right.sum():,} of {len(self.right):,} examples all labels are correct, "
            f"{page.percent(self.right.mean())}.",
            sizes=self._sizes(),
            instead=self._instead(),
            together=self._together(),
        )
        return [section, calibration_section(self.probabilities.ravel(), self.targets.ravel(), _DECISIONS)]

    def head(self, row):
        parts = super().head(row)
        for name, labels in (("wrongly predicted", self._wrong), ("missed", self._missed)):
            doubtful = [
                page.words(page.isolated(self.names[place]), f"({self.probabilities[row, place]:.1%})")
                for place in np.flatnonzero(labels[row])
            ]
            parts[3:3] = [page.words(name, page.words(*doubtful, between=", "))] if doubtful else []
        return parts

    def details(self):
        return {"missed": _named(self.names, self._missed), "wrong": _named(self.names, self._wrong)}

    @functools.cached_property
    def _missed(self):
        return self.targets & ~self.decisions

    @functools.cached_property
    def _wrong(self):
        return self.decisions & ~self.targets

    def _label_rows(self):
        """Returns table rows with the scores of each label, of all decisions, and the mean of the labels."""
        labels, hits, neither = self.names, self.targets & self.decisions, ~self.targets & ~self.decisions
        counts = np.stack([found.sum(0) for found in (hits, self._wrong, self._missed, neither)], 1)
        scores = 2 * counts[:, 0] / np.maximum(self.targets.sum(0) + self.decisions.sum(0), 1)
        order = np.argsort(scores, kind="stable") if len(labels) > MANY_CLASSES else range(len(labels))
        limits = np.broadcast_to(self.thresholds, [len(labels)])
        rows = [[labels[place], f"{limits[place]:g}", *_scores(counts[place])] for place in order]
        mean = ["mean (macro)", "", share_bar(scores.mean()), *[""] * 6]
        return [*rows, ["all (micro)", "", *_scores(counts.sum(0))], mean]

    def _sizes(self):
        """Returns how many labels rows have and how many are predicted, as a matrix with the names of its rows."""
        true, predicted = (np.minimum(found.sum(1), _MOST_LABELS) for found in (self.targets, self.decisions))
        size = int(max(true.max(), predicted.max())) + 1
        counts = np.bincount(true * size + predicted, minlength=size**2).reshape(size, size)
        names = [f"{number}{' or more' * (number == _MOST_LABELS)}" for number in range(size)]
        return {"counts": counts.tolist(), "names": names}

    def _instead(self):
        """Returns table rows of labels that are predicted wrongly where others are missed, the most frequent first."""
        found, totals = _cooccurrences(self._missed, self._wrong), self._missed.sum(0)
        order = np.argsort(-found.data, kind="stable")[:CONFUSIONS]
        return [
            [self.names[one], self.names[other], f"{count:,}", share(count, totals[one])]
            for one, other, count in zip(found.row[order], found.col[order], found.data[order], strict=True)
        ]

    def _together(self):
        """Returns table rows of pairs of labels, those whose number of rows is predicted worst first."""
        true, predicted = (_cooccurrences(found, found).tocsr() for found in (self.targets, self.decisions))
        differences = (predicted - true).tocoo()
        upper = np.flatnonzero((differences.row < differences.col) & (differences.data != 0))
        order = upper[np.argsort(-abs(differences.data[upper]), kind="stable")][:CONFUSIONS]
        pairs = zip(differences.row[order].tolist(), differences.col[order].tolist(), strict=True)
        return [
            [self.names[one], self.names[other], f"{true[one, other]:,}", f"{predicted[one, other]:,}"]
            for one, other in pairs
        ]


def judge_sets(labels, targets, logits, thresholds, **fields):
    """Judges sets of labels, given arrays `(rows, labels)` of 0 and 1 and of logits; `fields` are those of `Judged`."""
    targets, logits = np.asarray(targets, bool), np.asarray(logits, "float64")
    arrays = {"targets": targets, "decisions": predicted(logits, thresholds)}
    gold, guessed = (_named(labels, sets) for sets in arrays.values())
    arrays["probabilities"] = probabilities(logits)
    loss = np.logaddexp(0, np.where(targets, -logits, logits)).mean(-1)
    named = {"names": labels, "thresholds": thresholds}
    return JudgedSets(gold=gold, predicted=guessed, loss=loss, **named, **arrays, **fields)


def _named(names, sets):
    """Returns the names of the labels of each row."""
    return [[names[place] for place in np.flatnonzero(row)] for row in sets]


def _scores(counts):
    hits, wrong, missed, _ = counts
    total = 2 * hits + wrong + missed
    score = share_bar(2 * hits / total) if total else page.NOTHING
    return [score, share(hits, hits + wrong), share(hits, hits + missed), *(f"{count:,}" for count in counts)]


def _cooccurrences(first, second):
    """Returns the number of rows of each pair of labels, one from each array, as a sparse matrix."""
    from scipy.sparse import coo_array, csr_array

    return coo_array(csr_array(first.T.astype(int)) @ csr_array(second.astype(int)))
