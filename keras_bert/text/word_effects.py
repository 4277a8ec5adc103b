"""What the words of a text do to a logit: scores by leaving out each word.

Ids are replaced in the sequences that a model reads, never words in a text that would be split again; [CLS] and [SEP]
stay. All pieces of a word are replaced together.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.joins import Change

_NONE, _ALL = -2, -3  # No number of a word: nothing is replaced, and every word.
_TOKENS = 8192  # Tokens to compute at once; more would only need more memory.


class Subject(NamedTuple):
    """The logits to explain, one of each sequence, and the words of the sequences."""

    inputs: dict  # The inputs of the model, int32 `(sequences, [choices,] length)`.
    number: tf.Tensor  # The number of the word at each position, of the same shape.
    row: tf.Tensor  # The text of each sequence, int32 `(sequences,)`, whose logits are joined, see `text.joins`.
    place: tf.Tensor  # The place of each logit in the output of its sequence, int32 `(sequences, axes)`.

    def lengths(self):
        """Returns the number of tokens of each sequence, of several choices that of the longest one."""
        lengths = tf.reduce_sum(self.inputs["padding_mask"], -1)
        if lengths.shape.rank > 1:
            lengths = tf.reduce_max(lengths, 1)
        return tf.maximum(lengths, 1)

    def part(self, sequence, length):
        """Returns the inputs and the numbers of the words of a sequence, without padding."""
        inputs = {name: ids[sequence, ..., :length] for name, ids in self.inputs.items()}
        return inputs, self.number[sequence, ..., :length]

    def rows_at_once(self):
        """Returns how many rows like each sequence to compute at once, to limit memory."""
        several = self.number.shape.rank > 2
        tokens = self.lengths() * (tf.shape(self.number)[1] if several else 1)
        return tf.maximum(1, _TOKENS // tokens)


class Effects(NamedTuple):
    """What words do to the logits of texts."""

    value: tf.Tensor  # (texts,): the logit.
    baseline: tf.Tensor  # (texts,): the logit without any word.
    row: tf.Tensor  # (scores,): the text.
    number: tf.Tensor  # (scores,): of a word, which may have several scores, whose sum counts.
    score: tf.Tensor  # (scores,)


class LeaveOneOut:
    """What is missing of a logit without a word: its ids are replaced in each sequence that has it.

    Args:
        model: a model from a builder.
        output: str, the output with the logits.
        replacement: int, the id in place of each of the word's ids.
        join: how the logits of windows are joined, see `text.joins`.
    """

    def __init__(self, model, output, replacement, join):
        self._model, self._output, self._replacement, self._join = model, output, replacement, join

    def __call__(self, subject):
        sequence, number = _present(subject)
        count = tf.size(subject.row)
        every = tf.range(count)
        asked = tf.concat([tf.fill([count], _NONE), tf.fill([count], _ALL), number], 0)
        sequences = tf.concat([every, every, sequence], 0)
        order = tf.argsort(sequences, stable=True)
        logits = self._logits(subject, tf.gather(asked, order), tf.math.bincount(sequences, minlength=count))
        logits = tf.gather(logits, tf.argsort(order))
        whole, baseline, without = logits[:count], logits[count : 2 * count], logits[2 * count :]
        value = self._join.joined(whole, subject.row)
        row, number, copy = words_of_texts(tf.gather(subject.row, sequence), number)
        score = tf.gather(value, row) - self._join.changed(whole, subject.row, Change(row, copy, sequence, without))
        return Effects(value, self._join.joined(baseline, subject.row), row, number, score)

    def _logits(self, subject, asked, counts):
        """Returns the logits without some words, `(asked,)`; `counts` of them are asked of each sequence, in order."""
        lengths = subject.lengths()
        begins = tf.cumsum(counts, exclusive=True)

        def some(sequence, first, last):
            inputs, number = subject.part(sequence, lengths[sequence])
            begin = begins[sequence]
            inputs = replaced(inputs, number, asked[begin + first : begin + last], self._replacement)
            return logits_at(self._model, self._output, inputs, subject.place[sequence])

        return in_chunks(some, counts, subject.rows_at_once(), tf.zeros([0]))


def _present(subject):
    """Returns the sequences and the numbers of the words of each sequence, int32 `(words,)`, in order."""
    numbers = tf.reshape(subject.number, [tf.size(subject.row), -1])
    places = tf.where(numbers >= 0)
    most = tf.cast(tf.reduce_max(tf.pad(numbers, [[0, 0], [0, 1]], constant_values=0)) + 1, tf.int64)
    keys = tf.unique(places[:, 0] * most + tf.cast(tf.gather_nd(numbers, places), tf.int64))[0]
    return tf.cast(keys // most, tf.int32), tf.cast(keys % most, tf.int32)


def words_of_texts(row, number):
    """Returns the text and the number of each word, in order, and the place there of the words of all sequences.

    Words are given by their texts and their numbers, int32 `(words,)`, and may be in several sequences of a text.
    """
    most = tf.reduce_max(tf.concat([[0], number], 0)) + 1
    key = row * most + number
    known = tf.sort(tf.unique(key)[0])
    return known // most, known % most, tf.searchsorted(known, key)


def replaced(inputs, number, asked, replacement):
    """Returns the inputs of copies of a sequence, `(asked, ...)`, each without the word of a number."""
    asked = tf.reshape(asked, [-1] + [1] * number.shape.rank)
    is_replaced = (number == asked) | ((asked == _ALL) & (number >= 0))
    copies = {name: tf.broadcast_to(ids, tf.shape(is_replaced)) for name, ids in inputs.items()}
    return {**copies, "token_ids": tf.where(is_replaced, replacement, copies["token_ids"])}


def logits_at(model, output, inputs, place):
    """Returns the logits of copies of a sequence at a place, float32 `(copies,)`."""
    logits = tf.cast(model(inputs, training=False)[output], tf.float32)
    places = tf.broadcast_to(place, [tf.shape(logits)[0], tf.size(place)])
    return tf.gather_nd(logits, places, batch_dims=1)


def in_chunks(some, counts, sizes, nothing):
    """Returns what is computed of all sequences, in order, a few rows of one sequence at a time.

    Args:
        some: function from a sequence and the range of its rows to compute, `first` and `last`, to tensors.
        counts: int32 `(sequences,)`, how many rows there are of each sequence.
        sizes: int32 `(sequences,)`, how many of them to compute at once.
        nothing: the tensors that `some` returns, with no rows.

    Returns:
        The tensors of all calls of `some`, joined.
    """
    chunks = (counts + sizes - 1) // sizes
    sequence = tf.repeat(tf.range(tf.size(counts)), chunks)
    index = tf.ragged.range(chunks).values
    first = index * tf.gather(sizes, sequence)
    last = tf.minimum(first + tf.gather(sizes, sequence), tf.gather(counts, sequence))

    def add(number, done):
        found = some(sequence[number], first[number], last[number])
        return number + 1, tf.nest.map_structure(lambda before, more: tf.concat([before, more], 0), done, found)

    shapes = tf.nest.map_structure(lambda value: tf.TensorShape([None, *value.shape[1:]]), nothing)
    _, done = tf.while_loop(
        lambda number, _: number < tf.size(sequence),
        add,
        (0, nothing),
        shape_invariants=(tf.TensorShape([]), shapes),
        parallel_iterations=1,
    )
    return done
