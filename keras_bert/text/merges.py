"""The merges of a byte-pair encoding: pairs of pieces that become one, in the order of their ranks. No TensorFlow.

A word is split into bytes. Of all neighbors that are such a pair, those with the lowest rank are joined, the first in
the word before the others, until there are none (Sennrich et al., 2016, section 3.2).
"""

from typing import NamedTuple

from keras_bert.text.byte_characters import CHARACTERS

_NEVER = 2**62  # Above every rank.


class Merge(NamedTuple):
    """A pair of pieces, the piece that they become, and the rank."""

    left: str
    right: str
    rank: int

    @property
    def whole(self):
        """The piece that the pair becomes."""
        return self.left + self.right


def parsed(lines):
    """Returns the `Merge`s of lines such as "Ġ t", without those that a later line repeats."""
    ranks = {}
    for rank, line in enumerate(lines):
        left, right = line.split(" ")
        ranks[left, right] = rank
    return [Merge(left, right, rank) for (left, right), rank in ranks.items()]


def check(lines, vocabulary):
    """Raises for merges of pieces that a vocabulary does not have."""
    if not isinstance(lines, list | tuple):
        raise ValueError(f"{vocabulary.source}: `merges` must be a list of strings. Received: merges={lines!r:.80}")
    for rank, line in enumerate(lines):
        pair = line.split(" ") if isinstance(line, str) else ()
        if len(pair) != 2 or not all(pair):
            raise ValueError(
                f"{vocabulary.source}: a merge must be two pieces with a space between them. Received: merge {rank}, "
                f"{line!r:.80}"
            )
        for piece in (*pair, "".join(pair)):
            if piece not in vocabulary:
                raise ValueError(
                    f"{vocabulary.source}: merge {rank}, {line!r}, needs a piece {piece!r}, which the vocabulary lacks"
                )
    for byte, character in enumerate(CHARACTERS):
        if character not in vocabulary:
            raise ValueError(
                f"{vocabulary.source}: the vocabulary lacks {character!r}, the byte 0x{byte:02x}. Expected pieces for "
                "all 256 bytes"
            )


def are_those_of_pieces(merges):
    """Returns whether it makes no difference to join all neighbors whose string is a piece, not only listed pairs.

    SentencePiece does so: the rank of a pair is then that of its string. Both split each text alike if every piece is
    the result of one merge, comes after the pieces that it is made of, and is made of them by SentencePiece, too: each
    join within a token of SentencePiece's is then a listed one, and was the first of all that were possible.
    """
    made = {merge.whole: merge for merge in merges}
    if len(made) < len(merges):
        return False
    for merge in merges:
        for part in (merge.left, merge.right):
            if len(part) > 1 and (part not in made or made[part].rank > merge.rank):
                return False
    return all(_is_complete_before_others(merge, made) for merge in merges)


def _is_complete_before_others(merge, made):
    """Returns whether a pair is complete before any join across its boundary.

    The piece at the end of the left part, and that at the start of the right one, grow until they are these parts.
    `made` has the merges by their results.
    """
    left = _growth(merge.left, made, side=-1)
    right = _growth(merge.right, made, side=0)
    before, after = left.pop(), right.pop()
    while left or right:
        next_left = made[left[-1]].rank if left else _NEVER
        next_right = made[right[-1]].rank if right else _NEVER
        across = made.get(before + after)
        # The join that is further to the left comes first: that of the left part, then the one across.
        if across is not None and across.rank < next_left and across.rank <= next_right:
            return False
        if next_left < next_right:
            before = left.pop()
        else:
            after = right.pop()
    return True


def _growth(piece, made, side):
    """Returns the pieces that grow into a piece at one of its ends, the last of the side first: itself to a byte."""
    growth = [piece]
    while len(growth[-1]) > 1:
        merge = made[growth[-1]]
        growth.append(merge.right if side == -1 else merge.left)
    return growth
