"""GPT-2's words, beside its regular expression in Python's `re`, whose classes of Unicode stand for one character."""

import random
import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text import byte_level_words

WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-z]+| ?0+| ?[^\sa-z0]+|\s+(?!\S)|\s+")
SIGNS = [*"'strevmld' aZ1!?-", "é", "½", "٣", "字", "\U0001f600", "\u0301", "\0", "\x01", "'s", "'re", "'LL"]
SIGNS += ["  ", "\t", "\n", "\v", "\x85", "\xa0", "\u1680", "\u2028", "\u3000", "\u200b"]
WHITE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def plain(character):
    """Returns an ASCII character of the same kind; those of contractions stand for themselves."""
    if character in "' strevmld":
        return character
    if character in WHITE:
        return "\t"
    kind = unicodedata.category(character)[0]
    if kind == "L":
        return "z"
    if kind == "N":
        return "0"
    return "!"


def words_of(text):
    words = []
    for match in WORDS.finditer("".join(map(plain, text))):
        words.append(text[match.start() : match.end()])
    return words


def split(texts):
    found = byte_level_words.split(tf.constant([text.encode() for text in texts], tf.string))
    rows = tf.RaggedTensor.from_row_splits(found.words, found.row_splits).to_list()
    words = []
    for row in rows:
        words.append([word.decode() for word in row])
    return words


def test_words_of_random_texts():
    chosen = random.Random(3)
    texts = ["".join(chosen.choices(SIGNS, k=chosen.randrange(15))) for _ in range(4000)]
    assert split(texts) == [words_of(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's  two'll", ["it", "'s", " ", " two", "'ll"]),
        (" 's ''s 'sing", [" '", "s", " ''", "s", " '", "sing"]),
        ("\t's\n\n x ", ["\t", "'s", "\n\n", " x", " "]),
        ("a1é½!?", ["a", "1", "é", "½", "!?"]),
        ("   ", ["   "]),
        ("'", ["'"]),
    ],
)
def test_known_words(text, words):
    """As the texts before and after it do not matter, which are in the same batch."""
    assert split(["l", text, "s", "", text, ""]) == [["l"], words, ["s"], [], words, []]


@pytest.mark.parametrize(
    ("signs", "kind"),
    [("a字\U00031350\U000323af", 1), ("1²१\U00011bf0", 2), (" \u3000", 3), ("!\u200b\ue000", 0)],
    ids=["letters", "numbers", "white space", "others"],
)
def test_kinds_of_characters(signs, kind):
    """Letters and numbers of Unicode 16, whatever version Python's `unicodedata` has."""
    kinds = byte_level_words.kinds_of_characters()
    for sign in signs:
        assert kinds[ord(sign)] == kind, sign


def test_numbers_of_letters_numbers_and_white_space():
    counts = np.bincount(byte_level_words.kinds_of_characters(), minlength=4)
    assert counts[1:].tolist() == [141028, 1911, 25]


def test_malformed_bytes_are_those_that_python_replaces():
    contents = [b"a\xffb", b"\xe4\xbd", b"a\xe4\xbdb", b"\xf0\x9f\x98b", b"\xed\xa0\x80", b"\xc0\x80a", b"\x80" * 3]
    contents += np.random.default_rng(3).bytes(5_000).split(b"a")
    found = byte_level_words.split(tf.constant(contents))
    for content, points, begins in zip(contents, found.points.to_list(), found.begins.to_list(), strict=True):
        assert "".join(map(chr, points)) == content.decode(errors="replace")
        assert all(place < len(content) for place in begins)
