"""Normalizers and pre-tokenizers other than BERT's: ids and offsets are those of Hugging Face's tokenizers."""

import itertools
import json
import unicodedata

import keras
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.text import registry, tokenizer_json
from tests.conftest import eagerly
from tests.text.google_words import SPECIAL, listed, listed_rows
from tests.text.json_steps import replace, steps

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXTS = [
    "Don't stop-it, a_b 12½ ``x''",
    "Ünïcode cafe\u0301 É",
    "ΣΑΣ İstanbul STRAẞE Straße",
    "中国語 \u8c48\uf900 がカ\u3099ｶﾞ",
    "ﬁﬃ \ufdfa Å™①Ⅷ², Ｂｃ３！？\u3000x",
    "a\u0323\u0301 a\u0301\u0323 s\u0323\u0307 \u1e9b\u0323 \u0301e",
    "각 \u1100\u1161\u11a8 가\u11a8",
    "a\u200bb\u200dc\u00ad\ufeff \x00\x01\x07z\x85\x9fy\xa0\u2028w \ue000\ufffd",
    "हिन्दी নোு שָּׁ رَبِّي",
    "😀👍🏽 🅰ⓐ",
    "",
    " \t ",
    "x" * 100 + " " + "x" * 101,
    "é" * 60 + "e\u0301" * 60,
    "ﬃ" * 40,
    "## ##x a##b",
    "[MASK]a [SEP]",
]
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}


def punctuation(behavior):
    return steps("WhitespaceSplit", {"type": "Punctuation", "behavior": behavior})


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


# A normalizer, a pre-tokenizer, and whether they are tried in `tf.data`: every kind of step, but NFKC.
CASES = [
    (steps("NFKC", "Lowercase"), {"type": "Whitespace"}, False),
    (steps("StripAccents", "Lowercase", "NFC"), punctuation("MergedWithPrevious"), True),
    ({"type": "NFKD"}, punctuation("MergedWithNext"), False),
    (None, punctuation("Removed"), False),
    (steps("NFC", BERT | {"lowercase": True}), steps("Whitespace", digits(True)), True),
    (BERT | {"lowercase": False}, steps(punctuation("Contiguous"), digits(False)), False),
    (
        steps(replace("ß", "ss"), replace("``", '"'), "Lowercase", replace("ss", "ß")),
        {"type": "WhitespaceSplit"},
        True,
    ),
]
REORDERED = ("\u0301\u0323", "ّ", "ָ")  # Marks that change places.


@pytest.fixture(scope="module")
def pieces():
    """The characters of the texts, in all forms, so that ids show every difference."""
    every = "".join(TEXTS)
    characters = set()
    for text in (every, every.lower()):
        characters.update(text)
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            characters.update(unicodedata.normalize(form, text))
    visible = sorted(char for char in characters if char.strip() and char not in "\0\1")
    return [*SPECIAL, *visible, *(f"##{char}" for char in visible), "##", "the"]


def write(path, pieces, normalizer, pre_tokenizer):
    """Writes a `tokenizer.json`, and returns the library's tokenizer."""
    content = json.loads(tokenizer_json.to_json(keras_bert.Vocabulary(pieces, max_word_length=100), True))
    content["normalizer"] = normalizer
    content["pre_tokenizer"] = pre_tokenizer
    path.write_text(json.dumps(content))
    return tokenizers.Tokenizer.from_file(str(path))


def check_places(text, encoding, starts, ends):
    """Asserts that each token has at least the range of the library, which is in characters.

    It also has what was removed after it, as the accents of a letter.
    """
    places = [0, *itertools.accumulate(len(char.encode()) for char in text)]
    is_reordered = any(mark in text for mark in REORDERED)
    for (first, last), start, end in zip(encoding.offsets, starts, ends, strict=True):
        assert 0 <= start < end <= places[-1]
        if not is_reordered:
            assert start <= places[first]
            assert end >= places[last]


@pytest.mark.slow
@pytest.mark.parametrize(("normalizer", "pre_tokenizer", "in_graph"), CASES)
def test_the_ids_of_the_library(tmp_path, pieces, normalizer, pre_tokenizer, in_graph):
    path = tmp_path / "tokenizer.json"
    library = write(path, pieces, normalizer, pre_tokenizer)
    lowercase = registry.read_json(path, path.read_text())["lowercase"]
    preprocessor = keras_bert.TextPreprocessor(path, 512, lowercase=lowercase, keep_special_tokens=SPECIAL)
    expected = library.encode_batch(TEXTS, add_special_tokens=False)

    tokenize = preprocessor.tokenizer.with_offsets
    if in_graph:
        found = next(iter(tf.data.Dataset.from_tensors(TEXTS).map(tokenize)))
    else:
        with eagerly():
            found = tokenize(TEXTS)
    ids, starts, ends = listed_rows(found)
    assert ids == [encoding.ids for encoding in expected]
    for text, encoding, begins, limits in zip(TEXTS, expected, starts, ends, strict=True):
        check_places(text, encoding, begins, limits)

    again = tmp_path / "again.json"
    again.write_text(tokenizer_json.to_json(preprocessor.vocabulary, lowercase))
    encodings = tokenizers.Tokenizer.from_file(str(again)).encode_batch(TEXTS, add_special_tokens=False)
    assert [encoding.ids for encoding in encodings] == ids


def test_offsets(tmp_path):
    """Bytes of the original text: a composed letter, an expansion and a replacement have those they came from."""
    normalizer = steps("NFKC", "Lowercase", replace("``", '"'))
    path = tmp_path / "tokenizer.json"
    write(path, [*SPECIAL, "é", "f", "##f", "##i", '"', "x"], normalizer, {"type": "Whitespace"})
    tokenizer = keras_bert.BertTokenizer(path)
    ids, starts, ends = listed(tokenizer.with_offsets("E\u0301 ﬃ ``x"))
    assert ids == [5, 6, 7, 8, 9, 10]
    assert starts == [0, 4, 4, 4, 8, 10]
    assert ends == [3, 7, 7, 7, 10, 11]


class Exported(tf.Module):
    """A preprocessor of pairs as a SavedModel."""

    def __init__(self, preprocessor):
        super().__init__()
        specs = [tf.TensorSpec([None], tf.string)] * 2
        self.answer = tf.function(lambda text, pair: preprocessor({"text": text, "pair": pair}), specs)


@pytest.mark.slow
def test_saved_models(tmp_path, pieces):
    path = tmp_path / "tokenizer.json"
    library = write(path, pieces, steps("NFKC", "Lowercase"), punctuation("Isolated"))
    preprocessor = keras_bert.TextPreprocessor(path, 64)
    expected = library.encode("Ünïcode", "cafe\u0301!").ids
    text = tf.constant(["Ünïcode"])
    pair = tf.constant(["cafe\u0301!"])

    inputs = {name: keras.Input([], dtype="string", name=name) for name in ("text", "pair")}
    keras.Model(inputs, preprocessor(inputs)).save(tmp_path / "model.keras")
    outputs = keras.saving.load_model(tmp_path / "model.keras")({"text": text, "pair": pair})
    assert outputs["token_ids"][0, : len(expected)].numpy().tolist() == expected

    tf.saved_model.save(Exported(preprocessor), tmp_path / "saved")
    outputs = tf.saved_model.load(tmp_path / "saved").answer(text, pair)
    assert outputs["token_ids"][0, : len(expected)].numpy().tolist() == expected


def test_the_case_is_that_of_the_normalizer():
    vocabulary = keras_bert.Vocabulary(SPECIAL, normalizer={"type": "NFC"})
    with pytest.raises(ValueError, match="lowercase"):
        keras_bert.BertTokenizer(vocabulary, lowercase=True)
