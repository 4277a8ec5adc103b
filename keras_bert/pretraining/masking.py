"""The masked LM task: selects positions to predict, and replaces their tokens. BERT, section 3.1, Task 1.

Random numbers are passed as arguments, so that they can be functions of the example.
"""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from keras_bert.text.vocabulary import Vocabulary, is_special


@dataclasses.dataclass(frozen=True)
class Masking:
    """Masking settings. Defaults follow the paper.

    Args:
        masked_lm_prob: float, the share of positions to predict, of all tokens including special ones, as in Google's.
        max_predictions: int, maximum number of positions per example. Defaults to that share of the length, rounded up.
        whole_word: bool, whether to mask all tokens of a word together. Defaults to `False`.
        max_ngram: int, maximum number of consecutive words to mask together; n words have probability 1/n (normalized).
        mask_share: float, the share of predicted tokens that are replaced by `[MASK]`. Defaults to 0.8.
        random_share: float, the share replaced by a random ordinary token; the rest is unchanged. Defaults to 0.1.
    """

    masked_lm_prob: float = 0.15
    max_predictions: int | None = None
    whole_word: bool = False
    max_ngram: int = 1
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self):
        if not 0 < self.masked_lm_prob < 1:
            raise ValueError(
                f"`masked_lm_prob` must be between 0 and 1. Received: masked_lm_prob={self.masked_lm_prob}"
            )
        for name in ("max_predictions", "max_ngram"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {name}={getattr(self, name)}")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1 + 1e-6:
            raise ValueError(
                "`mask_share` and `random_share` must be at least 0, and their sum at most 1. "
                f"Received: mask_share={self.mask_share}, random_share={self.random_share}"
            )

    def predictions(self, length):
        """Returns the maximum number of predictions of an example."""
        return self.max_predictions or math.ceil(self.masked_lm_prob * length)


class Masker:
    """Masks the tokens of examples.

    Special and unused tokens are never masked or used as random replacements.

    Args:
        vocabulary: a path, a list of pieces or a `Vocabulary`. It must contain `[MASK]`.
        masking: a `Masking`.

    Call arguments:
        token_ids: int32 `(batch, length)`.
        noise: dict of uniform random numbers in [0, 1), see `noise_shapes`.

    Returns:
        dict: the masked `token_ids`; sorted `positions`, their `labels` and `weights` (0 is padding), each
        `(batch, predictions)`.
    """

    def __init__(self, vocabulary, masking=None):
        vocabulary, self.masking = Vocabulary(vocabulary), masking or Masking()
        special = [is_special(piece) for piece in vocabulary.pieces]
        self._mask = vocabulary.id("[MASK]")
        self._pad = vocabulary.id("[PAD]")
        with tf.init_scope(), tf.device("cpu"):
            # Differs from BERT: a random token is never special.
            self._ordinary = tf.constant(np.flatnonzero(~np.array(special)), tf.int32)
            self._is_special = tf.constant(special)
            self._is_continuation = tf.constant(vocabulary.is_continuation)

    def noise_shapes(self, batch, length):
        """Returns the shapes of the noise for a batch."""
        predictions = self.masking.predictions(length)
        shapes = {"order": [batch, length], "kind": [batch, predictions], "piece": [batch, predictions]}
        if self.masking.max_ngram > 1:
            shapes["ngram"] = [batch, length]
        return shapes

    def __call__(self, token_ids, noise):
        length = token_ids.shape[1]
        predictions = self.masking.predictions(length)
        chosen = self._choose(token_ids, noise, predictions)
        places = tf.sort(tf.where(chosen, tf.range(length), length), axis=1)[:, :predictions]
        places = tf.pad(places, [[0, 0], [0, max(predictions - length, 0)]], constant_values=length)
        real = places < length
        positions = tf.where(real, places, 0)
        labels = tf.where(real, tf.gather(token_ids, positions, batch_dims=1), 0)
        share = self.masking.mask_share
        random = tf.gather(self._ordinary, tf.cast(noise["piece"] * float(len(self._ordinary)), tf.int32))
        changed = tf.where(noise["kind"] < share + self.masking.random_share, random, labels)
        changed = tf.where(noise["kind"] < share, self._mask, changed)
        rows = tf.broadcast_to(tf.range(tf.shape(token_ids)[0])[:, None], tf.shape(places))
        masked = tf.tensor_scatter_nd_update(token_ids, tf.stack([rows[real], places[real]], -1), changed[real])
        return {"token_ids": masked, "positions": positions, "labels": labels, "weights": tf.cast(real, tf.float32)}

    def _choose(self, token_ids, noise, predictions):
        """Selects the positions to predict, bool `(batch, length)`."""
        ordinary = ~tf.gather(self._is_special, token_ids)
        # 64 bits, for the same rounding of halves as in Python: 0.15 of 190 is 28 in Google's program.
        real = tf.reduce_sum(tf.cast(token_ids != self._pad, tf.float64), axis=1)
        most = tf.cast(tf.round(real * self.masking.masked_lm_prob), tf.int32)
        most = tf.clip_by_value(most, 1, predictions)
        if self.masking.whole_word or self.masking.max_ngram > 1:
            return self._choose_spans(token_ids, ordinary, noise, most)
        # The rank of each position in a random order, special ones last.
        order = tf.where(ordinary, noise["order"], 2.0)
        rank = tf.argsort(tf.argsort(order, axis=1), axis=1)
        return ordinary & (rank < most[:, None])

    def _choose_spans(self, token_ids, ordinary, noise, most):
        """Selects words or n-grams in random order, skipping those that do not fit or overlap a previous one."""
        length = token_ids.shape[1]
        begins = ordinary & ~(tf.gather(self._is_continuation, token_ids) & tf.pad(ordinary, [[0, 0], [1, 0]])[:, :-1])
        ends = self._ends(token_ids, begins, begins | ~ordinary, noise)
        order = tf.argsort(tf.where(begins, noise["order"], 2.0), axis=1)
        firsts, lasts = order, tf.gather(ends, order, batch_dims=1)
        words = tf.reduce_sum(tf.cast(begins, tf.int32), axis=1)
        place = tf.range(length)[None]

        def unfinished(rank, chosen, left):
            return tf.reduce_any((rank < words) & (left > 0))

        def take(rank, chosen, left):
            first, last = firsts[:, rank], lasts[:, rank]
            span = (place >= first[:, None]) & (place < last[:, None])
            fits = (rank < words) & (last - first <= left) & ~tf.reduce_any(span & chosen, axis=1)
            return rank + 1, chosen | (span & fits[:, None]), left - tf.where(fits, last - first, 0)

        return tf.while_loop(unfinished, take, (0, tf.zeros_like(ordinary), most))[1]

    def _ends(self, token_ids, begins, stops, noise):
        """Returns the end of the n-gram that starts at each position, `(batch, length)`."""
        length = token_ids.shape[1]
        # Index of the n-th stop after a position: the number of stops up to it, plus n - 1.
        passed = tf.cumsum(tf.cast(stops, tf.int32), axis=1)
        stops = tf.sort(tf.where(stops, tf.range(length), length), axis=1)
        stops = tf.pad(stops, [[0, 0], [0, self.masking.max_ngram]], constant_values=length)
        begins = tf.pad(begins, [[0, 0], [0, 1]])
        ends = end = tf.gather(stops, passed, batch_dims=1)
        runs = self._runs(noise)
        for number in range(1, self.masking.max_ngram):
            is_continuation = tf.gather(begins, end, batch_dims=1) & (runs > number)
            further = tf.gather(stops, passed + number, batch_dims=1)
            end = tf.where(is_continuation, further, length)
            ends = tf.where(is_continuation, further, ends)
        return ends

    def _runs(self, noise):
        """Draws the number of words of each n-gram, `(batch, length)`."""
        if self.masking.max_ngram == 1:
            return 1
        odds = np.cumsum(1 / np.arange(1, self.masking.max_ngram + 1))
        bounds = (odds / odds[-1]).astype(np.float32)
        return 1 + tf.reduce_sum(tf.cast(noise["ngram"][..., None] >= bounds[:-1], tf.int32), axis=-1)
