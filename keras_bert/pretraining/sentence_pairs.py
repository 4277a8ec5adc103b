"""Builds pairs of texts for next sentence prediction from documents. BERT, appendix A.2.

Half of the pairs are random, as in the paper. Unlike in Google's program, B is never drawn from A's document, and no
pair is labeled random because no text follows A.
"""

import bisect
import functools
from typing import NamedTuple

import numpy as np

from keras_bert.pretraining.packed_examples import PackedExamples, SpecialIds, empty_rows, put_texts
from keras_bert.pretraining.random_keys import make_keys, uniforms
from keras_bert.pretraining.token_store import spans
from keras_bert.text.packing import truncated_lengths

# Indices of the random numbers of a key: of the plan of a pair, of its random B, of truncation, and of the masks.
_SHORT, _TARGET, _CUT, _RANDOM, _DOCUMENT, _START, _TRIM_FIRST, _TRIM_SECOND, MASKING = range(9)


class PairPlan(NamedTuple):
    """The planned texts of examples: arrays `(examples,)`."""

    keys: np.ndarray  # Random keys.
    documents: np.ndarray  # Their indices in the corpus.
    first: np.ndarray  # Positions in the ids of the shard: A is from `first` to `middle`, B to `end`.
    middle: np.ndarray
    end: np.ndarray  # That of `middle` for a random B.
    wanted: np.ndarray  # Number of tokens of a random B; 0 if B follows A.
    dropped: int  # Number of single words that could not be split into A and a following B.


def plan_pairs(tokens, stretch, before, room, short_seq_prob, is_continuation, key):
    """Plans the pairs of a stretch of documents, see `stretches`, after `before` others of the corpus.

    `room` is the maximum number of tokens of a pair, `is_continuation` tells by id whether a token continues a word,
    `key` is the random key of run and duplicate.
    """
    low = stretch[0][1]
    high = stretch[-1][2]
    documents = [document for document, _, _ in stretch]
    segment_counts = [last - first for _, first, last in stretch]
    owners = np.repeat(documents, segment_counts)  # The document of each segment.
    keys = make_keys(*key, before + owners, np.arange(low, high) - tokens.documents[owners])
    planner = _StretchPlanner(
        ids=tokens.ids,
        places=tokens.segments[low : high + 1].tolist(),
        draws=uniforms(keys, _RANDOM + 1).tolist(),
        room=room,
        short_seq_prob=short_seq_prob,
        is_continuation=is_continuation,
    )
    for _, first, last in stretch:
        planner.add_document(first - low, last - low)
    begins, first, middle, end, wanted = np.array(planner.pairs, np.int64).reshape(-1, 5).T
    return PairPlan(
        keys=keys[begins],
        documents=before + owners[begins],
        first=first,
        middle=middle,
        end=end,
        wanted=wanted,
        dropped=planner.dropped,
    )


class _StretchPlanner:
    """Plans the pairs of a stretch of documents, segment by segment.

    Args:
        ids: array, the ids of the shard.
        places: list of int, where each segment of the stretch starts in the ids, and where the last one ends.
        draws: list with the random numbers of each segment, by `_SHORT` to `_RANDOM`.
        room, short_seq_prob, is_continuation: see `plan_pairs`.

    Attributes:
        pairs: list of (segment, first, middle, end, wanted), see `PairPlan`.
        dropped: int, see `PairPlan`.
    """

    def __init__(self, ids, places, draws, room, short_seq_prob, is_continuation):
        self._ids = ids
        self._places = places
        self._draws = draws
        self._room = room
        self._short_seq_prob = short_seq_prob
        self._is_continuation = is_continuation
        self.pairs = []
        self.dropped = 0

    def add_document(self, begin, stop):
        """Plans the pairs of the segments of a document, from `begin` to `stop`."""
        while begin < stop:
            begin = self._add_pair(begin, stop)

    def _add_pair(self, begin, stop):
        """Plans the pair that starts with a segment; returns the segment that the next pair starts with."""
        short, size, cut, other = self._draws[begin]
        places = self._places
        target = self._room
        if short < self._short_seq_prob:
            target = 2 + int(size * (self._room - 1))
        end = bisect.bisect_left(places, places[begin] + target, begin + 1, stop)
        split = begin + 1 + int(cut * (end - begin - 1))
        first = places[begin]
        middle = places[split]
        if other < 0.5:
            wanted = max(target - (middle - first), 1)
            self.pairs.append((begin, first, middle, middle, wanted))
            return split  # The text after A starts the next example.
        if split == end:
            # Differs from BERT: a single sentence is split between words; Google's program makes the pair random.
            middle = self._word_within(first, middle, cut)
        if middle is None:
            self.dropped += 1
        else:
            self.pairs.append((begin, first, middle, places[end], 0))
        return end

    @functools.cached_property
    def _words(self):
        """The positions of the words of the stretch in the ids."""
        start = self._places[0]
        ids = self._ids[start : self._places[-1]]
        return start + np.flatnonzero(~self._is_continuation[ids])

    def _word_within(self, first, last, draw):
        """Returns the position of a random word that starts after `first` and before `last`, or `None`."""
        low, high = np.searchsorted(self._words, [first + 1, last]).tolist()
        if low >= high:
            return None
        return int(self._words[low + int(draw * (high - low))])


def choose_others(plan, documents):
    """Draws, for each random B, a document other than A's, and a random number for the position in it."""
    is_random = plan.wanted > 0
    own = plan.documents[is_random]
    draws = uniforms(plan.keys[is_random], 2, first=_DOCUMENT)
    # Differs from BERT: never A's own document.
    other = (draws[:, 0] * (documents - 1)).astype(np.int64)
    return other + (other >= own), draws[:, 1]


class _PairTexts(NamedTuple):
    """Where the texts of pairs are in `ids`: arrays `(examples,)`."""

    ids: np.ndarray  # Of all texts.
    first: np.ndarray  # Positions of A.
    first_lengths: np.ndarray
    second: np.ndarray  # Positions of B.
    second_lengths: np.ndarray


def pack_pairs(tokens, plan, others, other_lengths, length, special):
    """Packs pairs into rows `[CLS] A [SEP] B [SEP]`, truncating long texts; `others` are the ids of all random B's."""
    special_ids = SpecialIds(*special)
    whole = _texts_of_pairs(tokens, plan, others, other_lengths)
    texts = _truncated(whole, plan.keys, room=length - 3)
    rows = np.arange(len(texts.first))
    lengths = texts.first_lengths + texts.second_lengths + 3
    ids = empty_rows(len(rows), length, special_ids)
    first_ids = texts.ids[spans(texts.first, texts.first_lengths)]
    put_texts(ids, np.ones_like(rows), texts.first_lengths, first_ids)
    ids[rows, texts.first_lengths + 1] = special_ids.separator
    second_ids = texts.ids[spans(texts.second, texts.second_lengths)]
    put_texts(ids, texts.first_lengths + 2, texts.second_lengths, second_ids)
    ids[rows, lengths - 1] = special_ids.separator
    lost = whole.first_lengths - texts.first_lengths + whole.second_lengths - texts.second_lengths
    return PackedExamples(
        token_ids=ids,
        first=texts.first_lengths + 2,
        lengths=lengths,
        is_random=plan.wanted > 0,
        keys=plan.keys,
        truncated=int(lost.sum()),
    )


def _texts_of_pairs(tokens, plan, others, other_lengths):
    """Returns the whole texts of pairs: those of the shard, and then all random B's."""
    is_random = plan.wanted > 0
    low = plan.first.min(initial=len(tokens.ids))
    high = plan.end.max(initial=0)
    second = plan.middle - low
    second[is_random] = high - low + np.cumsum(other_lengths) - other_lengths
    second_lengths = plan.end - plan.middle
    second_lengths[is_random] = other_lengths
    return _PairTexts(
        ids=np.concatenate([tokens.ids[low:high], others]).astype(np.int32),
        first=plan.first - low,
        first_lengths=plan.middle - plan.first,
        second=second,
        second_lengths=second_lengths,
    )


def _truncated(texts, keys, room):
    """Returns texts that have at most `room` tokens together, cut at their starts and ends."""
    kept_first, kept_second = truncated_lengths(texts.first_lengths, texts.second_lengths, room)
    first_lengths = kept_first.numpy()
    second_lengths = kept_second.numpy()
    # Differs from BERT: one random number per text sets the truncation at the start, not one per token.
    trims = uniforms(keys, 2, first=_TRIM_FIRST)
    first_trim = trims[:, 0] * (texts.first_lengths - first_lengths + 1)
    second_trim = trims[:, 1] * (texts.second_lengths - second_lengths + 1)
    return _PairTexts(
        ids=texts.ids,
        first=texts.first + first_trim.astype(np.int64),
        first_lengths=first_lengths,
        second=texts.second + second_trim.astype(np.int64),
        second_lengths=second_lengths,
    )
