"""Fine-tuning for multi-label classification of users' own tables."""

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_bert.heads.registry import head_named
from keras_bert.reports import page
from keras_bert.reports.judged import COUNTED, LOOK, Judged
from keras_bert.reports.sections import CONFUSIONS, MANY_CLASSES, calibration_section, share, share_bar
from keras_bert.tasks import confidence
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    choose_thresholds,
    dense,
    multi_label_table,
    predict,
    predicted,
    probabilities,
    same_prediction,
    score,
    threshold_text,
)
from keras_bert.tasks.classification.rows import LabelSetRows
from keras_bert.tasks.classification.settings import MultiLabelSettings, parse_threshold
from keras_bert.tasks.classification.task import (
    ClassificationReport,
    ClassificationTask,
    ClassificationTraining,
    check_class_weight,
)
from keras_bert.tasks.logits import mean_sigmoids
from keras_bert.tasks.reporting import Findings
from keras_bert.tasks.summary import listed
from keras_bert.training.losses import multi_label_loss

_MOST_LABELS = 8  # Larger numbers of labels per row are counted together.
_DECISIONS = "A prediction is the probability of a label for an example; it is correct if the example has the label."
# What reads the outputs in the example of the model card.
_OUTPUTS = (
    'thresholds = torch.tensor(model.config.keras_bert["thresholds"])\n'
    "predicted = outputs.logits.sigmoid() >= thresholds\n"
)


class MultiLabelTraining(ClassificationTraining):
    """Trains an output for each label.

    Class weights that are "balanced" weight the loss so that, for each label, the rows with and without it count
    equally.
    """

    def class_weights(self):
        """Returns the weights of the rows without and with each label, a list of pairs, or `None`."""
        check_class_weight(self.task.spec, self.task.class_weight)
        if self.task.class_weight is None:
            return None
        columns = self.task.targets(self.task.data.train).T
        return [balanced_weights(column, 2) for column in columns]

    def head_loss(self, class_weights):
        return multi_label_loss(class_weights)


class MultiLabelReport(ClassificationReport):
    """Reports scores at thresholds, see `choose_thresholds`."""

    def combine(self, logits):
        return mean_sigmoids(logits)

    def score(self, targets, outputs):
        targets = np.asarray(targets)
        logits = self.class_logits(outputs)
        thresholds = choose_thresholds(self.task.threshold, targets, logits)
        return score(self.task.spec, targets, logits, thresholds)

    def fold_scores(self, rows, kept):
        """Returns the scores of the rows of a fold with the thresholds chosen on all rows."""
        spec = self.task.spec
        targets = self.task.targets(self.own)[rows]
        return score(spec, targets, self._scaled_logits(kept)[rows], self.thresholds(kept))

    def decisions(self, kept):
        logits = self.logits_of(self.task.spec.name, kept)
        return confidence.Decisions.of_labels(logits, self.task.targets(self.own))

    def _scaled_logits(self, kept):
        """Returns the logits for dev as those of the answered probabilities, to which thresholds belong."""
        return self.logits_of(self.task.spec.name, kept) / self.temperature(kept)

    def thresholds(self, kept):
        """Returns the thresholds chosen on dev; `kept` is that of dev, or with folds that of all rows."""
        targets = self.task.targets(self.own)
        return choose_thresholds(self.task.threshold, targets, self._scaled_logits(kept))

    def make_card(self):
        card = dataclasses.replace(super().make_card(), imports="import torch\n", outputs=_OUTPUTS)
        if not self._are_chosen:
            return card
        note = f"The scores use thresholds chosen on {self.place}, which makes them a little optimistic."
        return card.with_note(note)

    def conclude(self, dev, test, output):
        spec = self.task.spec
        thresholds = self.thresholds(dev)
        logits = self._scaled_logits(dev)
        outputs = self._scaled_outputs(self.outputs_of(spec.name, dev), dev)
        scores = self.score(self.task.targets(self.own), outputs)
        sections, errors = self.judge(dev).report()
        return Findings(
            measured=scores,
            sections=sections,
            errors=errors,
            results={"task": spec.name, "scores": {spec.name: scores}, "thresholds": thresholds},
            facts={"thresholds": self._threshold_fact(logits, thresholds)},
            messages=self.write_predictions(dev, test, output),
            same=same_prediction(spec, logits, thresholds),
        )

    def judge(self, kept):
        spec = self.task.spec
        return judge_sets(
            labels=list(spec.labels),
            targets=self.task.targets(self.own),
            logits=self.logits_of(spec.name, kept),
            thresholds=self.thresholds(kept),
            temperature=self.temperature(kept),
            **self.dev_rows(),
        )

    def test_scores(self, examples, outputs, dev):
        logits = self.class_logits(self._scaled_outputs(outputs, dev))
        return score(self.task.spec, examples.labels, logits, self.thresholds(dev))

    def predictions(self, logits, dev):
        spec = self.task.spec
        scaled_logits = logits / self.temperature(dev)
        decisions = predict(spec, scaled_logits, self.thresholds(dev))
        return multi_label_table(decisions, spec.labels, probabilities(scaled_logits))

    def _scaled_outputs(self, outputs, dev):
        """Returns the outputs of the model with the logits of the answered probabilities."""
        main = head_named(self.task.head).classes
        return confidence.scaled(outputs, main, self.confidence(dev))

    def _threshold_fact(self, logits, thresholds):
        spec = self.task.spec
        text = threshold_text(thresholds, spec.labels)
        if not self._are_chosen:
            return text
        scores_of_default = score(spec, self.own.labels, logits)
        return f"{text} (chosen on {self.place}; with 0.5: {listed(scores_of_default)})"

    @property
    def _are_chosen(self):
        return self.task.threshold in ("shared", "per_label")


class MultiLabelTask(ClassificationTask):
    """Multi-label classification of texts or pairs, see `ClassificationTask`.

    `threshold` is how the thresholds of the labels are chosen on dev, see `choose_thresholds`.
    """

    name = "multi_label"
    Settings = MultiLabelSettings
    rows = LabelSetRows()
    Training = MultiLabelTraining
    Report = MultiLabelReport

    def __init__(self, data, start, settings):
        threshold = settings.threshold
        self.threshold = parse_threshold(threshold) if isinstance(threshold, str) else threshold
        super().__init__(data, start, settings)
        self.options["threshold"] = self.threshold

    @classmethod
    def fits(cls, bert):
        return cls.trains(bert.head) and bert.multi_label

    def targets(self, examples):
        return dense(examples.labels or [()] * len(examples), self.spec.num_classes)

    def save_options(self, kept):
        return super().save_options(kept) | {"thresholds": self.report.thresholds(kept)}

    def export_options(self, bert):
        return super().export_options(bert) | {"thresholds": bert.thresholds}


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedSets(Judged):
    """Judged sets of labels, the `names`; all arrays are `(rows, labels)`."""

    thresholds: Any
    targets: Any
    decisions: Any  # Whether a label is predicted.
    probabilities: Any

    how = (
        "The {shown} with the highest loss (mean binary cross-entropy of the labels), wrong predictions first: "
        + LOOK.format("wrong labels")
        + COUNTED
    )

    def overview(self):
        count = f"{self.is_right.sum():,} of {len(self.is_right):,}"
        share_right = page.percent(self.is_right.mean())
        section = page.render(
            "tasks/classification/multi_label_report.html",
            labels=self._label_rows(),
            sorted=len(self.names) > MANY_CLASSES,
            exact=f"In {count} examples all labels are correct, {share_right}.",
            sizes=self._sizes(),
            instead=self._instead(),
            together=self._together(),
        )
        probabilities = self.probabilities.ravel()
        return [section, calibration_section(probabilities, self.targets.ravel(), _DECISIONS)]

    def head(self, row):
        parts = super().head(row)
        doubtful = []
        for name, labels in (("missed", self._missed), ("wrongly predicted", self._wrong)):
            if labels[row].any():
                doubtful.append(page.words(name, self._with_probabilities(row, labels[row])))
        return [*parts[:3], *doubtful, *parts[3:]]

    def _with_probabilities(self, row, is_listed):
        """Returns the names of some labels of a row with their probabilities, as HTML."""
        names = []
        for place in np.flatnonzero(is_listed):
            probability = f"({self.probabilities[row, place]:.1%})"
            names.append(page.words(page.isolated(self.names[place]), probability))
        return page.words(*names, between=", ")

    def asked(self, row):
        """Returns the text and the label that is most wrong: predicted with the highest probability, or else missed."""
        asked = super().asked(row)
        doubtful = np.where(self._wrong[row], self.probabilities[row], -1.0)
        if not self._wrong[row].any():
            doubtful = np.where(self._missed[row], 1 - self.probabilities[row], -1.0)
        if asked is None or doubtful.max() < 0:
            return asked
        return asked[0], int(doubtful.argmax())

    def details(self):
        return {
            "missed": _named_sets(self.names, self._missed),
            "wrong": _named_sets(self.names, self._wrong),
        }

    @functools.cached_property
    def _missed(self):
        return self.targets & ~self.decisions

    @functools.cached_property
    def _wrong(self):
        return self.decisions & ~self.targets

    def _label_rows(self):
        """Returns table rows with the scores of each label, of all decisions, and the mean of the labels."""
        hits = self.targets & self.decisions
        neither = ~self.targets & ~self.decisions
        outcomes = (hits, self._wrong, self._missed, neither)
        counts = np.stack([decisions.sum(0) for decisions in outcomes], 1)
        scores = 2 * counts[:, 0] / np.maximum(self.targets.sum(0) + self.decisions.sum(0), 1)
        order = range(len(self.names))
        if len(self.names) > MANY_CLASSES:
            order = np.argsort(scores, kind="stable")
        limits = np.broadcast_to(self.thresholds, [len(self.names)])
        rows = []
        for place in order:
            rows.append([self.names[place], f"{limits[place]:g}", *_count_cells(counts[place])])
        rows.append(["all (micro)", "", *_count_cells(counts.sum(0))])
        rows.append(["mean (macro)", "", share_bar(scores.mean()), *[""] * 6])
        return rows

    def _sizes(self):
        """Returns how many labels rows have and how many are predicted, as a matrix with the names of its rows."""
        true = np.minimum(self.targets.sum(1), _MOST_LABELS)
        predicted_sizes = np.minimum(self.decisions.sum(1), _MOST_LABELS)
        size = int(max(true.max(), predicted_sizes.max())) + 1
        counts = np.bincount(true * size + predicted_sizes, minlength=size**2).reshape(size, size)
        names = list(map(str, range(size)))
        if size == _MOST_LABELS + 1:
            names[_MOST_LABELS] = f"{_MOST_LABELS} or more"
        return {"counts": counts.tolist(), "names": names}

    def _instead(self):
        """Returns table rows of labels that are predicted wrongly where others are missed, the most frequent first."""
        pairs = _cooccurrences(self._missed, self._wrong)
        totals = self._missed.sum(0)
        rows = []
        for place in np.argsort(-pairs.data, kind="stable")[:CONFUSIONS]:
            missed = pairs.row[place]
            wrong = pairs.col[place]
            count = pairs.data[place]
            share_of_missed = share(count, totals[missed])
            rows.append([self.names[missed], self.names[wrong], f"{count:,}", share_of_missed])
        return rows

    def _together(self):
        """Returns table rows of pairs of labels, those whose number of rows is predicted worst first."""
        true = _cooccurrences(self.targets, self.targets).tocsr()
        predicted = _cooccurrences(self.decisions, self.decisions).tocsr()
        differences = (predicted - true).tocoo()
        upper = np.flatnonzero((differences.row < differences.col) & (differences.data != 0))
        order = np.argsort(-abs(differences.data[upper]), kind="stable")
        rows = []
        for place in upper[order][:CONFUSIONS]:
            one = int(differences.row[place])
            other = int(differences.col[place])
            counts = [f"{true[one, other]:,}", f"{predicted[one, other]:,}"]
            rows.append([self.names[one], self.names[other], *counts])
        return rows


def judge_sets(labels, targets, logits, thresholds, temperature=1.0, **fields):
    """Judges sets of labels, given arrays `(rows, labels)` of 0 and 1 and of logits; `fields` are those of `Judged`.

    The temperature divides the logits of the probabilities, which the thresholds belong to, and not those of the loss.
    """
    targets = np.asarray(targets, bool)
    logits = np.asarray(logits, "float64")
    decisions = predicted(logits / temperature, thresholds)
    return JudgedSets(
        names=labels,
        gold=_named_sets(labels, targets),
        predicted=_named_sets(labels, decisions),
        loss=np.logaddexp(0, np.where(targets, -logits, logits)).mean(-1),
        thresholds=thresholds,
        targets=targets,
        decisions=decisions,
        probabilities=probabilities(logits / temperature),
        **fields,
    )


def _named_sets(names, sets):
    """Returns the names of the labels of each row."""
    named = []
    for row in sets:
        named.append([names[place] for place in np.flatnonzero(row)])
    return named


def _count_cells(counts):
    """Returns table cells: F1, precision, recall, and the numbers of right, wrong, missed and other decisions."""
    hits, wrong, missed, _ = counts
    total = 2 * hits + wrong + missed
    f1 = share_bar(2 * hits / total) if total else page.NOTHING
    numbers = [f"{count:,}" for count in counts]
    return [f1, share(hits, hits + wrong), share(hits, hits + missed), *numbers]


def _cooccurrences(first, second):
    """Returns the number of rows of each pair of labels, one from each array, as a sparse matrix."""
    from scipy.sparse import coo_array, csr_array

    return coo_array(csr_array(first.T.astype(int)) @ csr_array(second.astype(int)))
