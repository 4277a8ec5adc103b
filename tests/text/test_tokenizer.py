"""The tokenizer, compared with outputs of Google's program and with its rules rewritten in plain Python."""

import functools
import itertools
import json
import pickle
import sys
import unicodedata

import numpy as np
import pytest

from keras_bert import AddedToken, BertTokenizer, Vocabulary

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from keras_bert.text import tokenizer as text_tokenizer  # noqa: E402
from keras_bert.text.wordpiece_tokenizer import WordSplitter  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "a", "##a", "b", "##b", "!", "[", "]", "mask", "σ", "##σ", "ς", "##ς", "한", "中", "##가"]
# Assigned after Unicode 14, the version of Python 3.11: punctuation for tf-text, but not for that Python.
YOUNGER_PUNCTUATION = {
    0x1B4E, 0x1B4F, 0x1B7F, 0x10D6E, 0x113D4, 0x113D5, 0x113D7, 0x113D8, *range(0x11B00, 0x11B0A), 0x11BE1,
    *range(0x11F43, 0x11F50), *range(0x16D6D, 0x16D70), 0x1E5FF,
}  # fmt: skip


CHINESE = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
CHINESE += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def is_chinese(code):
    return any(first <= code <= last for first, last in CHINESE)


def is_punctuation(char):
    return char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or unicodedata.category(char)[0] == "P"


def words_of(string, lowercase):
    """Splits a text into words by the rules of Google's tokenization.py."""
    clean = ""
    for char in string:
        category = unicodedata.category(char)
        if char in " \t\n\r" or category == "Zs":
            clean += " "
        elif char not in "\0\ufffd" and category not in ("Cc", "Cf"):
            clean += f" {char} " if is_chinese(ord(char)) else char
    words = []
    for word in clean.split():
        if lowercase:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(char for char in word if unicodedata.category(char) != "Mn")
        words += "".join(f" {char} " if is_punctuation(char) else char for char in word).split()
    return words


def pieces_of(word, vocabulary):
    """Greedy longest-match-first WordPiece."""
    pieces, start = [], 0
    while start < len(word) <= 200:
        ends = range(len(word), start, -1)
        found = next((e for e in ends if ("##" if start else "") + word[start:e] in vocabulary), None)
        if found is None:
            return ["[UNK]"]
        pieces.append(("##" if start else "") + word[start:found])
        start = found
    return pieces or ["[UNK]"]


def ids_of(string, vocabulary, lowercase):
    return vocabulary.ids(p for word in words_of(string, lowercase) for p in pieces_of(word, vocabulary))


def names(ids, pieces=PIECES):
    return [[pieces[index] for index in row] for row in ids.to_list()]


def split(strings, *settings):
    """Returns the words of a `WordSplitter` as strings."""
    return [[word.decode() for word in row] for row in WordSplitter(*settings)(strings).to_list()]


@pytest.fixture(scope="module")
def read_case(data, golden):
    """Returns a function that reads (tokenizer, texts, ids of Google's program, lowercase) for a public vocabulary."""

    @functools.cache
    def read(name):
        content = json.loads((golden / "google_tokenizer" / f"{name}.json").read_text())
        tokenizer = BertTokenizer(data / "vocab" / f"{name}-vocab.txt", content["lowercase"])
        texts = [case["text"].encode(errors="surrogatepass") for case in content["cases"]]
        return tokenizer, texts, [case["ids"] for case in content["cases"]], content["lowercase"]

    return read


@pytest.fixture
def uncased(read_case):
    return read_case("bert-base-uncased")[0]


@pytest.mark.parametrize("name", ["cased", "chinese", "multilingual-cased", "uncased"])
def test_ids_equal_google(read_case, name):
    tokenizer, texts, ids, lowercase = read_case(f"bert-base-{name}")
    assert len(texts) == 701
    assert tokenizer(texts).to_list() == ids
    # The reference of the tests below agrees.
    assert [ids_of(string.decode(errors="ignore"), tokenizer.vocabulary, lowercase) for string in texts] == ids


@pytest.mark.parametrize("name", ["multilingual-cased", "uncased"])
def test_offsets_select_text_that_normalizes_to_the_token(read_case, name):
    """Offsets are sorted, inside the text and on character boundaries; each slice lies within one word."""
    tokenizer, texts, expected, lowercase = read_case(f"bert-base-{name}")
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.with_offsets(texts))
    assert ids == expected
    cut = 0
    for string, row, start, end in zip(texts, ids, starts, ends, strict=True):
        assert start == sorted(start)
        assert end == sorted(end)
        for s, e, index in zip(start, end, row, strict=True):
            assert 0 <= s < e <= len(string)
            name = tokenizer.vocabulary.pieces[index]
            piece = name.removeprefix("##")
            (word,) = words_of(string[s:e].decode(), lowercase)  # Decoding raises in the middle of a character.
            # A sigma depends on the rest of its word; several tokens may come from one character.
            whole = piece.replace("ς", "σ") == word.replace("ς", "σ")
            part = piece in word and words_of(string[s:e].decode()[0], lowercase) == [word]
            assert name == "[UNK]" or whole or part
            cut += 1
    assert cut > 15000


def test_saved_model_and_tf_data(read_case, tmp_path):
    uncased, texts, expected, _ = read_case("bert-base-uncased")
    module = tf.Module()
    specs = [tf.TensorSpec([None], tf.string)]
    module.tokenize = tf.function(uncased.with_offsets, input_signature=specs, autograph=False)
    tf.saved_model.save(module, tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert list((tmp_path / "there" / "assets").iterdir()) == []
    ids, starts, ends = tf.saved_model.load(tmp_path / "there").tokenize(tf.constant(texts))
    assert ids.to_list() == expected
    for eager, loaded in zip(uncased.with_offsets(texts)[1:], (starts, ends), strict=True):
        assert eager.to_list() == loaded.to_list()
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(100).map(uncased).unbatch()
    assert [row.numpy().tolist() for row in dataset] == expected


def test_squad_questions(uncased, data, golden):
    folder = golden / "bert_tokenizer_squad_questions"
    articles = json.loads((data / "squad" / "dev-v1.1.json").read_text())["data"]
    questions = [qa["question"] for a in articles for paragraph in a["paragraphs"] for qa in paragraph["qas"]]
    assert uncased(questions).to_list() == json.loads((folder / "tokenized_questions.json").read_text())
    assert split(questions) == json.loads((folder / "basic_tokenized_questions.json").read_text())


# Ideographs, Hangul syllables, private use and what is unassigned: large ranges of characters that are treated alike.
UNIFORM = [(0x3400, 0xA000), (0xAC00, 0xD7A4), (0xE000, 0xF900), (0x17000, 0x18D00), (0x20000, 0x2F800)]
UNIFORM += [(0x2FA20, 0x32000)]


@pytest.mark.parametrize(
    ("lowercase", "step"),
    [(True, 97), pytest.param(True, 1, marks=pytest.mark.slow), pytest.param(False, 1, marks=pytest.mark.slow)],
)
def test_every_code_point(lowercase, step):
    """Each code point, between two letters, gives the words of the reference. Unassigned planes are sampled."""
    codes = {*range(0xD800), *range(0xE000, 0x32000), *range(0x32000, sys.maxunicode, 499), *range(0xE0000, 0xE0200)}
    edges = {edge + near for edge in itertools.chain(*UNIFORM, *CHINESE) for near in range(-4, 4)}
    codes -= {code for first, last in UNIFORM for code in range(first, last) if code % step and code not in edges}
    codes = sorted(codes)
    found = split([f"a{chr(code)}a" for code in codes], lowercase)
    different = {
        code for code, words in zip(codes, found, strict=True) if words != words_of(f"a{chr(code)}a", lowercase)
    }
    if unicodedata.unidata_version == "14.0.0":
        assert different == YOUNGER_PUNCTUATION
        assert {unicodedata.category(chr(code)) for code in different} == {"Cn"}
    else:
        assert different <= YOUNGER_PUNCTUATION


def test_marks_not_in_canonical_order():
    """The one rule that a table cannot express: NFD sorts marks, and keeps spacing marks. Usual text is sorted."""
    characters = map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)])
    marks = [char for char in characters if unicodedata.combining(char) and unicodedata.category(char) != "Mn"]
    assert len(marks) == 25
    strings = [f"a{first}{second}" for first in marks for second in marks]
    for string, (word,) in zip(strings, split(strings), strict=True):
        classes = [unicodedata.combining(char) for char in string]
        assert (word == words_of(string, True)[0]) == (classes == sorted(classes))


def test_lowercase_and_strip_accents_are_independent(eager):
    assert split(["ÉTÉ İ"], True, False) == [["été", "i̇"]]
    assert split(["ÉTÉ"], False, True) == [["ETE"]]


def test_final_sigma():
    strings = ["ΟΔΟΣ", "ΣΟΦΟΣ ΑΝΗΡ", "ΑΣ'Σ.Β", "ΑΣ\u00adΒ", "ΑΣ\x01", "ΣΑΣΑΣ, ΑΣ-ΑΣ", "中Σ ΑΣ中", "aΣ1 ªΣ"]
    strings += ["ΑΣ\U000e0067\U000e007f \U000e0067ΑΣΑ ΑΣ\U000e0100Α"]
    strings += ["".join(chars) for n in range(1, 5) for chars in itertools.product("ΣΑ'1 \u0301中", repeat=n)]
    assert split(strings) == [words_of(string, True) for string in strings]


def test_maximum_word_length(eager):
    vocabulary = Vocabulary([*PIECES, "ᄀ", "##ᄀ", "##ᅡ", "##ᆨ"])
    tokenizer = BertTokenizer(vocabulary)
    for string, pieces in {
        "a" * 200: ["a"] + ["##a"] * 199,
        "a" * 201: ["[UNK]"],
        "b a" + "b" * 200 + "! a": ["b", "[UNK]", "!", "a"],
        "a" * 150 + "!" + "b" * 150: ["a"] + ["##a"] * 149 + ["!", "b"] + ["##b"] * 149,
        "가" * 67: ["ᄀ", "##ᅡ"] + ["##ᄀ", "##ᅡ"] * 66,  # 134 characters after decomposition.
        "각" * 67: ["[UNK]"],  # 201 characters.
        "": [],
        " \t\r\n\u3000\u2028": [],
        "\u0301\u200b\0": [],
    }.items():
        ids, starts, ends = tokenizer.with_offsets([string, "a"])
        expected = ids_of(string, vocabulary, True)
        assert vocabulary.ids(pieces) == expected
        assert ids.to_list() == tokenizer([string, "a"]).to_list() == [expected, vocabulary.ids(["a"])]
        assert starts.row_lengths().numpy().tolist() == ends.row_lengths().numpy().tolist() == [len(expected), 1]
        if pieces == ["[UNK]"]:
            assert (starts.to_list()[0], ends.to_list()[0]) == ([0], [len(string.encode())])


def test_offsets_of_known_texts(eager):
    tokenizer = BertTokenizer([*SPECIAL, "ᄒ", "##ᅡ", "##ᆫ", "ᄀ", "!", "hello", "jump", "##ed"])
    texts = ["한!", "", "가\u0301 !", "Héllo  jumpe\u0301d!"]  # A character of several tokens; accents after a letter.
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.with_offsets(texts))
    assert ids == [[5, 6, 7, 9], [], [8, 6, 9], [10, 11, 12, 9]]
    assert starts == [[0, 0, 0, 3], [], [0, 0, 6], [0, 8, 12, 16]]
    assert ends == [[3, 3, 3, 4], [], [5, 5, 7], [6, 12, 16, 17]]


def test_invalid_utf8_is_dropped(uncased):
    """Like U+FFFD; Python's decoder agrees on where a malformed character ends."""
    contents = [b"a\xffb", b"\xe4\xbd", b"a\xe4\xbdb a", b"\xf0\x9f\x98b", b"a\xed\xa0\x80b", b"\xc0\x80a"]
    contents += [b"\xf4\x90\x80\x80", b"\x80" * 9, *np.random.default_rng(3).bytes(20_000).split(b"a")]
    ids, starts, ends = (ragged.to_list() for ragged in uncased.with_offsets(contents))
    assert ids == [ids_of(text.decode(errors="replace"), uncased.vocabulary, True) for text in contents]
    for text, start, end in zip(contents, starts, ends, strict=True):
        assert all(0 <= s < e <= len(text) for s, e in zip(start, end, strict=True))


def test_kept_special_tokens(eager):
    texts = ["a[MASK]b [mask] [MASK]", "a \ufada\ufa6e b"]
    assert names(BertTokenizer(PIECES)(texts)) == [
        ["a", "[", "mask", "]", "b", "[", "mask", "]", "[", "mask", "]"],
        ["a", "[UNK]", "[UNK]", "b"],
    ]
    ids, starts, ends = BertTokenizer(PIECES, keep_special_tokens=("[MASK]",)).with_offsets(texts)
    assert names(ids) == [["a", "[MASK]", "b", "[", "mask", "]", "[MASK]"], ["a", "[UNK]", "[UNK]", "b"]]
    assert starts.to_list() == [[0, 1, 7, 9, 10, 14, 16], [0, 2, 5, 9]]
    assert ends.to_list() == [[1, 7, 8, 10, 14, 15, 22], [1, 5, 8, 10]]
    for literals, message in (
        (["[X]"], r"has a token that is not in the vocabulary, the list of pieces. Received: '\[X\]'"),
        ([3], "has a token that is not in the vocabulary"),
        ("[MASK]", r"must be a list or a tuple. Received: '\[MASK\]'"),
    ):
        with pytest.raises(ValueError, match=f"`keep_special_tokens` {message}"):
            BertTokenizer(PIECES, keep_special_tokens=literals)


@pytest.mark.parametrize("lowercase", [True, False])
def test_added_tokens(eager, lowercase):
    """Tokens are matched in the original text first, then in the normalized text, longest match first."""
    added = [AddedToken("<ent>", normalized=False, special=True), "Covid-19", "ab b"]
    added += [AddedToken("b!a", normalized=False), "ΟΣ", AddedToken("##b", wordpiece=True)]
    pieces = [*PIECES, "<ent>", "Covid-19", "ab b", "b!a", "ΟΣ", "ab"]
    tokenizer = BertTokenizer(Vocabulary(pieces, added), lowercase)
    covid = ["Covid-19", "b"] if lowercase else ["[UNK]", "[UNK]", "[UNK]"]
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
    ids, starts, ends = tokenizer.with_offsets(list(expected))
    assert names(ids, pieces) == names(tokenizer(list(expected)), pieces) == list(expected.values())
    for (text, row), first, last in zip(expected.items(), starts.to_list(), ends.to_list(), strict=True):
        for name, start, end in zip(row, first, last, strict=True):
            part = text.encode()[start:end].decode()
            assert name == "[UNK]" or part.replace("\0", "") in (name, name.removeprefix("##"), "COVID-19")


@pytest.mark.parametrize("normalized", [True, False])
def test_added_tokens_that_are_single_words(eager, normalized):
    """They are parts of words beside a letter, mark, digit or `_`; the characters of the longest match stay text."""
    added = [AddedToken(string, normalized, single_word=True) for string in ("ab", "ab!")]
    added.append(AddedToken("b!", normalized))
    tokenizer = BertTokenizer(Vocabulary([*PIECES, "ab", "ab!", "b!"], added))
    expected = {
        "ab": ["ab"],
        "ab (ab) bab aab ab": ["ab", "[UNK]", "ab", "[UNK]", "b", "##a", "##b", "a", "##a", "##b", "ab"],
        "ab!a ab! ab_ab": ["a", "##b", "!", "a", "ab!", "a", "##b", "[UNK]", "a", "##b"],
        "ab\u0301 한ab ab😀 ab!": [*(["ab"] if normalized else ["a", "##b"]), "[UNK]", "ab", "[UNK]", "ab!"],
        "中ab": ["中", "ab"] if normalized else ["中", "a", "##b"],
        "": [],
    }
    ids, starts, ends = tokenizer.with_offsets(list(expected))
    assert names(ids, tokenizer.vocabulary.pieces) == list(expected.values())
    assert names(tokenizer(list(expected)), tokenizer.vocabulary.pieces) == list(expected.values())
    assert (starts.to_list()[1], ends.to_list()[1]) == (
        [0, 3, 4, 6, 8, 9, 10, 12, 13, 14, 16],
        [2, 4, 6, 7, 9, 10, 11, 13, 14, 15, 18],
    )


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
def test_vocabulary_settings(eager, settings, string, pieces):
    tokenizer = BertTokenizer(Vocabulary(PIECES, **settings))
    ids, starts, ends = tokenizer.with_offsets([string])
    assert names(ids) == names(tokenizer([string])) == [pieces]
    words = [string.encode()[start:end].decode() for start, end in zip(starts[0], ends[0], strict=True)]
    assert "".join(words) == string.replace(" ", "")


def test_all_settings_combined(eager):
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
def test_pieces_with_white_space_match_nothing(eager, chinese):
    """Texts consist of words; nor do these pieces disturb words that start like them."""
    pieces = [*SPECIAL, "new york", "the\u3000cat", "##w\u2028x", "a\x85", "the", "##w", "jersey", "ne", "is"]
    tokenizer = BertTokenizer(Vocabulary(pieces, tokenize_chinese_chars=chinese))
    found = names(tokenizer(["new jersey is", "the ", "the\u3000cat", "new york is new", "no word is"]), pieces)
    new = ["ne", "##w"]
    expected = [[*new, "jersey", "is"], ["the"], ["the", "[UNK]"], [*new, "[UNK]", "is", *new], ["[UNK]"] * 2 + ["is"]]
    assert found == expected


def test_duplicate_pieces_and_pieces_with_nul(eager):
    pieces = [*PIECES, "c\0d", "b", "c"]
    assert BertTokenizer(pieces)(["b bb cd c"]).to_list() == [[len(pieces) - 2] * 2 + [8, 1, len(pieces) - 1]]


def test_input_shapes_and_lengths(eager):
    small = BertTokenizer(PIECES)
    tokenizer = pickle.loads(pickle.dumps(small))
    assert tokenizer.vocabulary == small.vocabulary
    assert tokenizer([["a b", ""], ["ab", "!"]]).to_list() == [[[5, 7], []], [[5, 8], [9]]]
    ids, starts, ends = tokenizer.with_offsets("a b")
    assert (ids.numpy().tolist(), starts.numpy().tolist(), ends.numpy().tolist()) == ([5, 7], [0, 2], [1, 3])
    assert tokenizer.with_offsets([["a b"], ["b"]])[1].to_list() == [[[0, 2]], [[0]]]
    ids, starts, _ = tokenizer.with_offsets(tf.zeros([0], tf.string))
    assert ids.shape == starts.shape == (0, None)
    assert ids.dtype == starts.dtype == tf.int32
    assert tokenizer(["a b! " * 200_000]).row_lengths().numpy().tolist() == [600_000]
    assert tokenizer(["b" * 1_000_000]).to_list() == [[1]]


def test_texts_are_tokenized_in_parts(monkeypatch):
    def split(texts):
        return tf.strings.split(texts), tf.strings.bytes_split(texts)

    texts = ["a b", "", "cd", "e f g", "h"]
    whole = [values.to_list() for values in split(tf.constant(texts))]
    monkeypatch.setattr(text_tokenizer, "_TEXTS", 2)
    assert [values.to_list() for values in text_tokenizer.tokenized(split, texts)] == whole
