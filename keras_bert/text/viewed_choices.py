"""Long texts with choices in windows: each window of a text is packed with every choice."""

import tensorflow as tf

from keras_bert.text.packing import cut, unpadded
from keras_bert.text.viewed_texts import ViewedRows, rooms_behind


class ViewedChoices(ViewedRows):
    """Texts with choices, as windows of the text that are the same for all of its choices.

    Of a choice, at most half of the room is read, or more where the text leaves it. A choice without tokens is absent:
    its `padding_mask` is 0 everywhere.

    Args:
        preprocessor: `TextPreprocessor`.
        reading: `SlidingWindows`.
        tokens: ragged ids `(texts, tokens)`.
        choices: ragged ids `(texts * choices, tokens)`, as many choices of each text.
        count: int, the number of choices of a text.
        offsets: as in `ViewedTexts`.
    """

    def __init__(self, preprocessor, reading, tokens, choices, count, offsets=None):
        packing = preprocessor.packing
        room = packing.room(pair=True)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        self._count = count
        self._limits = tf.repeat(tf.maximum(room // 2, room - lengths), count)
        self._choices = cut(choices, self._limits)
        self._taken = self._longest_of_text(self._choices)
        views = reading.views(lengths, rooms_behind(lengths, self._taken, room))
        left_out = self._longest_of_text(choices) - self._taken
        super().__init__(packing, views, tokens, lengths, offsets=offsets, left_out=left_out)

    def _longest_of_text(self, choices):
        """Returns the number of tokens of the longest choice of each text."""
        lengths = tf.cast(choices.row_lengths(), tf.int32)
        return tf.reduce_max(tf.reshape(lengths, [-1, self._count]), 1)

    def packed(self, first=0, last=None):
        """Returns the model inputs of a range of views, `(views, choices, length)`."""
        return self._pack_views(self._part(first, last), self._tokens, self._choices)

    def packed_values(self, of_texts, of_choices):
        """Packs other numbers than the ids of the tokens, ragged ones of the texts and of the choices, in their places.

        Returns the numbers, int32 `(views, choices, length)`, with the ids of special tokens between them.
        """
        packed = self._pack_views(self.views, of_texts, cut(of_choices, self._limits))
        return packed["token_ids"]

    def _pack_views(self, views, of_texts, of_choices):
        """Returns the model inputs of some views, each with all choices of its text, `(views, choices, length)`."""
        tokens = views.take(of_texts)
        numbers = views.row[:, tf.newaxis] * self._count + tf.range(self._count)
        choices = tf.gather(of_choices, tf.reshape(numbers, [-1]))
        each = tf.repeat(tf.range(tf.size(views.row)), self._count)
        packed = self._packing.pack(tf.gather(tokens, each), choices)
        is_there = choices.row_lengths() > 0
        packed["padding_mask"] = tf.where(is_there[:, tf.newaxis], packed["padding_mask"], 0)
        shape = [-1, self._count, tf.shape(packed["token_ids"])[1]]
        return {name: tf.reshape(ids, shape) for name, ids in packed.items()}

    def ragged_parts(self, first=0, last=None):
        """Same as for texts: each part is `(views * choices, tokens)`."""
        for begin, end in self._ranges(first, last):
            sequences = {}
            for name, ids in self.packed(begin, end).items():
                sequences[name] = tf.reshape(ids, [-1, tf.shape(ids)[-1]])
            yield unpadded(sequences)

    def _lengths_of_others(self):
        return self._taken + self._packing.sequence_length - self._packing.room(pair=True)
