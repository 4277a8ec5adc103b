"""Byte-pair encoding, join by join and by SentencePiece's op, beside a plain loop over the pairs of a word."""

import itertools
import random

import pytest
import tensorflow as tf

from keras_bert.text.byte_characters import written
from keras_bert.text.merge_loop import MergeLoop
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import vocabulary

LONGEST = 6


def all_words():
    """Returns all words of up to six letters."""
    words = []
    for size in range(1, LONGEST + 1):
        words += map("".join, itertools.product("abc", repeat=size))
    return words


WORDS = all_words()


def first_pair(pieces, ranks):
    """Returns the place of the first pair of the lowest rank, `None` if no pair has a rank."""
    places = [place for place, pair in enumerate(itertools.pairwise(pieces)) if pair in ranks]
    return min(places, key=lambda place: (ranks[tuple(pieces[place : place + 2])], place), default=None)


def joined(word, lines):
    """Returns the pieces of a word: the first pair of the lowest rank is joined, until there is none."""
    ranks = {tuple(line.split(" ")): rank for rank, line in enumerate(lines)}
    pieces = list(written(word.encode()))
    place = first_pair(pieces, ranks)
    while place is not None:
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
        place = first_pair(pieces, ranks)
    return pieces


def random_merges(chosen, size, is_ordered):
    """Returns merges of the letters a, b and c: each of pieces that are there, or in a random order."""
    pieces = ["a", "b", "c"]
    lines = []
    while len(lines) < size:
        pair = chosen.choices(pieces, k=2)
        line = " ".join(pair)
        if line not in lines and len("".join(pair)) < LONGEST:
            lines.append(line)
            pieces.append("".join(pair))
    if not is_ordered:
        chosen.shuffle(lines)
    return lines


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
        tokenizer = build_tokenizer(known)
        if tokenizer.tables is not None:
            taken += 1
        assert tokenizer(WORDS).to_list() == expected, lines
    assert (taken > 0) == is_ordered


def test_without_words_and_without_merges():
    known = vocabulary([])
    assert MergeLoop(known).tokenize(tf.zeros([0], tf.string)).to_list() == []
    assert MergeLoop(known).tokenize(tf.constant(["", "ab"])).to_list() == [[], known.ids(["a", "b"])]
