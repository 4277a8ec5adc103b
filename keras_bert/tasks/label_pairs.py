"""Pairs of texts of equal and of different classes: all those of a batch, which has equally many rows of each class.

A batch of n rows has n (n - 1) / 2 pairs, and each of its texts is encoded once.
"""

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_plans import SamplePlan
from keras_bert.data.boundaries import fit_boundaries
from keras_bert.data.bucketing import Batches
from keras_bert.training.losses import Loss

LEAST_ROWS = 4  # Of a batch: two similar ones of each of two classes.


class LabelBatches(Batches):
    """`Batches` whose rows are drawn by their labels, so that each batch has similar pairs and others.

    Classes count alike, whatever their numbers of rows: a batch has equally many rows of each class, or two rows of
    each of some classes, which take turns. The rows of a class take turns, too; those of a class with few rows come
    more than once in a batch. Time and memory grow with the rows, not with the pairs of all rows.

    Args:
        inputs, targets, batch_size, seed: see `Batches`.
        labels: list with the class of each row, or with its classes, a tuple. Rows without any are like a class,
            whose rows are not similar.
        steps: int, the number of batches of an epoch.

    Example:
        batches = LabelBatches(inputs, classes, labels=classes.tolist(), batch_size=16, steps=40)
    """

    def __init__(self, inputs, targets, *, labels, batch_size, steps, seed=0):
        check_count("batch_size", batch_size, LEAST_ROWS)
        self._classes = drawn_classes(labels)
        self._steps = steps
        super().__init__(inputs, targets, batch_size=batch_size, grouped=False, seed=seed)
        self.tokens = self.tokens * steps * batch_size // self.num_examples
        self.num_examples = steps * batch_size

    def _fit_samples(self, lengths):
        unpadded = _DrawnPlan([0], lengths, self.batch_size, self._steps)
        rows, _ = self._order(unpadded, 0)
        longest = unpadded.longest(lengths, rows)
        boundaries = fit_boundaries([*longest, lengths.max()], ratio=1.02)
        groups = np.searchsorted(boundaries, lengths)
        return _DrawnPlan(boundaries, groups, self.batch_size, self._steps)

    def _order(self, plan, epoch):
        rows = draw_rows(self._classes, self._steps, self.batch_size, seed=(self.seed, epoch))
        return rows.ravel(), np.arange(self._steps)


class _DrawnPlan(SamplePlan):
    """A `SamplePlan` of any number of batches, whose rows may come more than once."""

    def __init__(self, boundaries, group, size, steps):
        super().__init__(boundaries, group, size)
        self.sizes = np.full(steps, size)
        self.starts = np.cumsum(self.sizes) - self.sizes


def drawn_classes(labels):
    """Returns the rows of each class, lists, and those of no class, if there are any."""
    classes = list(rows_by_class(labels).values())
    without = [row for row, label in enumerate(labels) if label == ()]
    if without:
        classes.append(without)
    return classes


def rows_by_class(labels):
    """Returns the numbers of the rows of each class, a dict of lists; a label may be a tuple of classes."""
    members = {}
    for row, label in enumerate(labels):
        classes = label if isinstance(label, tuple) else (label,)
        for name in classes:
            members.setdefault(name, []).append(row)
    return members


def draw_rows(classes, steps, size, seed):
    """Draws batches of rows, equally many of each class, or two of each of some classes.

    Args:
        classes: list with the rows of each class, lists.
        steps: int, the number of batches.
        size: int, the rows of a batch.
        seed: int, or a tuple of them.

    Returns:
        An int array `(steps, size)`.
    """
    generator = np.random.default_rng(seed)
    turns = _Turns(range(len(classes)), generator)
    rows = [_Turns(members, generator) for members in classes]
    together = max(1, min(len(classes), size // 2))
    batches = []
    for _ in range(steps):
        drawn = turns.take(together)
        batch = []
        for place in range(size):
            label = drawn[place % together]
            batch += rows[label].take(1)
        batches.append(batch)
    return np.array(batches)


class _Turns:
    """Hands out values in turn, in another random order each time round."""

    def __init__(self, values, generator):
        self._values = np.array(values)
        self._generator = generator
        self._left = []

    def take(self, count):
        """Returns the next values, a list, all different if there are as many."""
        while len(self._left) < count:
            following = self._generator.permutation(self._values).tolist()
            again = [value for value in following if value in self._left]
            self._left += [value for value in following if value not in self._left] + again
        taken = self._left[:count]
        self._left = self._left[count:]
        return taken


def label_pair_loss() -> Loss:
    """Squared error of the cosine similarity of two texts of a batch: 1 if they have a label in common, 0 otherwise.

    The similar pairs count as much as the others. Targets are classes `(rows,)`, or labels `(rows, labels)` of 0 and 1.
    """

    def values(targets, outputs, rows):
        vectors = tf.math.l2_normalize(outputs["embedding"], -1)
        similarity = tf.matmul(vectors, vectors, transpose_b=True)
        is_similar = have_common_label(targets)
        pairs = tf.linalg.set_diag(rows[:, None] * rows, tf.zeros_like(rows))
        similar = tf.where(is_similar, pairs, 0.0)
        others = tf.where(is_similar, 0.0, pairs)
        errors_of_similar = _shares(similar * tf.square(similarity - 1), similar)
        errors_of_others = _shares(others * tf.square(similarity), others)
        return tf.reduce_sum(rows) * (errors_of_similar + errors_of_others) / 2

    return Loss("loss", values, together=True)


def have_common_label(targets):
    """Returns whether two rows have a label in common, bool `(rows, rows)`."""
    if targets.shape.rank == 1:
        return targets[:, None] == targets
    labels = tf.cast(targets, tf.float32)
    return tf.matmul(labels, labels, transpose_b=True) > 0


def _shares(errors, weights):
    """Returns the share of each row in the mean of errors `(rows, rows)`, which have these weights."""
    return tf.math.divide_no_nan(tf.reduce_sum(errors, -1), tf.reduce_sum(weights))
