"""Fine-tuning for multi-label classification of users' own tables."""

import numpy as np

from keras_bert.tasks.base import Findings, first_known
from keras_bert.tasks.classification.data import MultiLabelSettings
from keras_bert.tasks.classification.multi_label_report import judge_sets
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    choose_thresholds,
    dense,
    multi_label_table,
    parse_threshold,
    predict,
    probabilities,
    same_prediction,
    score,
    threshold_text,
)
from keras_bert.tasks.classification.task import ClassificationTask, check_class_weight, is_text
from keras_bert.tasks.logits import mean_sigmoids
from keras_bert.tasks.summary import listed
from keras_bert.training.losses import multi_label_loss

# What reads the outputs in the example of the model card.
_OUTPUTS = (
    'thresholds = torch.tensor(model.config.keras_bert["thresholds"])\n'
    "predicted = outputs.logits.sigmoid() >= thresholds\n"
)


class MultiLabelTask(ClassificationTask):
    """Multi-label classification of texts or pairs, see `ClassificationTask`.

    Class weights that are "balanced" weight the loss so that, for each label, the rows with and without it count
    equally. `threshold` is how the thresholds of the labels are chosen on dev, see `choose_thresholds`.
    """

    name, kind = "multi_label", "multi_label"
    Settings, expects = MultiLabelSettings, "texts or pairs with lists of labels"
    combine = staticmethod(mean_sigmoids)

    def __init__(self, data, start, settings):
        threshold = settings.threshold
        self._threshold = parse_threshold(threshold) if isinstance(threshold, str) else threshold
        super().__init__(data, start, settings)
        self.options = {**self.options, "threshold": self._threshold}
        self.card |= {"imports": "import torch\n", "outputs": _OUTPUTS}
        if self._is_chosen:
            self.card["note"] = (
                f"The scores use thresholds chosen on {self._place}, which makes them a little optimistic."
            )

    @classmethod
    def fits(cls, bert):
        return bert.head == cls.head and bert.multi_label

    @classmethod
    def recognizes(cls, text, targets):
        example = first_known(targets)
        if not (is_text(text) and isinstance(example, list | tuple)):
            return False
        if isinstance(example[0], float):
            raise ValueError(
                "the targets are lists of floats, as one-hot vectors are. Expected the class of each text, such as "
                f"targets.argmax(-1), or lists of labels. Received: targets such as {example!r:.100}"
            )
        if not isinstance(example[0], str | int):
            return False
        if all(target is not None and len(target) == 1 for target in targets):
            raise ValueError(
                "the targets are lists of one label, as one-hot vectors are. Expected the class of each text, such as "
                f"targets.argmax(-1), or task='multi_label'. Received: targets such as {example!r:.100}"
            )
        return True

    @classmethod
    def read(cls, train, dev, settings, labels=None):
        if labels is None:
            _check_sets([row["label"] for _, row in train.values])
        return super().read(train, dev, settings, labels)

    @property
    def _is_chosen(self):
        return self._threshold in ("shared", "per_label")

    def targets(self, examples):
        return dense(examples.labels or [()] * len(examples), self.spec.num_classes)

    def make_loss(self, class_weight):
        check_class_weight(self.spec, class_weight)
        columns = self.targets(self.data.train).T if class_weight else []
        return multi_label_loss([balanced_weights(column, 2) for column in columns] or None)

    def build(self, bert):
        return self._classifier(bert)

    def score(self, targets, outputs):
        targets, logits = np.asarray(targets), outputs["logits"]
        return score(self.spec, targets, logits, choose_thresholds(self._threshold, targets, logits))

    def fold_scores(self, rows, logits):
        """Returns the scores of the rows of a fold with the thresholds chosen on all rows."""
        return score(self.spec, self.targets(self._own)[rows], logits[self.spec.name][rows], self._thresholds(logits))

    def save_options(self, logits):
        return {**super().save_options(logits), "thresholds": self._thresholds(logits)}

    def export_options(self, bert):
        return {**super().export_options(bert), "thresholds": bert.thresholds}

    def _thresholds(self, logits):
        """Returns the thresholds chosen on dev; `logits` are those of dev, or with folds those of all rows."""
        return choose_thresholds(self._threshold, self.targets(self._own), logits[self.spec.name])

    def conclude(self, dev, test, output):
        task, logits, thresholds = self.spec, dev[self.spec.name], self._thresholds(dev)
        found = score(task, self._own.labels, logits, thresholds)
        return Findings(
            found,
            *self.judge(dev).report(),
            results={"task": task.name, "scores": {task.name: found}, "thresholds": thresholds},
            facts={"thresholds": self._threshold_fact(logits, thresholds)},
            messages=self._write_predictions(test, output, thresholds),
            same=same_prediction(task, logits, thresholds),
        )

    def judge(self, logits):
        own = logits[self.spec.name], self._thresholds(logits)
        return judge_sets(list(self.spec.labels), self.targets(self._own), *own, **self._dev_rows)

    def _threshold_fact(self, logits, thresholds):
        text = threshold_text(thresholds, self.spec.labels)
        if not self._is_chosen:
            return text
        return f"{text} (chosen on {self._place}; with 0.5: {listed(score(self.spec, self._own.labels, logits))})"

    @property
    def _place(self):
        """The rows that thresholds are chosen on."""
        return "the predictions of all folds" if self.data.folds else "dev"

    def _predictions(self, logits, thresholds):
        predicted = predict(self.spec, logits, thresholds)
        return multi_label_table(predicted, self.spec.labels, probabilities(logits))


def _check_sets(targets):
    """Raises for lists of 0 and 1 where each text has a list of its labels."""
    rows = [target for target in targets if target is not None]
    sizes = {len(row) for row in rows}
    if len(sizes) == 1 and min(sizes) > 1 and all(flag in (0, 1) for row in rows for flag in row):
        raise ValueError(
            "the targets are lists of 0 and 1. Expected a list of the labels of each text, or an array with a column "
            f"for each label: np.array(targets). Received: targets such as {rows[0]!r:.100}"
        )
