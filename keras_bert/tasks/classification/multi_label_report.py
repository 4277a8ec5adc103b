"""What a report shows about several labels per text."""

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.judged import Hardest, Judged
from keras_bert.reports.sections import CONFUSIONS, MANY_CLASSES, calibration_section, share, share_bar
from keras_bert.tasks.classification import thresholds as threshold_choice
from keras_bert.tasks.classification.multi_label import SEPARATOR

_MOST_LABELS = 8  # Larger numbers of labels per row are counted together.
_DECISIONS = "A prediction is the probability of a label for an example; it is correct if the example has the label."


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedSets(Judged):
    """Judged sets of labels, the `names`; all arrays are `(rows, labels)`."""

    thresholds: Any
    targets: Any
    decisions: Any  # Whether a label is predicted.
    probabilities: Any

    hardest_rows = Hardest("the highest loss (mean binary cross-entropy of the labels), wrong predictions first")

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

    def shown(self, row):
        sets = {"true": self.gold[row], "predicted": self.predicted[row]}
        head = [page.words(name, page.bold(", ".join(labels) or "none")) for name, labels in sets.items()]
        for name, labels in (("missed", self._missed), ("wrongly predicted", self._wrong)):
            doubtful = [
                page.words(page.isolated(self.names[place]), f"({self.probabilities[row, place]:.1%})")
                for place in np.flatnonzero(labels[row])
            ]
            head += [page.words(name, page.words(*doubtful, between=", "))] if doubtful else []
        return [f"row {self.place[row]:,}", *head, *self.ends(row)], self.paragraphs(row)

    def columns(self):
        missed, wrong = (list(map(self._named, labels)) for labels in (self._missed, self._wrong))
        sets = {"true": self.gold, "predicted": self.predicted, "missed": missed, "wrong": wrong}
        lists = {name: list(map(SEPARATOR.join, rows)) for name, rows in sets.items()}
        return {"row": self.place, **lists, "loss": self.loss, **self.texts}

    def _named(self, labels):
        return [self.names[place] for place in np.flatnonzero(labels)]

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
    decisions = threshold_choice.predicted(logits, thresholds)
    gold, predicted = (
        [[labels[place] for place in np.flatnonzero(row)] for row in sets] for sets in (targets, decisions)
    )
    return JudgedSets(
        gold=gold,
        predicted=predicted,
        loss=np.logaddexp(0, np.where(targets, -logits, logits)).mean(-1),
        names=labels,
        thresholds=thresholds,
        targets=targets,
        decisions=decisions,
        probabilities=threshold_choice.probabilities(logits),
        **fields,
    )


def _scores(counts):
    hits, wrong, missed, _ = counts
    total = 2 * hits + wrong + missed
    score = share_bar(2 * hits / total) if total else page.NOTHING
    return [score, share(hits, hits + wrong), share(hits, hits + missed), *(f"{count:,}" for count in counts)]


def _cooccurrences(first, second):
    """Returns the number of rows of each pair of labels, one from each array, as a sparse matrix."""
    from scipy.sparse import coo_array, csr_array

    return coo_array(csr_array(first.T.astype(int)) @ csr_array(second.astype(int)))
