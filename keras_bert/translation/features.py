"""Turns parallel texts into the token ids of an encoder-decoder."""

import numpy as np
import tensorflow as tf

from keras_bert.translation.data import drop


class TranslationFeatures:
    """Ids of pairs. Pairs with a side of more than `max_length` tokens, with `[END]`, are left out, with a warning.

    No side of `pairs` is blank.

    Attributes:
        pairs: the `Pairs` that are used.
        sources, labels: `tf.RaggedTensor`s of ids, each row ending with `[END]`.
        targets: the labels shifted right, as the decoder reads them: `[START]` and all but the last label.
    """

    def __init__(self, pairs, tokenizer, max_length: int):
        sources, labels = (tokenizer.with_end(texts) for texts in (pairs.sources, pairs.targets))
        is_long = np.maximum(*(ids.row_lengths().numpy() for ids in (sources, labels))) > max_length
        self.pairs = drop(pairs, is_long.tolist(), f"longer than {max_length} tokens")
        self.sources, self.labels = (tf.ragged.boolean_mask(ids, ~is_long) for ids in (sources, labels))
        starts = tf.fill([self.labels.nrows(), 1], tokenizer.start_id)
        self.targets = tf.concat([starts, self.labels[:, :-1]], axis=1)
