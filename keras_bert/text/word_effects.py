"""What the words of a text do to a logit: scores by leaving out each word.

Ids are replaced in the sequences that a model reads, never words in a text that would be split again; [CLS] and [SEP]
stay. All pieces of a word are replaced together.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.joins import Change

# In the place of the number of a word: nothing is replaced, and every word.
_NONE = -2
_ALL = -3
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
        tokens = self.lengths()
        if self.number.shape.rank > 2:  # Of all choices.
            tokens *= tf.shape(self.number)[1]
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
        self._model = model
        self._output = output
        self._replacement = replacement
        self._join = join

    def __call__(self, subject):
        """Returns the `Effects` of the words of a `Subject`."""
        sequence, number = _words_of_sequences(subject)
        whole, baseline, without = self._logits_without(subject, sequence, number)
        value = self._join.joined(whole, subject.row)
        row, number_in_text, copy = words_of_texts(tf.gather(subject.row, sequence), number)
        change = Change(text=row, copy=copy, window=sequence, logits=without)
        score = tf.gather(value, row) - self._join.changed(whole, subject.row, change)
        return Effects(
            value=value,
            baseline=self._join.joined(baseline, subject.row),
            row=row,
            number=number_in_text,
            score=score,
        )

    def _logits_without(self, subject, sequence, number):
        """Returns the logits of sequences as they are, without any word, and without each word of a sequence.

        The first two are `(sequences,)`; words are given by their sequences and numbers, `(words,)`.
        """
        count = tf.size(subject.row)
        every = tf.range(count)
        asked = tf.concat([tf.fill([count], _NONE), tf.fill([count], _ALL), number], 0)
        sequence_of_asked = tf.concat([every, every, sequence], 0)
        # What is asked of a sequence is computed together.
        order = tf.argsort(sequence_of_asked, stable=True)
        counts = tf.math.bincount(sequence_of_asked, minlength=count)
        in_order = self._logits(subject, tf.gather(asked, order), counts)
        logits = tf.gather(in_order, tf.argsort(order))
        return logits[:count], logits[count : 2 * count], logits[2 * count :]

    def _logits(self, subject, asked, counts):
        """Returns the logits without some words, `(asked,)`; `counts` of them are asked of each sequence, in order."""
        lengths = subject.lengths()
        begins = tf.cumsum(counts, exclusive=True)

        def some(sequence, first, last):
            inputs, number = subject.part(sequence, lengths[sequence])
            begin = begins[sequence]
            asked_now = asked[begin + first : begin + last]
            copies = replaced(inputs, number, asked_now, self._replacement)
            return logits_at(self._model, self._output, copies, subject.place[sequence])

        return in_chunks(some, counts, subject.rows_at_once(), tf.zeros([0]))


def _words_of_sequences(subject):
    """Returns the sequence and the number of each word that a sequence has, int32 `(words,)` each, in order."""
    numbers = tf.reshape(subject.number, [tf.size(subject.row), -1])
    places = tf.where(numbers >= 0)
    highest = tf.reduce_max(tf.pad(numbers, [[0, 0], [0, 1]], constant_values=0))
    most = tf.cast(highest + 1, tf.int64)
    number_at_place = tf.cast(tf.gather_nd(numbers, places), tf.int64)
    keys, _ = tf.unique(places[:, 0] * most + number_at_place)
    return tf.cast(keys // most, tf.int32), tf.cast(keys % most, tf.int32)


def words_of_texts(row, number):
    """Returns the text and the number of each word, in order, and the place there of the words of all sequences.

    Words are given by their texts and their numbers, int32 `(words,)`, and may be in several sequences of a text.
    """
    most = tf.reduce_max(tf.concat([[0], number], 0)) + 1
    key = row * most + number
    distinct, _ = tf.unique(key)
    known = tf.sort(distinct)
    return known // most, known % most, tf.searchsorted(known, key)


def replaced(inputs, number, asked, replacement):
    """Returns the inputs of copies of a sequence, `(asked, ...)`, each without the word of a number."""
    asked_of_copy = tf.reshape(asked, [-1] + [1] * number.shape.rank)
    is_replaced = (number == asked_of_copy) | ((asked_of_copy == _ALL) & (number >= 0))
    copies = {name: tf.broadcast_to(ids, tf.shape(is_replaced)) for name, ids in inputs.items()}
    copies["token_ids"] = tf.where(is_replaced, replacement, copies["token_ids"])
    return copies


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

    def join(before, after):
        return tf.concat([before, after], 0)

    def add(number, done):
        more = some(sequence[number], first[number], last[number])
        return number + 1, tf.nest.map_structure(join, done, more)

    shapes = tf.nest.map_structure(lambda value: tf.TensorShape([None, *value.shape[1:]]), nothing)
    _, done = tf.while_loop(
        lambda number, _: number < tf.size(sequence),
        add,
        (0, nothing),
        shape_invariants=(tf.TensorShape([]), shapes),
        parallel_iterations=1,
    )
    return done
