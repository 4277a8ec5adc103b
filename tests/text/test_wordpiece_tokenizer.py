"""WordPiece inside the graph: long words, offsets, malformed bytes, and the settings of vocabularies."""

import numpy as np
import pytest

from keras_bert import AddedToken, BertTokenizer, Vocabulary

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from tests.text.google_words import PIECES, SPECIAL, ids_of, listed_rows, names, surfaces_of

pytestmark = pytest.mark.usefixtures("eager")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a" * 200, ["a"] + ["##a"] * 199),
        ("a" * 201, ["[UNK]"]),
        ("b a" + "b" * 200 + "! a", ["b", "[UNK]", "!", "a"]),
        ("a" * 150 + "!" + "b" * 150, ["a"] + ["##a"] * 149 + ["!", "b"] + ["##b"] * 149),
        ("가" * 67, ["ᄀ", "##ᅡ"] + ["##ᄀ", "##ᅡ"] * 66),  # 134 characters after decomposition.
        ("각" * 67, ["[UNK]"]),  # 201 characters.
        ("", []),
        (" \t\r\n\u3000\u2028", []),
        ("\u0301\u200b\0", []),
    ],
)
def test_maximum_word_length(text, pieces):
    vocabulary = Vocabulary([*PIECES, "ᄀ", "##ᄀ", "##ᅡ", "##ᆨ"])
    tokenizer = BertTokenizer(vocabulary)
    ids, starts, ends = tokenizer.with_offsets([text, "a"])
    expected = ids_of(text, vocabulary, True)
    assert vocabulary.ids(pieces) == expected
    assert ids.to_list() == [expected, vocabulary.ids(["a"])]
    assert tokenizer([text, "a"]).to_list() == ids.to_list()
    assert starts.row_lengths().numpy().tolist() == [len(expected), 1]
    assert ends.row_lengths().numpy().tolist() == [len(expected), 1]
    if pieces == ["[UNK]"]:
        assert starts.to_list()[0] == [0]
        assert ends.to_list()[0] == [len(text.encode())]


def test_offsets_of_known_texts():
    tokenizer = BertTokenizer([*SPECIAL, "ᄒ", "##ᅡ", "##ᆫ", "ᄀ", "!", "hello", "jump", "##ed"])
    texts = ["한!", "", "가\u0301 !", "Héllo  jumpe\u0301d!"]  # A character of several tokens; accents after a letter.
    ids, starts, ends = listed_rows(tokenizer.with_offsets(texts))
    assert ids == [[5, 6, 7, 9], [], [8, 6, 9], [10, 11, 12, 9]]
    assert starts == [[0, 0, 0, 3], [], [0, 0, 6], [0, 8, 12, 16]]
    assert ends == [[3, 3, 3, 4], [], [5, 5, 7], [6, 12, 16, 17]]


def test_invalid_utf8_is_dropped(data):
    """Like U+FFFD; Python's decoder agrees on where a malformed character ends."""
    uncased = BertTokenizer(data / "vocab" / "bert-base-uncased-vocab.txt")
    contents = [b"a\xffb", b"\xe4\xbd", b"a\xe4\xbdb a", b"\xf0\x9f\x98b", b"a\xed\xa0\x80b", b"\xc0\x80a"]
    contents += [b"\xf4\x90\x80\x80", b"\x80" * 9, *np.random.default_rng(3).bytes(20_000).split(b"a")]
    ids, starts, ends = listed_rows(uncased.with_offsets(contents))
    for content, row, begins, limits in zip(contents, ids, starts, ends, strict=True):
        assert row == ids_of(content.decode(errors="replace"), uncased.vocabulary, True)
        for start, end in zip(begins, limits, strict=True):
            assert 0 <= start < end <= len(content)


WIDE = {"tokenize_chinese_chars": False, "max_word_length": 2}


@pytest.mark.parametrize(
    ("settings", "string", "pieces"),
    [
        ({"max_word_length": 3}, "aaa aaaa a", ["a", "##a", "##a", "[UNK]", "a"]),
        ({"max_word_length": 3003}, "a" * 203, ["a", *["##a"] * 202]),
        (WIDE, "a中 中, 中中!aaa aa", ["[UNK]", "中", "[UNK]", "[UNK]", "!", "[UNK]", "a", "##a"]),
        ({"strip_accents": False}, "é a\u0301", ["[UNK]", "[UNK]"]),
    ],
)
def test_vocabulary_settings(settings, string, pieces):
    tokenizer = BertTokenizer(Vocabulary(PIECES, **settings))
    ids, starts, ends = tokenizer.with_offsets([string])
    assert names(ids) == [pieces]
    assert names(tokenizer([string])) == [pieces]
    surfaces = surfaces_of(string, starts.to_list()[0], ends.to_list()[0])
    assert "".join(surfaces) == string.replace(" ", "")


def test_all_settings_combined():
    vocabulary = Vocabulary(
        [*PIECES, "a!", "b b"],
        [AddedToken("a!", normalized=False), "b b"],
        strip_accents=False,
        tokenize_chinese_chars=False,
        max_word_length=2,
    )
    tokenizer = BertTokenizer(vocabulary, keep_special_tokens=["[MASK]"])
    ids = tokenizer(["a!A[MASK]中a b b", "aaa 中! ab é"])
    pieces = [["a!", "a", "[MASK]", "中", "##a", "b b"], ["[UNK]", "中", "!", "a", "##b", "[UNK]"]]
    assert names(ids, vocabulary.pieces) == pieces


@pytest.mark.parametrize("chinese", [True, False])
def test_pieces_with_white_space_match_nothing(chinese):
    """Texts consist of words; nor do these pieces disturb words that start like them."""
    pieces = [*SPECIAL, "new york", "the\u3000cat", "##w\u2028x", "a\x85", "the", "##w", "jersey", "ne", "is"]
    tokenizer = BertTokenizer(Vocabulary(pieces, tokenize_chinese_chars=chinese))
    ids = tokenizer(["new jersey is", "the ", "the\u3000cat", "new york is new", "no word is"])
    assert names(ids, pieces) == [
        ["ne", "##w", "jersey", "is"],
        ["the"],
        ["the", "[UNK]"],
        ["ne", "##w", "[UNK]", "is", "ne", "##w"],
        ["[UNK]", "[UNK]", "is"],
    ]


def test_duplicate_pieces_and_pieces_with_nul():
    """The last one of the same name counts; a piece with NUL matches nothing."""
    pieces = [*PIECES, "c\0d", "b", "c"]
    last_b = len(PIECES) + 1
    last_c = len(PIECES) + 2
    assert BertTokenizer(pieces)(["b bb cd c"]).to_list() == [[last_b, last_b, 8, 1, last_c]]
