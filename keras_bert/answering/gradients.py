"""Integrated gradients (Sundararajan et al., 2017): scores of words by gradients along a path from a baseline."""

import numpy as np
import tensorflow as tf

from keras_bert.rewirings.from_vectors import VECTORS
from keras_bert.text.word_effects import Effects, in_chunks, logits_at

_SHARE = 4  # How many times as much memory as an answer its gradient needs, about.


class IntegratedGradients:
    """The effects of words on logits, whose sum is the difference of the logit to that of the baseline.

    The path goes from the sequence whose words are all replaced to the sequence itself, in the vectors of the token
    table, before segments and positions are added. The score of a token is the integral of the gradient along the path,
    times the way of its vector, summed over the dimensions; Gauss and Legendre's rule gives the points.

    Args:
        model: a model from `build_from_vectors`.
        table: function from ids to the vectors that the model takes, its token table.
        output: str, the output with the logits.
        replacement: int, the id in place of those of words in the baseline.
        join: how the logits of windows are joined, see `text.joins`.
        n_steps: int, the number of points.

    Call arguments:
        subject: a `Subject`.

    Returns:
        `Effects`, with a score for each token of a word.
    """

    def __init__(self, model, table, output, replacement, join, n_steps=50):
        self._model = model
        self._table = table
        self._output = output
        self._replacement = replacement
        self._join = join
        places, weights = np.polynomial.legendre.leggauss(n_steps)
        # The first two points, with no weight, are the baseline and the sequence itself.
        self._points = np.concatenate([[0.0, 1.0], (places + 1) / 2]).astype("float32")
        self._weights = np.concatenate([[0.0, 0.0], weights / 2]).astype("float32")

    def __call__(self, subject):
        count = tf.size(subject.row)
        sizes = tf.maximum(1, subject.rows_at_once() // _SHARE)
        counts = tf.fill([count], len(self._points))
        positions = tf.size(subject.number) // tf.maximum(count, 1)
        weights = self._path_weights(subject, counts, sizes)
        nothing = (tf.zeros([0]), tf.zeros([0], tf.int32), tf.zeros([0, positions]))
        integrals = self._integrals(subject, weights)
        logits, sequence, parts = in_chunks(integrals, counts, sizes, nothing)
        logits = self._join.joined(tf.reshape(logits, [count, len(self._points)]), subject.row)
        scores = tf.math.unsorted_segment_sum(parts, sequence, count)
        numbers = tf.reshape(subject.number, [count, positions])
        places = tf.where(numbers >= 0)
        return Effects(
            value=logits[:, 1],
            baseline=logits[:, 0],
            row=tf.gather(subject.row, places[:, 0]),
            number=tf.gather_nd(numbers, places),
            score=tf.gather_nd(scores, places),
        )

    def _path_weights(self, subject, counts, sizes):
        """Returns the weight of each point of the path of each sequence in the integral, `(sequences, points)`.

        It has the part of the sequence in the logit of its text, which may differ along the path.
        """
        logits = tf.zeros([tf.size(subject.row), len(self._points)])
        if self._join.depends_on_logits:
            computed = in_chunks(self._logits(subject), counts, sizes, tf.zeros([0]))
            logits = tf.reshape(computed, tf.shape(logits))
        return self._weights * self._join.weights(logits, subject.row)

    def _logits(self, subject):
        """Returns a function from a sequence and a range of points to the logits."""
        lengths = subject.lengths()

        def some(sequence, first, last):
            inputs, number = subject.part(sequence, lengths[sequence])
            path, _ = self._path(inputs, number, first, last)
            return logits_at(self._model, self._output, path, subject.place[sequence])

        return some

    def _integrals(self, subject, weights):
        """Returns a function from a sequence and a range of points to logits, the sequence and parts of the scores."""
        lengths = subject.lengths()
        longest = tf.shape(subject.number)[-1]

        def some(sequence, first, last):
            inputs, number = subject.part(sequence, lengths[sequence])
            path, way = self._path(inputs, number, first, last)
            logits, gradients = self._gradients(path, subject.place[sequence])
            gradients = tf.reshape(gradients, tf.concat([[last - first], tf.shape(way)], 0))
            mean_gradients = tf.tensordot(weights[sequence, first:last], gradients, 1)
            scores = tf.reduce_sum(mean_gradients * way, -1)
            scores = tf.pad(scores, [[0, 0], [0, longest - tf.shape(scores)[1]]])
            return logits, sequence[None], tf.reshape(scores, [1, -1])

        return some

    def _path(self, inputs, number, first, last):
        """Returns the inputs of the model at some points of the path of a sequence, and the way of its vectors.

        The way is `(1, length, width)`, or `(choices, length, width)`.
        """
        length = tf.shape(number)[-1]
        ids = tf.reshape(inputs["token_ids"], [-1, length])
        is_word = tf.reshape(number, [-1, length]) >= 0
        baseline = tf.cast(self._table(tf.where(is_word, self._replacement, ids)), tf.float32)
        way = tf.cast(self._table(ids), tf.float32) - baseline
        points = tf.constant(self._points)[first:last]
        shape = tf.concat([tf.shape(points), tf.shape(number)], 0)
        path = {name: tf.broadcast_to(value, shape) for name, value in inputs.items()}
        vectors = baseline + points[:, None, None, None] * way
        path[VECTORS] = tf.reshape(vectors, [-1, length, way.shape[-1]])
        return path, way

    def _gradients(self, path, place):
        """Returns the logits at points of a path, and their gradients by the vectors."""
        vectors = path[VECTORS]
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            logits = logits_at(self._model, self._output, path, place)
        return logits, tape.gradient(logits, vectors)
