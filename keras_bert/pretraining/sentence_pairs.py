"""Builds examples from documents: pairs for next sentence prediction, or full rows without it. BERT, appendix A.2.

Half of the pairs are random, as in the paper. Unlike in Google's program, B is never drawn from A's document, and no
pair is labeled random because no text follows A.
"""

import bisect
from typing import NamedTuple

import numpy as np

from keras_bert.pretraining.token_store import spans
from keras_bert.text.packing import truncated_lengths

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # Of SplitMix64 (Steele et al., 2014).
# Indices of the random numbers of a key.
_SHORT, _TARGET, _CUT, _RANDOM, _DOCUMENT, _START, _TRIM_FIRST, _TRIM_SECOND, MASKING = range(9)


class Plan(NamedTuple):
    """The planned texts of examples: arrays `(examples,)`."""

    keys: np.ndarray  # Random keys.
    documents: np.ndarray  # Their indices in the corpus.
    first: np.ndarray  # Positions in the ids of the shard: A is from `first` to `middle`, B to `end`.
    middle: np.ndarray
    end: np.ndarray  # That of `middle` for a random B.
    wanted: np.ndarray  # Number of tokens of a random B; 0 if B follows A.
    dropped: int  # Number of single words that could not be split into A and a following B.


class Examples(NamedTuple):
    """Examples as arrays, `(examples,)` unless noted."""

    token_ids: np.ndarray  # `(examples, length)`.
    first: np.ndarray  # Length of `[CLS] A [SEP]`.
    lengths: np.ndarray  # Number of tokens.
    is_random: np.ndarray  # Whether B is random.
    keys: np.ndarray  # Random keys.
    truncated: int  # Number of truncated tokens.


def make_keys(*parts):
    """Returns a uint64 key for each combination of integers, which are broadcast: random, whatever their order."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = _mix(key ^ np.asarray(part, np.uint64))
    return key


def uniforms(keys, count, first=0, dtype=np.float64):
    """Returns `count` numbers in [0, 1) for each key, `(*keys, count)`, starting at index `first`."""
    draws = _mix(keys[..., None] + np.arange(first + 1, first + count + 1, dtype=np.uint64) * _GOLDEN)
    bits = np.finfo(dtype).nmant + 1
    return (draws >> np.uint64(64 - bits)).astype(dtype) * dtype(2.0**-bits)


def _mix(value):
    value = value + _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def plan_pairs(tokens, stretch, before, room, short_seq_prob, is_continuation, key):
    """Plans the pairs of a stretch of documents, see `stretches`, after `before` others of the corpus.

    `room` is the maximum number of tokens of a pair, `is_continuation` tells by id whether a token continues a word,
    `key` is the random key of run and duplicate.
    """
    low, high = stretch[0][1], stretch[-1][2]
    places = tokens.segments[low : high + 1].tolist()
    owners = np.repeat([document for document, _, _ in stretch], [last - first for _, first, last in stretch])
    keys = make_keys(*key, before + owners, np.arange(low, high) - tokens.documents[owners])
    draws = uniforms(keys, _RANDOM + 1).tolist()
    pairs, dropped, words = [], 0, None
    for _, begin, stop in stretch:
        begin, stop = begin - low, stop - low
        while begin < stop:
            short, size, cut, other = draws[begin]
            target = room if short >= short_seq_prob else 2 + int(size * (room - 1))
            end = bisect.bisect_left(places, places[begin] + target, begin + 1, stop)
            split = begin + 1 + int(cut * (end - begin - 1))
            first, middle = places[begin], places[split]
            if other < 0.5:
                pairs.append((begin, first, middle, middle, max(target - (middle - first), 1)))
                begin = split  # The text after A starts the next example.
                continue
            if split == end:
                # Differs from BERT: a single sentence is split between words; Google's program makes the pair random.
                if words is None:
                    words = places[0] + np.flatnonzero(~is_continuation[tokens.ids[places[0] : places[-1]]])
                middle = _word_within(words, first, middle, cut)
            if middle is None:
                dropped += 1
            else:
                pairs.append((begin, first, middle, places[end], 0))
            begin = end
    begins, first, middle, end, wanted = np.array(pairs, np.int64).reshape(-1, 5).T
    return Plan(keys[begins], before + owners[begins], first, middle, end, wanted, dropped)


def _word_within(words, first, last, draw):
    """Returns the position of a random word that starts after `first` and before `last`, or `None`."""
    low, high = np.searchsorted(words, [first + 1, last]).tolist()
    return int(words[low + int(draw * (high - low))]) if low < high else None


def choose_others(plan, documents):
    """Draws, for each random B, a document other than A's, and a random number for the position in it."""
    own = plan.documents[plan.wanted > 0]
    draws = uniforms(plan.keys[plan.wanted > 0], 2, first=_DOCUMENT)
    # Differs from BERT: never A's own document.
    other = (draws[:, 0] * (documents - 1)).astype(np.int64)
    return other + (other >= own), draws[:, 1]


def pack_rows(tokens, all_stretches, length, special, key, cut=0, special_tokens=True):
    """Fills rows `[CLS] text [SEP]` completely with the text of a shard, with `[SEP]` between documents.

    `special` are the ids of `[CLS]`, `[SEP]` and `[PAD]`; without `special_tokens`, rows contain only text. `key` is
    the random key of run, duplicate and shard. A first row of only `cut` tokens shifts the following rows. Yields
    `Examples`; the last row is padded, and with `cut` also the first.
    """
    start, separator, pad = special
    border = int(special_tokens)
    room, count = length - 2 * border, 0

    def examples(rows):
        """`rows`: a list of arrays of at most `room` ids."""
        nonlocal count
        lengths = np.array([len(row) for row in rows]) + 2 * border
        ids, numbers = _empty_rows(len(rows), length, start, pad), np.arange(len(rows))
        _put(ids, np.full_like(numbers, border), lengths - 2 * border, np.concatenate(rows))
        if special_tokens:
            ids[numbers, lengths - 1] = separator
        keys = make_keys(*key, count + numbers)
        count += len(rows)
        return Examples(ids, lengths, lengths, np.zeros(len(rows), bool), keys, 0)

    rest = np.zeros(0, np.int32)
    for stretch in all_stretches:
        parts = [rest]
        for document, first, last in stretch:
            parts.append(tokens.ids[tokens.segments[first] : tokens.segments[last]])
            if special_tokens and last == tokens.documents[document + 1]:
                parts.append([separator])
        text = np.concatenate(parts).astype(np.int32)
        cut = cut if cut < len(text) else 0
        rows = [text[:cut]] if cut else []
        full = (len(text) - cut) // room * room + cut
        rows += list(text[cut:full].reshape(-1, room))
        rest, cut = text[full:], 0
        if rows:
            yield examples(rows)
    if special_tokens and len(rest) and rest[-1] == separator:
        rest = rest[:-1]
    if len(rest):
        yield examples([rest])


def pack_pairs(tokens, plan, others, other_lengths, length, special):
    """Packs pairs into rows `[CLS] A [SEP] B [SEP]`, truncating long texts; `others` are the ids of all random B's."""
    is_random = plan.wanted > 0
    low, high = plan.first.min(initial=len(tokens.ids)), plan.end.max(initial=0)
    pool = np.concatenate([tokens.ids[low:high], others]).astype(np.int32)
    first, second = plan.first - low, plan.middle - low
    second[is_random] = high - low + np.cumsum(other_lengths) - other_lengths
    first_lengths, second_lengths = plan.middle - plan.first, plan.end - plan.middle
    second_lengths[is_random] = other_lengths
    kept = truncated_lengths(first_lengths, second_lengths, length - 3)
    kept_first, kept_second = (lengths.numpy() for lengths in kept)
    lost_first, lost_second = first_lengths - kept_first, second_lengths - kept_second
    # Differs from BERT: one random number per text sets the truncation at the start, not one per token.
    trims = uniforms(plan.keys, 2, first=_TRIM_FIRST)
    first = first + (trims[:, 0] * (lost_first + 1)).astype(np.int64)
    second = second + (trims[:, 1] * (lost_second + 1)).astype(np.int64)

    start, separator, pad = special
    ids, rows = _empty_rows(len(first), length, start, pad), np.arange(len(first))
    _put(ids, np.ones_like(rows), kept_first, pool[spans(first, kept_first)])
    ids[rows, kept_first + 1] = separator
    _put(ids, kept_first + 2, kept_second, pool[spans(second, kept_second)])
    lengths = kept_first + kept_second + 3
    ids[rows, lengths - 1] = separator
    return Examples(ids, kept_first + 2, lengths, is_random, plan.keys, int((lost_first + lost_second).sum()))


def _empty_rows(count, length, start, pad):
    """Returns rows of `[CLS]` and padding."""
    ids = np.full((count, length), pad, np.int32)
    ids[:, 0] = start
    return ids


def _put(ids, columns, lengths, values):
    """Writes the concatenated `values`, `lengths` of them per row, starting at each row's column."""
    ids[np.repeat(np.arange(len(ids)), lengths), spans(columns, lengths)] = values
