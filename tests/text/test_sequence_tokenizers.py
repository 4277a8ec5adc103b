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

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "Don't stop-it, a_b 12½ ``x''",
    "Ünïcode cafe\u0301 É",
    "ΣΑΣ İstanbul STRAẞE Straße",
    "中国語 \u8c48\uf900 がカ\u3099ｶﾞ",
]
TEXTS += [
    "ﬁﬃ \ufdfa Å™①Ⅷ², Ｂｃ３！？\u3000x",
    "a\u0323\u0301 a\u0301\u0323 s\u0323\u0307 \u1e9b\u0323 \u0301e",
    "각 \u1100\u1161\u11a8 가\u11a8",
]
TEXTS += [
    "a\u200bb\u200dc\u00ad\ufeff \x00\x01\x07z\x85\x9fy\xa0\u2028w \ue000\ufffd",
    "हिन्दी নোு שָּׁ رَبِّي",
    "😀👍🏽 🅰ⓐ",
    "",
    " \t ",
]
TEXTS += ["x" * 100 + " " + "x" * 101, "é" * 60 + "e\u0301" * 60, "ﬃ" * 40, "## ##x a##b", "[MASK]a [SEP]"]
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}


def steps(*values):
    """Returns a sequence, whose steps may be given by their types."""
    parts = [{"type": value} if isinstance(value, str) else value for value in values]
    return {"type": "Sequence", "normalizers": parts, "pretokenizers": parts}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def punctuation(behavior):
    return steps("WhitespaceSplit", {"type": "Punctuation", "behavior": behavior})


CASES = [
    (steps("NFKC", "Lowercase"), {"type": "Whitespace"}),
    (steps("StripAccents", "Lowercase", "NFC"), punctuation("MergedWithPrevious")),
    ({"type": "NFKD"}, punctuation("MergedWithNext")),
    (None, punctuation("Removed")),
    (steps("NFC", {**BERT, "lowercase": True}), steps("Whitespace", {"type": "Digits", "individual_digits": True})),
    ({**BERT, "lowercase": False}, steps(punctuation("Contiguous"), {"type": "Digits", "individual_digits": False})),
    (steps(replace("ß", "ss"), replace("``", '"'), "Lowercase", replace("ss", "ß")), {"type": "WhitespaceSplit"}),
]
IN_GRAPHS = CASES[1], CASES[4], CASES[6]  # Every kind of step, and `test_offsets` has NFKC.


@pytest.fixture(scope="module")
def pieces():
    """The characters of the texts, in all forms, so that ids show every difference."""
    forms = ["".join(TEXTS), "".join(TEXTS).lower()]
    forms += [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD") for text in forms]
    characters = sorted({char for char in "".join(forms) if char.strip() and char not in "\0\1"})
    return [*SPECIAL, *characters, *(f"##{char}" for char in characters), "##", "the"]


def write(path, pieces, normalizer, pre_tokenizer):
    """Writes a `tokenizer.json`, and returns the library's tokenizer."""
    content = json.loads(tokenizer_json.to_json(keras_bert.Vocabulary(pieces, max_word_length=100), True))
    path.write_text(json.dumps({**content, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer}))
    return tokenizers.Tokenizer.from_file(str(path))


@pytest.mark.slow
@pytest.mark.parametrize(("normalizer", "pre_tokenizer"), CASES)
def test_the_ids_of_the_library(tmp_path, pieces, normalizer, pre_tokenizer):
    """Three of them in `tf.data`. A token's range also has what was removed after it, as the accents of a letter."""
    path = tmp_path / "tokenizer.json"
    library = write(path, pieces, normalizer, pre_tokenizer)
    lowercase = registry.read_json(path, path.read_text())["lowercase"]
    preprocessor = keras_bert.TextPreprocessor(path, 512, lowercase=lowercase, keep_special_tokens=SPECIAL)
    expected = library.encode_batch(TEXTS, add_special_tokens=False)
    tokenize = preprocessor.tokenizer.with_offsets
    if (normalizer, pre_tokenizer) in IN_GRAPHS:
        found = next(iter(tf.data.Dataset.from_tensors(TEXTS).map(tokenize)))
    else:
        with eagerly():
            found = tokenize(TEXTS)
    ids, starts, ends = (ragged.to_list() for ragged in found)
    assert ids == [encoding.ids for encoding in expected]
    for text, encoding, start, end in zip(TEXTS, expected, starts, ends, strict=True):
        places = [0, *itertools.accumulate(len(char.encode()) for char in text)]
        reordered = any(mark in text for mark in ("\u0301\u0323", "ّ", "ָ"))  # Marks that change places.
        for (first, last), begin, stop in zip(encoding.offsets, start, end, strict=True):
            assert 0 <= begin < stop <= places[-1]
            assert reordered or (begin <= places[first] and stop >= places[last])
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
    ids, starts, ends = (values.numpy().tolist() for values in tokenizer.with_offsets("E\u0301 ﬃ ``x"))
    assert ids == [5, 6, 7, 8, 9, 10]
    assert (starts, ends) == ([0, 4, 4, 4, 8, 10], [3, 7, 7, 7, 10, 11])


@pytest.mark.slow
def test_saved_models(tmp_path, pieces):
    path = tmp_path / "tokenizer.json"
    library = write(path, pieces, steps("NFKC", "Lowercase"), punctuation("Isolated"))
    preprocessor = keras_bert.TextPreprocessor(path, 64)
    expected = library.encode("Ünïcode", "cafe\u0301!").ids
    texts = {name: keras.Input([], dtype="string", name=name) for name in ("text", "pair")}
    model = keras.Model(texts, preprocessor(texts))
    model.save(tmp_path / "model.keras")
    module = tf.Module()
    module.answer = tf.function(
        lambda text, pair: preprocessor({"text": text, "pair": pair}), [tf.TensorSpec([None], tf.string)] * 2
    )
    tf.saved_model.save(module, tmp_path / "saved")
    inputs = {"text": tf.constant(["Ünïcode"]), "pair": tf.constant(["cafe\u0301!"])}
    for outputs in (
        keras.saving.load_model(tmp_path / "model.keras")(inputs),
        tf.saved_model.load(tmp_path / "saved").answer(inputs["text"], inputs["pair"]),
    ):
        assert outputs["token_ids"][0, : len(expected)].numpy().tolist() == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalizer": {"type": "Nmt"}}, r"`normalizer` has a step that is not supported.*\{'type': 'Nmt'\}"),
        ({"normalizer": steps({**replace("a", ""), "pattern": {"Regex": "a+"}})}, "a step Replace that is not supp"),
        ({"normalizer": {"type": "NFC"}, "strip_accents": True}, "Expected strip_accents=None. Received: strip_acc"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "`pre_tokenizer` has a step that is not supported.*ByteLevel"),
        ({"pre_tokenizer": {"type": "Punctuation", "behavior": "x"}}, "whose `behavior` is none of Isolated"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.Vocabulary(SPECIAL, **settings)
    vocabulary = keras_bert.Vocabulary(SPECIAL, normalizer={"type": "NFC"})
    with pytest.raises(ValueError, match="Expected lowercase=False. Received: lowercase=True"):
        keras_bert.BertTokenizer(vocabulary, lowercase=True)
