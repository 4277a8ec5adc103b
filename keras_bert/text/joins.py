"""How the outputs of the windows of a text become one: their mean, or evidence, in which one window can decide.

`row` is the text of each window, int32 `(windows,)`, in ascending order; each text has at least one.
"""

from typing import NamedTuple

import tensorflow as tf


class Change(NamedTuple):
    """Copies of texts, of which some windows have changed logits, for example without a word."""

    text: tf.Tensor  # (copies,): the text of each copy, int32.
    copy: tf.Tensor  # (changes,): the copy of each changed window, int32.
    window: tf.Tensor  # (changes,): its number among all windows, int32.
    logits: tf.Tensor  # (changes,): what its logit is in the copy.


def mean(values, row):
    """Returns the means of values `(windows, ...)` over the windows of each text, float32 `(texts, ...)`."""
    return tf.math.segment_mean(tf.cast(values, tf.float32), row)


def log_mean_exp(values, row):
    """Returns the logarithms of the means of the exponentials of values over the windows of each text."""
    values = tf.cast(values, tf.float32)
    highest = _finite(tf.math.segment_max(values, row))
    means = tf.math.segment_mean(tf.exp(values - tf.gather(highest, row)), row)
    return highest + tf.math.log(means)


def _finite(highest):
    """Returns the highest logits, 0 where all are infinite: a head may forbid a class."""
    return tf.where(tf.math.is_finite(highest), highest, tf.zeros_like(highest))


class MeanOfLogits:
    """The logit of a text is the mean of those of its windows."""

    depends_on_logits = False

    def joined(self, logits, row):
        """Returns the logits of the texts, `(texts, ...)`, of those of the windows, `(windows, ...)`."""
        return mean(logits, row)

    def weights(self, logits, row):
        """Returns how fast the logit of a text grows with that of each window, of the shape of `logits`."""
        counts = tf.math.segment_sum(tf.ones_like(logits), row)
        return 1 / tf.gather(counts, row)

    def changed(self, logits, row, change):
        """Returns the logits of copies of texts of which some windows have changed logits, see `Change`."""
        counts = tf.gather(tf.math.segment_sum(tf.ones_like(logits), row), change.text)
        difference = change.logits - tf.gather(logits, change.window)
        sums = tf.math.unsorted_segment_sum(difference, change.copy, tf.size(change.text))
        return tf.gather(self.joined(logits, row), change.text) + sums / counts


class EvidenceOfLogits:
    """The logit of a text is the logarithm of the mean of the exponentials of those of its windows."""

    depends_on_logits = True

    def joined(self, logits, row):
        return log_mean_exp(logits, row)

    def weights(self, logits, row):
        highest = _finite(tf.math.segment_max(logits, row))
        exponentials = tf.exp(logits - tf.gather(highest, row))
        sums = tf.math.segment_sum(exponentials, row)
        return tf.math.divide_no_nan(exponentials, tf.gather(sums, row))

    def changed(self, logits, row, change):
        count_of_texts = tf.reduce_max(tf.pad(row, [[0, 1]], constant_values=-1)) + 1
        changed_row = tf.gather(change.text, change.copy)
        highest_changed = tf.math.unsorted_segment_max(change.logits, changed_row, count_of_texts)
        highest = _finite(tf.maximum(tf.math.segment_max(logits, row), highest_changed))

        def exponentials(values, text):  # In float64, for the difference below.
            return tf.exp(tf.cast(values - tf.gather(highest, text), tf.float64))

        # The sum of each text, with the changed windows of the copy in the place of the original ones.
        of_windows = exponentials(logits, row)
        of_changes = exponentials(change.logits, changed_row)
        copies = tf.size(change.text)
        of_originals = tf.gather(of_windows, change.window)
        before = tf.math.unsorted_segment_sum(of_originals, change.copy, copies)
        after = tf.math.unsorted_segment_sum(of_changes, change.copy, copies)
        total = tf.gather(tf.math.segment_sum(of_windows, row), change.text) - before + after
        counts = tf.gather(tf.math.segment_sum(tf.ones_like(of_windows), row), change.text)
        return tf.cast(tf.math.log(total / counts), tf.float32) + tf.gather(highest, change.text)
