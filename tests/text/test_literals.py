"""Strings that are always a single token: kept special tokens and added tokens."""

import pytest

from keras_bert import AddedToken, BertTokenizer, Vocabulary

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from tests.text.google_words import PIECES, listed_rows, names, surfaces_of

pytestmark = pytest.mark.usefixtures("eager")


def test_kept_special_tokens():
    texts = ["a[MASK]b [mask] [MASK]", "a \ufada\ufa6e b"]
    assert names(BertTokenizer(PIECES)(texts)) == [
        ["a", "[", "mask", "]", "b", "[", "mask", "]", "[", "mask", "]"],
        ["a", "[UNK]", "[UNK]", "b"],
    ]
    ids, starts, ends = BertTokenizer(PIECES, keep_special_tokens=("[MASK]",)).with_offsets(texts)
    assert names(ids) == [["a", "[MASK]", "b", "[", "mask", "]", "[MASK]"], ["a", "[UNK]", "[UNK]", "b"]]
    assert starts.to_list() == [[0, 1, 7, 9, 10, 14, 16], [0, 2, 5, 9]]
    assert ends.to_list() == [[1, 7, 8, 10, 14, 15, 22], [1, 5, 8, 10]]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (["[X]"], r"has a token that is not in the vocabulary, the list of pieces. Received: '\[X\]'"),
        ([3], "has a token that is not in the vocabulary"),
        ("[MASK]", r"must be a list or a tuple. Received: '\[MASK\]'"),
    ],
)
def test_tokens_that_cannot_be_kept(kept, message):
    with pytest.raises(ValueError, match=f"`keep_special_tokens` {message}"):
        BertTokenizer(PIECES, keep_special_tokens=kept)


@pytest.mark.parametrize("lowercase", [True, False])
def test_added_tokens(lowercase):
    """Tokens are matched in the original text first, then in the normalized text, longest match first."""
    added = [
        AddedToken("<ent>", normalized=False, special=True),
        "Covid-19",
        "ab b",
        AddedToken("b!a", normalized=False),
        "ΟΣ",
        AddedToken("##b", wordpiece=True),
    ]
    pieces = [*PIECES, "<ent>", "Covid-19", "ab b", "b!a", "ΟΣ", "ab"]
    tokenizer = BertTokenizer(Vocabulary(pieces, added), lowercase)
    covid = ["[UNK]", "[UNK]", "[UNK]"]
    if lowercase:
        covid = ["Covid-19", "b"]
    expected = {
        "a<ent>COVID-19b <ENT>": ["a", "<ent>", *covid, "[UNK]", "[UNK]", "[UNK]"],
        "Covid-19Covid-19 ab b!a": ["Covid-19", "Covid-19", "ab", "b!a"],
        "ab b ab  b aΟΣ": ["ab b", "ab", "b", "a", "ΟΣ"],
        "<ent>": ["<ent>"],
        "a##b #": ["a", "##b", "[UNK]"],
        "é<ent>É Covid-19": ["[UNK]", "<ent>", "[UNK]", "Covid-19"],
        "a\0b <ent>\0b!a": ["ab", "<ent>", "b!a"],
        "": [],
    }
    texts = list(expected)
    ids, starts, ends = tokenizer.with_offsets(texts)
    assert names(ids, pieces) == list(expected.values())
    assert names(tokenizer(texts), pieces) == list(expected.values())
    for text, begins, limits in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        surfaces = surfaces_of(text, begins, limits)
        for name, surface in zip(expected[text], surfaces, strict=True):
            assert name == "[UNK]" or surface.replace("\0", "") in (name, name.removeprefix("##"), "COVID-19")


@pytest.mark.parametrize("normalized", [True, False])
def test_added_tokens_that_are_single_words(normalized):
    """They are parts of words beside a letter, mark, digit or `_`; the characters of the longest match stay text."""
    added = [
        AddedToken("ab", normalized, single_word=True),
        AddedToken("ab!", normalized, single_word=True),
        AddedToken("b!", normalized),
    ]
    tokenizer = BertTokenizer(Vocabulary([*PIECES, "ab", "ab!", "b!"], added))
    before_accent = ["a", "##b"]
    after_chinese = ["中", "a", "##b"]
    if normalized:
        before_accent = ["ab"]
        after_chinese = ["中", "ab"]
    expected = {
        "ab": ["ab"],
        "ab (ab) bab aab ab": ["ab", "[UNK]", "ab", "[UNK]", "b", "##a", "##b", "a", "##a", "##b", "ab"],
        "ab!a ab! ab_ab": ["a", "##b", "!", "a", "ab!", "a", "##b", "[UNK]", "a", "##b"],
        "ab\u0301 한ab ab😀 ab!": [*before_accent, "[UNK]", "ab", "[UNK]", "ab!"],
        "中ab": after_chinese,
        "": [],
    }
    texts = list(expected)
    ids, starts, ends = tokenizer.with_offsets(texts)
    assert names(ids, tokenizer.vocabulary.pieces) == list(expected.values())
    assert names(tokenizer(texts), tokenizer.vocabulary.pieces) == list(expected.values())
    assert starts.to_list()[1] == [0, 3, 4, 6, 8, 9, 10, 12, 13, 14, 16]
    assert ends.to_list()[1] == [2, 4, 6, 7, 9, 10, 11, 13, 14, 15, 18]


def test_white_space_belongs_to_tokens_that_strip():
    """Beside other texts, and at the ends of a text; the places of the tokens have it."""
    added = [AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True)]
    tokenizer = BertTokenizer(Vocabulary([*PIECES, "<l>", "<r>"], added))
    ids, starts, ends = listed_rows(tokenizer.with_offsets(["a  <l> b", " <l>", "a <r>  b<r> "]))
    left = len(PIECES)
    right = left + 1
    assert ids == [[5, left, 7], [left], [5, right, 7, right]]
    assert starts == [[0, 1, 7], [0], [0, 2, 7, 8]]
    assert ends == [[1, 6, 8], [4], [1, 7, 8, 12]]
