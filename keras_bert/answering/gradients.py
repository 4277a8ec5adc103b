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
        n_steps: int, the number of points.

    Call arguments:
        subject: a `Subject`.

    Returns:
        `Effects`, with a score for each token of a word.
    """

    def __init__(self, model, table, output, replacement, n_steps=50):
        self._model, self._table, self._output, self._replacement = model, table, output, replacement
        places, weights = np.polynomial.legendre.leggauss(n_steps)
        # The first two points, with no weight, are the baseline and the sequence itself.
        self._points = np.concatenate([[0.0, 1.0], (places + 1) / 2]).astype("float32")
        self._weights = np.concatenate([[0.0, 0.0], weights / 2]).astype("float32")

    def __call__(self, subject):
        count = tf.size(subject.row)
        sizes = tf.maximum(1, subject.rows_at_once() // _SHARE)
        counts = tf.fill([count], len(self._points))
        positions = tf.size(subject.number) // tf.maximum(count, 1)
        nothing = (tf.zeros([0]), tf.zeros([0], tf.int32), tf.zeros([0, positions]))
        logits, sequence, parts = in_chunks(self._integrals(subject), counts, sizes, nothing)
        logits = tf.reshape(logits, [count, len(self._points)])
        scores = tf.math.unsorted_segment_sum(parts, sequence, count)
        numbers = tf.reshape(subject.number, [count, positions])
        places = tf.where(numbers >= 0)
        return Effects(
            value=logits[:, 1],
            baseline=logits[:, 0],
            sequence=tf.cast(places[:, 0], tf.int32),
            number=tf.gather_nd(numbers, places),
            score=tf.gather_nd(scores, places),
        )

    def _integrals(self, subject):
        """Returns a function from a sequence and a range of points to logits, the sequence and parts of the scores."""
        lengths = subject.lengths()
        longest = tf.shape(subject.number)[-1]

        def some(sequence, first, last):
            inputs, number = subject.part(sequence, lengths[sequence])
            logits, scores = self._part(inputs, number, subject.place[sequence], first, last)
            scores = tf.pad(scores, [[0, 0], [0, longest - tf.shape(scores)[1]]])
            return logits, sequence[None], tf.reshape(scores, [1, -1])

        return some

    def _part(self, inputs, number, place, first, last):
        """Returns the logits at some points of the path of a sequence, and their part of the score of each token.

        The scores are `(1, length)`, or `(choices, length)`.
        """
        length = tf.shape(number)[-1]
        ids = tf.reshape(inputs["token_ids"], [-1, length])
        is_word = tf.reshape(number, [-1, length]) >= 0
        baseline = tf.cast(self._table(tf.where(is_word, self._replacement, ids)), tf.float32)
        way = tf.cast(self._table(ids), tf.float32) - baseline
        points = tf.constant(self._points)[first:last]
        shape = tf.concat([tf.shape(points), tf.shape(number)], 0)
        copies = {name: tf.broadcast_to(each, shape) for name, each in inputs.items()}
        vectors = baseline + points[:, None, None, None] * way
        flat = tf.reshape(vectors, [-1, length, way.shape[-1]])
        with tf.GradientTape() as tape:
            tape.watch(flat)
            logits = logits_at(self._model, self._output, {**copies, VECTORS: flat}, place)
        gradients = tf.reshape(tape.gradient(logits, flat), tf.shape(vectors))
        mean = tf.tensordot(tf.constant(self._weights)[first:last], gradients, 1)
        return logits, tf.reduce_sum(mean * way, -1)
