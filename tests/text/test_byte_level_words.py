"""GPT-2's words, beside its regular expression in Python's `re`, whose classes of Unicode stand for one character."""

import random
import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text import byte_level_words

_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-z]+| ?0+| ?[^\sa-z0]+|\s+(?!\S)|\s+")
_SIGNS = [*"'strevmld' aZ1!?-", "é", "½", "٣", "字", "\U0001f600", "\u0301", "\0", "\x01", "'s", "'re", "'LL"]
_SIGNS += ["  ", "\t", "\n", "\v", "\x85", "\xa0", "\u1680", "\u2028", "\u3000", "\u200b"]
_WHITE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def plain(character):
    """Returns an ASCII character of the same kind; those of contractions stand for themselves."""
    if character in "' strevmld":
        return character
    if character in _WHITE:
        return "\t"
    return {"L": "z", "N": "0"}.get(unicodedata.category(character)[0], "!")


def words_of(text):
    spans = (match.span() for match in _WORDS.finditer("".join(map(plain, text))))
    return [text[start:end] for start, end in spans]


def split(texts):
    found = byte_level_words.split(tf.constant([text.encode() for text in texts], tf.string))
    words = tf.RaggedTensor.from_row_splits(found.words, found.row_splits).to_list()
    return [[word.decode() for word in row] for row in words]


def test_words_of_random_texts():
    chosen = random.Random(3)
    texts = ["".join(chosen.choices(_SIGNS, k=chosen.randrange(15))) for _ in range(4000)]
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


def test_kinds_of_characters():
    """Letters and numbers of Unicode 16, whatever version Python's `unicodedata` has."""
    kinds = byte_level_words._kinds()
    counts = np.bincount(kinds, minlength=4)
    assert counts[1:].tolist() == [141028, 1911, 25]
    assert [kinds[ord(char)] for char in "a字\U00031350\U000323af1²१\U00011bf0 \u3000!\u200b\ue000"] == [
        *[1] * 4,
        *[2] * 4,
        *[3] * 2,
        *[0] * 3,
    ]


def test_malformed_bytes_are_those_that_python_replaces():
    contents = [b"a\xffb", b"\xe4\xbd", b"a\xe4\xbdb", b"\xf0\x9f\x98b", b"\xed\xa0\x80", b"\xc0\x80a", b"\x80" * 3]
    contents += np.random.default_rng(3).bytes(5_000).split(b"a")
    found = byte_level_words.split(tf.constant(contents))
    for content, points, begins in zip(contents, found.points.to_list(), found.begins.to_list(), strict=True):
        assert "".join(map(chr, points)) == content.decode(errors="replace")
        assert all(place < len(content) for place in begins)
