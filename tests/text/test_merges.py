"""Byte-pair encoding beside a plain loop over the pairs of a word."""

import itertools
import random

import pytest
import tensorflow as tf

from keras_bert.text import merges
from keras_bert.text.byte_characters import CHARACTERS, written
from keras_bert.text.merge_loop import MergeLoop
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import MERGES, vocabulary

WORDS = ["".join(letters) for size in range(1, 7) for letters in itertools.product("abc", repeat=size)]


def joined(word, lines):
    """Returns the pieces of a word: the first pair of the lowest rank is joined, until there is none."""
    ranks = {tuple(line.split(" ")): rank for rank, line in enumerate(lines)}
    pieces = list(written(word.encode()))
    while True:
        pairs = [(ranks[pair], place) for place, pair in enumerate(itertools.pairwise(pieces)) if pair in ranks]
        if not pairs:
            return pieces
        _, place = min(pairs)
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]


def random_merges(chosen, size, is_ordered):
    """Returns merges of the letters a, b and c: each of pieces that are there, or in a random order."""
    pieces = ["a", "b", "c"]
    lines = []
    while len(lines) < size:
        pair = chosen.choices(pieces, k=2)
        line = " ".join(pair)
        if line not in lines and len("".join(pair)) < 6:
            lines.append(line)
            pieces.append("".join(pair))
    if not is_ordered:
        chosen.shuffle(lines)
    return lines


def of_kernel(lines):
    return build_tokenizer(vocabulary(lines))._pieces_of_words(tf.constant(WORDS)).to_list()


@pytest.mark.parametrize("is_ordered", [True, False])
def test_any_merges(is_ordered):
    """All words of up to six letters; SentencePiece's op is only taken where it makes no difference."""
    chosen = random.Random(5)
    taken = 0
    for _ in range(12):
        lines = random_merges(chosen, 7, is_ordered)
        known = vocabulary(lines)
        expected = [known.ids(joined(word, lines)) for word in WORDS]
        assert MergeLoop(known).tokenize(tf.constant(WORDS)).to_list() == expected, lines
        taken += build_tokenizer(known).tables is not None
        assert of_kernel(lines) == expected, lines
    assert (taken > 0) == is_ordered


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (MERGES, True),
        ([], True),
        (["a b", "b c", "ab c", "a bc"], False),  # One piece of two merges.
        (["ab c", "a b"], False),  # A piece before its parts.
        (["b c", "a b", "ab c"], False),  # "abc" is never made of "ab" and "c": "bc" comes first.
        (["a b", "ab a", "b a"], True),
        (["a a", "aa a", "aa aa"], True),
    ],
)
def test_merges_that_are_those_of_pieces(lines, expected):
    assert merges.are_those_of_pieces(merges.parsed(lines)) == expected


def test_a_line_that_is_repeated_has_the_last_rank():
    """As in the tokenizers library, which reads them into a map."""
    lines = ["a b", "b c", "a b"]
    known = vocabulary(lines)
    tokenizer = build_tokenizer(known)
    assert tokenizer("abc").numpy().tolist() == known.ids(["a", "bc"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merges": "Ġ t"}, "`merges` must be a list of strings"),
        ({"merges": ["Ġ t h"]}, "a merge must be two pieces with a space between them. Received: merge 0"),
        ({"merges": ["x y"]}, "merge 0, 'x y', needs a piece 'xy', which the vocabulary lacks"),
        ({"normalizer": {"type": "NFC"}}, "byte-level BPE has no `normalizer`"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "`pre_tokenizer` must be GPT-2's"),
    ],
)
def test_merges_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        vocabulary().replace(**change)


def test_all_bytes_are_needed():
    pieces = [piece for piece in vocabulary().pieces if piece != CHARACTERS[0xFF]]
    settings = vocabulary().get_config() | {"pieces": pieces}
    with pytest.raises(ValueError, match="lacks 'ÿ', the byte 0xff. Expected pieces for all 256 bytes"):
        type(vocabulary())(settings)
