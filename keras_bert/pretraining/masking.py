"""The masked LM task: selects positions to predict, and replaces their tokens. BERT, section 3.1, Task 1.

Random numbers are passed as arguments, so that they can be functions of the example.
"""

import dataclasses
import math

import numpy as np

from keras_bert.text.pieces import is_special
from keras_bert.text.vocabulary import Vocabulary


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
    _: dataclasses.KW_ONLY
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
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
        sum_of_shares = self.mask_share + self.random_share
        if min(self.mask_share, self.random_share) < 0 or sum_of_shares > 1 + 1e-6:
            raise ValueError(
                "`mask_share` and `random_share` must be at least 0, and their sum at most 1. "
                f"Received: mask_share={self.mask_share}, random_share={self.random_share}"
            )

    def predictions(self, length):
        """Returns the maximum number of predictions of an example."""
        return self.max_predictions or math.ceil(self.masked_lm_prob * length)


class Masker:
    """Masks the tokens of examples.

    Special and unused tokens are never masked or used as random replacements. The vocabulary must contain `[MASK]`.
    `noise` has arrays of uniform random numbers in [0, 1), float32, see `noise_shapes`. A call returns the masked
    `token_ids`, and sorted `positions`, their `labels` and `weights` (0 is padding), each `(batch, predictions)`.
    """

    def __init__(self, vocabulary, masking=None):
        vocabulary = Vocabulary(vocabulary)
        self.masking = masking or Masking()
        self._is_special = np.array([is_special(piece) for piece in vocabulary.pieces])
        self._mask = vocabulary.id("[MASK]")
        self._pad = vocabulary.id("[PAD]")
        # Differs from BERT: a random token is never special.
        self._ordinary = np.flatnonzero(~self._is_special).astype(np.int32)
        self._is_continuation = np.array(vocabulary.is_continuation)

    def noise_shapes(self, batch, length):
        """Returns the shapes of the noise for a batch."""
        predictions = self.masking.predictions(length)
        shapes = {
            "order": [batch, length],
            "kind": [batch, predictions],
            "piece": [batch, predictions],
        }
        if self.masking.max_ngram > 1:
            shapes["ngram"] = [batch, length]
        return shapes

    def __call__(self, token_ids, noise):
        length = token_ids.shape[1]
        predictions = self.masking.predictions(length)
        chosen = self._choose(token_ids, noise, predictions)
        places = _sorted_places(chosen, predictions)
        real = places < length
        positions = np.where(real, places, 0)
        labels = np.where(real, np.take_along_axis(token_ids, positions, 1), 0)
        changed = self._changed(labels, noise)
        masked = token_ids.copy()
        rows, _ = np.nonzero(real)
        masked[rows, places[real]] = changed[real]
        return {
            "token_ids": masked,
            "positions": positions,
            "labels": labels,
            "weights": real.astype(np.float32),
        }

    def _changed(self, labels, noise):
        """Returns what the predicted tokens become, `(batch, predictions)`: `[MASK]`, random tokens, or themselves."""
        numbers = (noise["piece"] * np.float32(len(self._ordinary))).astype(np.int32)
        random = self._ordinary[numbers]
        share = self.masking.mask_share
        changed = np.where(noise["kind"] < share + self.masking.random_share, random, labels)
        return np.where(noise["kind"] < share, np.int32(self._mask), changed)

    def _choose(self, token_ids, noise, predictions):
        """Selects the positions to predict, bool `(batch, length)`."""
        ordinary = ~self._is_special[token_ids]
        # Halves are rounded to even numbers: 0.15 of 190 is 28, as in Google's program.
        most = np.round((token_ids != self._pad).sum(1) * self.masking.masked_lm_prob).astype(int)
        most = np.clip(most, 1, predictions)
        if self.masking.whole_word or self.masking.max_ngram > 1:
            return self._choose_spans(token_ids, ordinary, noise, most)
        # The rank of each position in a random order, special ones last.
        order = np.where(ordinary, noise["order"], 2)
        rank = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1)
        return ordinary & (rank < most[:, None])

    def _choose_spans(self, token_ids, ordinary, noise, most):
        """Selects words or n-grams in random order, skipping those that do not fit or overlap a previous one."""
        follows = np.pad(ordinary, [(0, 0), (1, 0)])[:, :-1]
        begins = ordinary & ~(self._is_continuation[token_ids] & follows)
        ends = self._ends(begins, begins | ~ordinary, noise)
        # The first and last position of each word, in random order; other positions come last.
        firsts = np.argsort(np.where(begins, noise["order"], 2), axis=1, kind="stable")
        lasts = np.take_along_axis(ends, firsts, 1)
        words = begins.sum(1)
        place = np.arange(token_ids.shape[1])
        chosen = np.zeros_like(ordinary)
        left = most.copy()
        for rank in range(words.max(initial=0)):
            unfinished = (rank < words) & (left > 0)
            if not unfinished.any():
                break
            first = firsts[:, rank]
            last = lasts[:, rank]
            span = (place >= first[:, None]) & (place < last[:, None])
            fits = unfinished & (last - first <= left) & ~(span & chosen).any(1)
            chosen |= span & fits[:, None]
            left -= np.where(fits, last - first, 0)
        return chosen

    def _ends(self, begins, stops, noise):
        """Returns the end of the n-gram that starts at each position, `(batch, length)`."""
        length = begins.shape[1]
        longest = self.masking.max_ngram
        # Index of the n-th stop after a position: the number of stops up to it, plus n - 1.
        passed = np.cumsum(stops, axis=1)
        places = np.sort(np.where(stops, np.arange(length), length), axis=1)
        places = np.pad(places, [(0, 0), (0, longest)], constant_values=length)
        begins_or_end = np.pad(begins, [(0, 0), (0, 1)])
        end = np.take_along_axis(places, passed, 1)
        ends = end
        runs = self._runs(noise)
        for number in range(1, longest):
            is_continuation = np.take_along_axis(begins_or_end, end, 1) & (runs > number)
            further = np.take_along_axis(places, passed + number, 1)
            end = np.where(is_continuation, further, length)
            ends = np.where(is_continuation, further, ends)
        return ends

    def _runs(self, noise):
        """Draws the number of words of each n-gram, `(batch, length)`."""
        if self.masking.max_ngram == 1:
            return 1
        odds = np.cumsum(1 / np.arange(1, self.masking.max_ngram + 1))
        bounds = (odds / odds[-1]).astype(np.float32)
        return 1 + (noise["ngram"][..., None] >= bounds[:-1]).sum(-1)


def _sorted_places(chosen, count):
    """Returns the positions that are chosen in order, `(batch, count)`; the length stands for none."""
    length = chosen.shape[1]
    places = np.sort(np.where(chosen, np.arange(length, dtype=np.int32), length), axis=1)[:, :count]
    return np.pad(places, [(0, 0), (0, count - places.shape[1])], constant_values=length)
