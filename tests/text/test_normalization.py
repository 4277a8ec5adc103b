"""The normalization of Google's tokenizer for every character, compared with its rules in plain Python."""

import itertools
import sys
import unicodedata

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from keras_bert.text.normalization import broken_sequences, normalize_character, ranges
from tests.text.google_words import CHINESE, split, words_of

# Assigned after Unicode 14, the version of Python 3.11: punctuation for tf-text, but not for that Python.
YOUNGER_PUNCTUATION = {
    0x1B4E, 0x1B4F, 0x1B7F, 0x10D6E, 0x113D4, 0x113D5, 0x113D7, 0x113D8, *range(0x11B00, 0x11B0A), 0x11BE1,
    *range(0x11F43, 0x11F50), *range(0x16D6D, 0x16D70), 0x1E5FF,
}  # fmt: skip
# Ideographs, Hangul syllables, private use and what is unassigned: large ranges of characters that are treated alike.
UNIFORM = [
    (0x3400, 0xA000),
    (0xAC00, 0xD7A4),
    (0xE000, 0xF900),
    (0x17000, 0x18D00),
    (0x20000, 0x2F800),
    (0x2FA20, 0x32000),
]


def tried_codes(step):
    """Returns all code points, in uniform ranges and in unassigned planes only some of them, and the edges."""
    codes = {*range(0xD800), *range(0xE000, 0x32000), *range(0x32000, sys.maxunicode, 499), *range(0xE0000, 0xE0200)}
    edges = set()
    for edge in itertools.chain(*UNIFORM, *CHINESE):
        edges.update(range(edge - 4, edge + 4))
    left_out = set()
    for first, last in UNIFORM:
        left_out.update(code for code in range(first, last) if code % step)
    return sorted(codes - (left_out - edges))


@pytest.mark.parametrize(
    ("lowercase", "step"),
    [(True, 97), pytest.param(True, 1, marks=pytest.mark.slow), pytest.param(False, 1, marks=pytest.mark.slow)],
)
def test_every_code_point(lowercase, step):
    """Each code point, between two letters, gives the words of the reference. Unassigned planes are sampled."""
    codes = tried_codes(step)
    texts = [f"a{chr(code)}a" for code in codes]
    different = set()
    for code, text, words in zip(codes, texts, split(texts, lowercase), strict=True):
        if words != words_of(text, lowercase):
            different.add(code)
    if unicodedata.unidata_version == "14.0.0":
        assert different == YOUNGER_PUNCTUATION
        assert {unicodedata.category(chr(code)) for code in different} == {"Cn"}
    else:
        assert different <= YOUNGER_PUNCTUATION


def test_marks_not_in_canonical_order():
    """The one rule that a table cannot express: NFD sorts marks, and keeps spacing marks. Usual text is sorted."""
    marks = []
    for char in map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]):
        if unicodedata.combining(char) and unicodedata.category(char) != "Mn":
            marks.append(char)
    assert len(marks) == 25
    strings = [f"a{first}{second}" for first, second in itertools.product(marks, repeat=2)]
    for string, (word,) in zip(strings, split(strings), strict=True):
        classes = [unicodedata.combining(char) for char in string]
        is_same = word == words_of(string, True)[0]
        assert is_same == (classes == sorted(classes))


@pytest.mark.usefixtures("eager")
def test_lowercase_and_strip_accents_are_independent():
    assert split(["ÉTÉ İ"], True, False) == [["été", "i̇"]]
    assert split(["ÉTÉ"], False, True) == [["ETE"]]


def test_final_sigma():
    strings = ["ΟΔΟΣ", "ΣΟΦΟΣ ΑΝΗΡ", "ΑΣ'Σ.Β", "ΑΣ\u00adΒ", "ΑΣ\x01", "ΣΑΣΑΣ, ΑΣ-ΑΣ", "中Σ ΑΣ中", "aΣ1 ªΣ"]
    strings += ["ΑΣ\U000e0067\U000e007f \U000e0067ΑΣΑ ΑΣ\U000e0100Α"]
    for size in range(1, 5):
        strings += map("".join, itertools.product("ΣΑ'1 \u0301中", repeat=size))
    assert split(strings) == [words_of(string, True) for string in strings]


@pytest.mark.parametrize(
    ("char", "lowercase", "strip_accents", "expected"),
    [
        ("É", True, True, "e"),
        ("É", True, False, "é"),
        ("É", False, True, "E"),
        ("\u3000", False, False, " "),
        ("\u200b", False, False, ""),
        ("\ufffd", False, False, ""),
        ("Σ", True, True, "σ"),  # As inside a word.
    ],
)
def test_one_character(char, lowercase, strip_accents, expected):
    assert normalize_character(char, lowercase, strip_accents) == expected


def test_ranges_of_code_points():
    assert ranges([0x61, 0x62, 0x63, 0x78]) == r"\x{61}-\x{63}\x{78}-\x{78}"
    assert ranges([]) == ""


def test_malformed_bytes_are_no_code_points():
    """Each is what Python replaces by a single character; whole code points are none of them."""
    sequences = list(broken_sequences())
    assert len(sequences) == len(set(sequences))
    for sequence in sequences:
        assert sequence.decode(errors="replace") == "\ufffd"
    assert "é".encode() not in sequences
