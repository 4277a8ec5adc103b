"""Names of classes as extra texts to fit a head to, where cross-validation of the head says that they help."""

import dataclasses

import numpy as np
import scipy.special

from keras_bert.data.token_rows import compact_parts
from keras_bert.tasks.class_names import are_numbers
from keras_bert.tasks.linear_head import fit_head
from keras_bert.text.long_texts import HEAD

_WEIGHT = 4.0  # Of a name, in texts.
_FOLDS = 4
_MOST_ROWS = 64  # Of a class on average: with more, names change little, and the folds take longer.


@dataclasses.dataclass(frozen=True)
class HeadRows:
    """Rows to fit a head of classes to: vectors `(rows, width)`, their classes, and the weights of their losses."""

    vectors: np.ndarray
    classes: np.ndarray
    weights: np.ndarray

    def take(self, places):
        """Returns some of the rows."""
        return HeadRows(self.vectors[places], self.classes[places], self.weights[places])

    def joined(self, other):
        """Returns these rows and others."""
        return HeadRows(
            np.concatenate([self.vectors, other.vectors]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.weights, other.weights]),
        )

    def fit(self, num_classes):
        """Returns the `LinearHead` of the rows."""
        return fit_head(self.vectors, self.classes, num_classes, row_weights=self.weights)

    def loss(self, head):
        """Returns the sum of the weighted losses of a head on the rows."""
        logs = scipy.special.log_softmax(self.vectors @ head.kernel + head.bias, axis=1)
        return float(-self.weights @ logs[np.arange(len(self.classes)), self.classes])


def name_inputs(task):
    """Returns the model inputs of the names of the classes, or `None` if they are no texts like those of the task."""
    split = task.splits["train"][0]
    if task.labels is None or split.targets.ndim > 1 or are_numbers(task.labels):
        return None
    if len(split.examples.columns) > 1 or len(split.targets) > _MOST_ROWS * len(task.labels):
        return None
    # How long texts are read is about texts: a name is never refused.
    preprocessor = task.bert.preprocessor(task.sequence_length, padding="longest", long_texts=HEAD)
    return compact_parts(preprocessor.ragged_parts(task.labels))


def name_rows(vectors, class_weights=None):
    """Returns the `HeadRows` of the names, whose weight is that of several texts."""
    weights = np.ones(len(vectors)) if class_weights is None else np.array(class_weights)
    return HeadRows(vectors, np.arange(len(vectors)), _WEIGHT * weights)


def held_out_loss(rows, num_classes, names=None):
    """Returns the mean loss of rows of which a head, fitted to the other folds and to the names, knows nothing.

    The rows of a class are divided evenly, in their order.
    """
    folds = np.zeros(len(rows.classes), int)
    for label in range(num_classes):
        members = np.flatnonzero(rows.classes == label)
        folds[members] = np.arange(len(members)) % _FOLDS
    total = 0.0
    for fold in np.unique(folds):
        known = rows.take(folds != fold)
        if names is not None:
            known = known.joined(names)
        if len(known.classes):
            total += rows.take(folds == fold).loss(known.fit(num_classes))
    return total / rows.weights.sum()
