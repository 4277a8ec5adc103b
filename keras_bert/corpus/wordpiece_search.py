"""The search for the pieces of a WordPiece vocabulary that leave the fewest tokens of a corpus.

Pieces here have no `##`: those at the start of a word have the prefix `BEGIN`. Does not use TensorFlow.
"""

import heapq

from keras_bert.text.pieces import CONTINUATION

# Prefix of every word, so that "a" at the start of a word and "a" within one are different strings.
BEGIN = "\0"
# The vocabulary size of each round as a share of the final size; the next round removes any excess.
_GOALS = (0.25, 0.5, 0.75, 1, 1.25, 1.25, 1.12, 1.06, 1.03, 1.015, 1.008, 1)
# A limit on time and memory; the most frequent words represent the rest.
_MOST_CANDIDATES = 1_000_000


def public_piece(piece):
    """Returns a piece of the search as vocabularies write it."""
    if piece[0] == BEGIN:
        return piece[1:]
    return f"{CONTINUATION}{piece}"


def private_piece(piece):
    """Returns a piece of a vocabulary as the search writes it."""
    if piece.startswith(CONTINUATION):
        return piece.removeprefix(CONTINUATION)
    return BEGIN + piece


def rank(item):
    """Returns a key that sorts pairs of a text and a number by descending number, ties by text."""
    text, number = item
    return -number, text


def grow_and_prune(words, alphabet, size, min_count, progress=None, kept=0):
    """Returns at most `size` pieces, including the alphabet, and the cost of removing each; goals are beyond `kept`.

    Args:
        words: list of `(word, count)` by descending count; words begin with `BEGIN`.
        alphabet: set of pieces that stay, among them every character of the words.
        size: int, the number of pieces, more than those of the alphabet.
        min_count: int, minimum count of the words from which pieces are learned.
        progress: function, called with a line of text after each round.
        kept: int, the number of pieces that count as none of the goals of the rounds.
    """
    pieces = set(alphabet)
    total = sum(count for _, count in words)
    for number, goal in enumerate(_GOALS, 1):
        losses, gains, used = _survey(words, pieces, min_count)
        if progress:
            per_word = f"{used / total:.4f} tokens per word"
            progress(f"round {number} of {len(_GOALS)}: {len(pieces):,} tokens, {per_word}")
        pieces = _best(losses, alphabet, size)
        wanted = kept + int(goal * (size - kept))
        candidates = ((piece, gain) for piece, gain in gains.items() if gain > 0)
        added = heapq.nsmallest(max(0, wanted - len(pieces)), candidates, key=rank)
        pieces.update(piece for piece, _ in added)
    losses, _, _ = _survey(words, pieces, min_count)
    return _best(losses, alphabet, size), losses


def _best(losses, alphabet, size):
    """Returns the alphabet and the best of the useful pieces."""
    useful = ((piece, loss) for piece, loss in losses.items() if loss > 0 and piece not in alphabet)
    best = heapq.nsmallest(size - len(alphabet), useful, key=rank)
    return alphabet.union(piece for piece, _ in best)


def _survey(words, pieces, min_count):
    """Counts what pieces are worth to a corpus.

    Returns how many more pieces the corpus needs without each of `pieces`, how many fewer with each candidate, and how
    many it needs now.
    """
    losses = dict.fromkeys(pieces, 0)
    gains = {}
    used = 0
    floor = 1
    table = beginnings(pieces)
    for word, count in words:
        longest, second = matches(word, table)
        rest = _pieces_from(longest)
        used += count * rest[0]
        start = 0
        while start < len(word):
            end = longest[start]
            other = second[start]
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


def beginnings(pieces):
    """Returns a dict of all prefixes of pieces: whether each is a piece itself."""
    table = {}
    for piece in pieces:
        for end in range(1, len(piece)):
            table[piece[:end]] = False
    table.update(dict.fromkeys(pieces, True))
    return table


def matches(word, table):
    """Returns the ends of the longest and second longest piece at each position of a word; 0 for none."""
    longest = [0] * len(word)
    second = [0] * len(word)
    for start in range(len(word)):
        for end in range(start + 1, len(word) + 1):
            is_piece = table.get(word[start:end])
            if is_piece is None:
                break
            if is_piece:
                second[start] = longest[start]
                longest[start] = end
    return longest, second


def _pieces_from(longest):
    """Returns the number of pieces from each position to the end of a word."""
    rest = [0] * (len(longest) + 1)
    for start in range(len(longest) - 1, -1, -1):
        rest[start] = rest[longest[start]] + 1
    return rest
