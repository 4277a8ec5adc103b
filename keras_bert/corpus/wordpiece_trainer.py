"""Learns a WordPiece vocabulary from word counts, minimizing the number of pieces of the corpus.

See Wu et al., 2016, section 4.1. Words are split greedily, longest match first. Does not use TensorFlow.
"""

import collections
import dataclasses
import heapq
import itertools
import logging
from collections.abc import Callable
from typing import Any

from keras_bert.checks import check_count
from keras_bert.text.pieces import BYTES, CONTINUATION, REVERSIBLE, WORD_START
from keras_bert.text.tokenizer_options import LONGEST_WORD
from keras_bert.text.vocabulary import Vocabulary, check_extendable, extend, unused_ids

_LOG = logging.getLogger("keras_bert")
# Prefix of every word, so that "a" at the start of a word and "a" within one are different strings.
_BEGIN = "\0"
# The vocabulary size of each round as a share of the final size; the next round removes any excess.
_GOALS = (0.25, 0.5, 0.75, 1, 1.25, 1.25, 1.12, 1.06, 1.03, 1.015, 1.008, 1)
# Limits on time and memory; the most frequent words represent the rest.
_MOST_WORDS = 1_000_000
_MOST_CANDIDATES = 1_000_000


def learn_vocabulary(
    counts: Any,
    vocab_size: int,
    *,
    unused: int = 99,
    min_count: int = 2,
    alphabet_limit: int = 1000,
    reversible: bool = False,
    progress: Callable | None = None,
) -> Vocabulary:
    """Learns a vocabulary of `vocab_size` pieces, or fewer, with a warning, if the corpus is too small.

    Each round computes how many fewer pieces the corpus would need with each candidate piece, and how many more without
    each current piece. The best candidates are added, the worst pieces removed. The result depends only on the counts.

    Args:
        counts: dict of word counts, see `count_words`.
        vocab_size: int, the number of pieces, including special ones. A small corpus may give fewer: special pieces,
            the alphabet, and the words that occur at least `min_count` times.
        unused: int, the number of `[unused1]`, ... after `[PAD]`. Defaults to 99, which gives `[UNK]`, `[CLS]`,
            `[SEP]` and `[MASK]` Google's ids, 100 to 103.
        min_count: int, minimum count of the words from which pieces are learned. Defaults to 2.
        alphabet_limit: int, the number of characters to cover; words with rarer ones are `[UNK]`. Defaults to 1000.
        reversible: bool, whether the counts are of marked words, see `count_words`: the special pieces are then those
            of `LosslessTokenizer`, which writes rare characters as bytes. Defaults to `False`.
        progress: function, called with a line of text after each round.

    Returns:
        A `Vocabulary`: special pieces, the alphabet, and the other pieces from most to least useful.
    """
    check_count("unused", unused, 0)
    check_count("min_count", min_count)
    check_count("alphabet_limit", alphabet_limit)
    if reversible:
        marked = next((word for word in counts if WORD_START in word[1:]), None)
        if marked is not None:
            raise ValueError(
                f"`counts` must have {WORD_START!r} only at the start, see `count_words`. Received: {marked!r}"
            )
        # Two tokens for each character; the others are written as bytes.
        most = (vocab_size - len(REVERSIBLE) - len(BYTES) - 1) // 2
        alphabet_limit = min(alphabet_limit, max(1, most))
    words = _ordered_words(counts, alphabet_limit)
    alphabet = {character for word, _ in words for character in (word[:2], *word[2:])}
    special = ["[PAD]", *(f"[unused{index}]" for index in range(1, unused + 1)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if reversible:
        # Any character may start a piece or continue one in another text.
        characters = {character[-1] for character in alphabet} - {WORD_START}
        alphabet = {_BEGIN + WORD_START, *characters, *(_BEGIN + character for character in characters)}
        special = [*REVERSIBLE, *BYTES]
    givers = sum(count >= min_count for word, count in words if word not in alphabet)
    size = _size(vocab_size, len(special), len(alphabet), givers, min_count) - len(special)
    pieces, losses = _grow_and_prune(words[:_MOST_WORDS], alphabet, size, min_count, progress)
    # A small corpus: fill up with whole words, most frequent first.
    missing = (word for word, _ in words if word not in pieces)
    pieces.update(itertools.islice(missing, size - len(pieces)))
    learned = sorted(pieces - alphabet, key=lambda piece: (-losses.get(piece, 0), piece))
    ordered = [*sorted(alphabet, key=lambda piece: (piece[0] != _BEGIN, piece)), *learned]
    return Vocabulary([*special, *map(_public, ordered)])


def extend_vocabulary(
    counts: Any, vocabulary: Any, *, vocab_size: int | None = None, min_count: int = 2, progress: Callable | None = None
) -> Vocabulary:
    """Adds the pieces to a vocabulary without which a corpus would need the most more tokens.

    They are learned as by `learn_vocabulary`, beside the pieces that exist and keep their ids, and take the place of
    `[unused]` ones first. Words with characters that the vocabulary lacks are left out.

    Args:
        counts: dict of word counts, see `count_words`.
        vocabulary: a path, a list of pieces or a `Vocabulary`.
        vocab_size: int, the number of pieces, fewer if the corpus is too small. Defaults to that of `vocabulary`, whose
            unused pieces are then replaced.
        min_count: int, minimum count of the words from which pieces are learned. Defaults to 2.
        progress: function, called with a line of text after each round.

    Returns:
        A `Vocabulary`; the new pieces are in the order of their use, the most useful first.
    """
    check_count("min_count", min_count)
    vocabulary = Vocabulary(vocabulary)
    check_extendable(vocabulary)
    unused, vocab_size = len(unused_ids(vocabulary)), len(vocabulary) if vocab_size is None else vocab_size
    if vocab_size <= len(vocabulary) - unused:
        raise ValueError(
            f"`vocab_size` must be at least {len(vocabulary) - unused + 1}: {vocabulary.source} has "
            f"{len(vocabulary):,} pieces, and {unused} of them are unused. Received: vocab_size={vocab_size}"
        )
    existing = set(map(_private, vocabulary.wordpieces))
    words = [(_BEGIN + word, count) for word, count in counts.items() if len(word) <= LONGEST_WORD]
    words = [(word, count) for word, count in sorted(words, key=_rank) if existing.issuperset((word[:2], *word[2:]))]
    if not words:
        raise ValueError(
            f"`counts` has no word of the characters of {vocabulary.source}. Expected text of its language"
        )
    size = len(existing) + vocab_size - len(vocabulary) + unused
    pieces, losses = _grow_and_prune(words[:_MOST_WORDS], existing, size, min_count, progress, len(existing))
    learned = sorted(pieces - existing, key=lambda piece: (-losses[piece], piece))
    extended = extend(vocabulary, list(map(_public, learned)))
    if len(extended) < vocab_size:
        _LOG.warning(
            f"the corpus gives only {len(extended):,} tokens instead of {vocab_size:,}. Add text or lower the minimum "
            f"count, which is {min_count}"
        )
    return extended


def _size(vocab_size, special, alphabet, words, min_count):
    """Returns the requested number of pieces, limited to what the corpus can give."""
    parts = f"{special} special tokens, {alphabet:,} of the alphabet"
    if vocab_size < special + alphabet:
        raise ValueError(
            f"`vocab_size` must be at least {special + alphabet}: {parts}. Received: vocab_size={vocab_size}. "
            "Lower `alphabet_limit` or `unused`, or ask for more"
        )
    most = special + alphabet + words
    if vocab_size > most:
        _LOG.warning(
            f"the corpus gives a vocabulary of only {most:,} tokens instead of {vocab_size:,}: {parts} and {words:,} "
            f"longer words that occur at least {min_count} times. Add text or lower the minimum count"
        )
    return min(vocab_size, most)


def _ordered_words(counts, alphabet_limit):
    """Returns `(word, count)` by descending count, without words that are too long or contain rare characters."""
    words = sorted(((word, count) for word, count in counts.items() if len(word) <= LONGEST_WORD), key=_rank)
    if not words:
        raise ValueError("`counts` is empty. Expected a corpus with words")
    characters = collections.Counter()
    for word, count in words:
        for character in word:
            characters[character] += count
    kept = {character for character, _ in sorted(characters.items(), key=_rank)[:alphabet_limit]}
    words = [(_BEGIN + word, count) for word, count in words if kept.issuperset(word)]
    if not words:
        raise ValueError(f"`alphabet_limit` leaves no word. Received: alphabet_limit={alphabet_limit}")
    return words


def _rank(item):
    return -item[1], item[0]


def _grow_and_prune(words, alphabet, size, min_count, progress=None, kept=0):
    """Returns at most `size` pieces, including the alphabet, and the cost of removing each; goals are beyond `kept`."""
    pieces, total = set(alphabet), sum(count for _, count in words)
    progress = progress or (lambda line: None)
    for number, goal in enumerate(_GOALS, 1):
        losses, gains, used = _survey(words, pieces, min_count)
        progress(f"round {number} of {len(_GOALS)}: {len(pieces):,} tokens, {used / total:.4f} tokens per word")
        pieces = _best(losses, alphabet, size)
        further = ((piece, gain) for piece, gain in gains.items() if gain > 0)
        added = heapq.nsmallest(max(0, kept + int(goal * (size - kept)) - len(pieces)), further, key=_rank)
        pieces.update(piece for piece, _ in added)
    losses, _, _ = _survey(words, pieces, min_count)
    return _best(losses, alphabet, size), losses


def _best(losses, alphabet, size):
    """Returns the alphabet and the best of the useful pieces."""
    useful = ((piece, loss) for piece, loss in losses.items() if loss > 0 and piece not in alphabet)
    return alphabet.union(piece for piece, _ in heapq.nsmallest(size - len(alphabet), useful, key=_rank))


def _survey(words, pieces, min_count):
    """Counts how many more pieces the corpus needs without each of `pieces`, how many fewer with each candidate, and
    how many it needs now."""
    losses, gains, used, floor = dict.fromkeys(pieces, 0), {}, 0, 1
    beginnings = _beginnings(pieces)
    for word, count in words:
        longest, second = _matches(word, beginnings)
        rest = _pieces_from(longest)
        used += count * rest[0]
        start = 0
        while start < len(word):
            end, other = longest[start], second[start]
            if other:
                losses[word[start:end]] += count * (rest[other] - rest[end])
            for place in range(end + 1, len(word) + 1):
                piece = word[start:place]
                if piece not in gains and count < min_count:
                    break  # No frequent word has this candidate, so none has a longer one either.
                gains[piece] = gains.get(piece, 0) + count * (rest[end] - rest[place])
            start = end
        if len(gains) > _MOST_CANDIDATES:
            # Words are sorted by count, so candidates with a small gain so far are unlikely to matter.
            floor *= 2
            gains = {piece: gain for piece, gain in gains.items() if gain > floor}
    return losses, gains, used


def _beginnings(pieces):
    """Returns a dict of all prefixes of pieces: whether each is a piece itself."""
    table = {piece[:end]: False for piece in pieces for end in range(1, len(piece))}
    table.update(dict.fromkeys(pieces, True))
    return table


def _matches(word, beginnings):
    """Returns the ends of the longest and second longest piece at each position of a word; 0 for none."""
    longest, second = [0] * len(word), [0] * len(word)
    for start in range(len(word)):
        for end in range(start + 1, len(word) + 1):
            is_piece = beginnings.get(word[start:end])
            if is_piece is None:
                break
            if is_piece:
                longest[start], second[start] = end, longest[start]
    return longest, second


def _pieces_from(longest):
    """Returns the number of pieces from each position to the end of a word."""
    rest = [0] * (len(longest) + 1)
    for start in range(len(longest) - 1, -1, -1):
        rest[start] = rest[longest[start]] + 1
    return rest


def _public(piece):
    return piece[1:] if piece[0] == _BEGIN else f"{CONTINUATION}{piece}"


@dataclasses.dataclass(frozen=True)
class VocabularyReport:
    """How well a vocabulary covers a text."""

    words: int
    pieces_per_word: float  # `[UNK]` counts as one.
    unknown_rate: float  # The share of words that are `[UNK]`.
    whole_words: float  # The share of words that are one piece other than `[UNK]`.

    def __str__(self):
        return (
            f"{self.words:,} words, {self.pieces_per_word:.4f} tokens per word, {self.unknown_rate:.3%} unknown, "
            f"{self.whole_words:.2%} whole words"
        )


def report(counts, vocabulary):
    """Computes the `VocabularyReport` of a vocabulary on a text, given as word counts."""
    words = sum(counts.values())
    if not words:
        raise ValueError("`counts` is empty. Expected a text with words")
    beginnings = _beginnings([_private(piece) for piece in Vocabulary(vocabulary).pieces])
    sizes = collections.Counter()
    for word, count in counts.items():
        sizes[_number_of_pieces(_BEGIN + word, beginnings)] += count
    total = sum(max(size, 1) * count for size, count in sizes.items())
    return VocabularyReport(words, total / words, sizes[0] / words, sizes[1] / words)


def _number_of_pieces(word, beginnings):
    """Returns the number of pieces of a word, 0 if it is [UNK]."""
    (longest, _), place, number = _matches(word, beginnings), 0, 0
    while place < len(word) and longest[place]:
        place, number = longest[place], number + 1
    return number if place == len(word) <= len(_BEGIN) + LONGEST_WORD else 0


def _private(piece):
    return piece.removeprefix(CONTINUATION) if piece.startswith(CONTINUATION) else _BEGIN + piece
