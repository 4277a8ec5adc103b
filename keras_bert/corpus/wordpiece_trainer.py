"""Learns a WordPiece vocabulary from word counts, minimizing the number of pieces of the corpus.

See Wu et al., 2016, section 4.1. Words are split greedily, longest match first. Does not use TensorFlow.
"""

import collections
import itertools
import logging
from collections.abc import Callable
from typing import Any

from keras_bert.checks import check_count
from keras_bert.corpus.wordpiece_search import BEGIN, grow_and_prune, private_piece, public_piece, rank
from keras_bert.text.pieces import BYTES, REVERSIBLE, WORD_START
from keras_bert.text.tokenizer_options import LONGEST_WORD
from keras_bert.text.vocabulary import Vocabulary, check_extendable, extend, unused_ids

_LOG = logging.getLogger("keras_bert")
_MOST_WORDS = 1_000_000  # A limit on time and memory; the most frequent words represent the rest.


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
        _check_marks(counts)
        # Two tokens for each character; the others are written as bytes.
        most_characters = max(1, (vocab_size - len(REVERSIBLE) - len(BYTES) - 1) // 2)
        words = _ordered_words(counts, min(alphabet_limit, most_characters))
        alphabet = _reversible_alphabet(words)
        special = [*REVERSIBLE, *BYTES]
    else:
        words = _ordered_words(counts, alphabet_limit)
        alphabet = _alphabet(words)
        special = _special_pieces(unused)
    longer = sum(count >= min_count for word, count in words if word not in alphabet)
    size = _possible_size(vocab_size, len(special), len(alphabet), longer, min_count) - len(special)
    pieces, losses = grow_and_prune(words[:_MOST_WORDS], alphabet, size, min_count, progress)
    # A small corpus: fill up with whole words, most frequent first.
    missing = (word for word, _ in words if word not in pieces)
    pieces.update(itertools.islice(missing, size - len(pieces)))
    learned = sorted(pieces - alphabet, key=lambda piece: (-losses.get(piece, 0), piece))
    characters = sorted(alphabet, key=lambda piece: (piece[0] != BEGIN, piece))
    return Vocabulary([*special, *map(public_piece, characters), *map(public_piece, learned)])


def _check_marks(counts):
    """Raises for words whose start is marked elsewhere."""
    for word in counts:
        if WORD_START in word[1:]:
            raise ValueError(
                f"`counts` must have {WORD_START!r} only at the start, see `count_words`. Received: {word!r}"
            )


def _alphabet(words):
    """Returns the characters of words, those at their starts and those within them: a set of pieces."""
    alphabet = set()
    for word, _ in words:
        alphabet.add(word[:2])  # With the prefix of every word.
        alphabet.update(word[2:])
    return alphabet


def _reversible_alphabet(words):
    """Returns the alphabet of marked words: any character may start a piece or continue one in another text."""
    characters = {piece[-1] for piece in _alphabet(words)} - {WORD_START}
    beginnings = {BEGIN + character for character in characters}
    return {BEGIN + WORD_START} | characters | beginnings


def _special_pieces(unused):
    """Returns the special pieces of a vocabulary with a number of unused ones."""
    special = ["[PAD]"]
    for index in range(1, unused + 1):
        special.append(f"[unused{index}]")
    special.extend(["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return special


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
    known = Vocabulary(vocabulary)
    check_extendable(known)
    unused = len(unused_ids(known))
    wanted = len(known) if vocab_size is None else vocab_size
    if wanted <= len(known) - unused:
        raise ValueError(
            f"`vocab_size` must be at least {len(known) - unused + 1}: {known.source} has "
            f"{len(known):,} pieces, and {unused} of them are unused. Received: vocab_size={wanted}"
        )
    existing = set(map(private_piece, known.wordpieces))  # Without special tokens and unused pieces.
    # The search below needs every character of its words among `existing`; it learns none.
    words = _words_of_characters(counts, existing)
    if not words:
        raise ValueError(f"`counts` has no word of the characters of {known.source}. Expected text of its language")
    places_for_new = wanted - (len(known) - unused)
    size = len(existing) + places_for_new
    pieces, losses = grow_and_prune(
        words[:_MOST_WORDS],
        existing,
        size,
        min_count,
        progress,
        kept=len(existing),  # The goals of its rounds count new pieces alone.
    )
    learned = sorted(pieces - existing, key=lambda piece: (-losses[piece], piece))
    extended = extend(known, list(map(public_piece, learned)))
    if len(extended) < wanted:
        _LOG.warning(
            f"the corpus gives only {len(extended):,} tokens instead of {wanted:,}. Add text or lower the minimum "
            f"count, which is {min_count}"
        )
    return extended


def _words_of_characters(counts, pieces):
    """Returns `(word, count)` by descending count, of the words whose characters are pieces."""
    words = []
    for word, count in counts.items():
        if len(word) <= LONGEST_WORD:
            words.append((BEGIN + word, count))
    words.sort(key=rank)
    covered = []
    for word, count in words:
        if pieces.issuperset((word[:2], *word[2:])):
            covered.append((word, count))
    return covered


def _possible_size(vocab_size, special, alphabet, words, min_count):
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
    words = [(word, count) for word, count in counts.items() if len(word) <= LONGEST_WORD]
    words.sort(key=rank)
    if not words:
        raise ValueError("`counts` is empty. Expected a corpus with words")
    characters = collections.Counter()
    for word, count in words:
        for character in word:
            characters[character] += count
    frequent = sorted(characters.items(), key=rank)[:alphabet_limit]
    kept = {character for character, _ in frequent}
    covered = [(BEGIN + word, count) for word, count in words if kept.issuperset(word)]
    if not covered:
        raise ValueError(f"`alphabet_limit` leaves no word. Received: alphabet_limit={alphabet_limit}")
    return covered
