"""Byte-level BPE inside the graph: ids and places of Hugging Face's tokenizers, and what texts may hold."""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.text import words
from keras_bert.text.byte_level_step import STEP
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import pieces_of, pieces_of_texts, vocabulary
from tests.text.google_words import listed_rows, surfaces_of

PREFIX = STEP | {"add_prefix_space": True}


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(vocabulary())


@pytest.mark.parametrize(
    ("name", "folder"),
    [("roberta", "roberta_model"), ("roberta_prefix", "roberta_prefix"), ("mpnet", "mpnet_model")],
)
def test_ids_and_places_of_the_library(golden, name, folder):
    """Hostile texts, sentences and fuzz; at most 128 tokens with both special tokens."""
    rows = json.loads((golden / "starting_models" / "tokens.json").read_text())[name]
    metadata = tokenizer_files.read(Folder(golden / "starting_models" / folder), Metadata())
    preprocessor = keras_bert.TextPreprocessor(metadata.vocabulary, 128, lowercase=metadata.lowercase)
    texts = [row["text"] for row in rows]
    packed = preprocessor.ragged(texts)["token_ids"].to_list()
    assert packed == [row["ids"] for row in rows]
    _, starts, ends = listed_rows(preprocessor.tokenizer.with_offsets(texts))
    for row, begins, limits in zip(rows, starts, ends, strict=True):
        places = np.transpose([begins, limits])[:126].tolist()
        assert [[0, 0], *places, [0, 0]] == row["bytes"], row["text"]


@pytest.mark.usefixtures("eager")
def test_spaces_and_tokens(tokenizer):
    texts = [" the  café", "a <mask>\n<mask></s>", "", "  ", "<mask", "\0a\x01\0<mask>\0"]
    assert pieces_of_texts(tokenizer, texts) == [
        ["Ġthe", "Ġ", "Ġca", "fÃ©"],
        ["a", "<mask>", "<mask>", "</s>"],
        [],
        ["ĠĠ"],
        [*"<mask"],
        ["Ā", "a", "ā", "Ā", "<mask>", "Ā"],
    ]
    _, starts, ends = tokenizer.with_offsets(texts)
    assert starts.to_list()[:2] == [[1, 5, 6, 8], [0, 2, 9, 15]]
    assert ends.to_list()[:2] == [[4, 5, 8, 11], [1, 8, 15, 19]]
    untrimmed = build_tokenizer(vocabulary(trim_offsets=False))
    _, starts, ends = untrimmed.with_offsets(texts)
    assert starts.to_list()[:2] == [[0, 4, 5, 8], [0, 1, 8, 15]]
    assert ends.to_list()[:2] == [[4, 5, 8, 11], [1, 8, 15, 19]]


@pytest.mark.usefixtures("eager")
def test_a_space_before_each_text():
    prefixed = build_tokenizer(vocabulary(pre_tokenizer=PREFIX))
    assert pieces_of_texts(prefixed, ["the the", " the", "", "a<mask>the"]) == [
        ["Ġthe", "Ġthe"],
        ["Ġthe"],
        [],
        ["Ġa", "<mask>", "Ġthe"],
    ]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("pre_tokenizer", [None, PREFIX])
def test_words_that_are_given_one_by_one_always_have_a_space(pre_tokenizer):
    tokenizer = build_tokenizer(vocabulary(pre_tokenizer=pre_tokenizer))
    ids = tokenizer.of_words(["the", " a", "", "<mask>", "on"]).to_list()
    found = [pieces_of(tokenizer, row) for row in ids]
    assert found == [["Ġthe"], ["Ġa"], [], ["<mask>"], ["Ġ", "on"]]


@pytest.mark.usefixtures("eager")
def test_flags_of_added_tokens():
    tokens = [
        keras_bert.AddedToken("foo", single_word=True, rstrip=True),
        keras_bert.AddedToken("foobar", normalized=False),
        keras_bert.AddedToken("é", normalized=False, lstrip=True, rstrip=True),
    ]
    known = vocabulary(further=["foo", "foobar", "é"], added_tokens=tokens)
    texts = ["foo  a", "xfoo", "foobar", "a é the", "foo foo é é"]
    assert pieces_of_texts(build_tokenizer(known), texts) == [
        ["foo", "a"],
        ["x", "f", "o", "o"],
        ["foobar"],
        ["a", "é", "t", "he"],
        ["foo", "foo", "é", "é"],
    ]
    assert known.text(["a", "foo", "fÃ©"]) == "afoofé"


@pytest.mark.usefixtures("eager")
def test_words_have_no_white_space(tokenizer):
    """Also where a token has some, before a word and at the end."""
    texts = [" the  on\n\na's x\n", "   ", "", "字 (caf\u00e9)"]
    found = words.words_of(tokenizer, texts)
    surfaces = []
    for text, starts, ends in zip(texts, found.starts.to_list(), found.ends.to_list(), strict=True):
        surfaces.append(surfaces_of(text, starts, ends))
    assert surfaces == [["the", "on", "a", "'", "s", "x"], [" "], [], ["字", "(", "café", ")"]]
    assert found.number.to_list()[0] == [0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5]


@pytest.mark.usefixtures("eager")
def test_malformed_bytes(tokenizer):
    contents = [b"a\xff <mask>", b"\xe4\xbd", b"\xf0\x9f\x98\0\x80", b""]
    replaced = [content.decode(errors="replace") for content in contents]
    assert tokenizer(contents).to_list() == tokenizer(replaced).to_list()
    ids, starts, ends = listed_rows(tokenizer.with_offsets(contents))
    assert starts[0] == [0, 1, 1, 1, 3]
    assert ends[0] == [1, 2, 2, 2, 9]
    assert len(ids[2]) == 7


class Exported(tf.Module):
    """A tokenizer as a SavedModel, whose ids are padded with -1."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        self.ids = tf.function(lambda texts: tokenizer(texts).to_tensor(-1))


def test_a_saved_model(tokenizer, tmp_path):
    texts = ["the ab abc\0 a", "", "é  ab"]
    expected = tokenizer(texts).to_tensor(-1).numpy()
    module = Exported(tokenizer)
    signature = module.ids.get_concrete_function(tf.TensorSpec([None], tf.string))
    tf.saved_model.save(module, tmp_path, signature)
    loaded = tf.saved_model.load(tmp_path).signatures["serving_default"]
    np.testing.assert_array_equal(loaded(tf.constant(texts))["output_0"], expected)


def test_a_data_set_of_merges_in_a_loop():
    tokenizer = build_tokenizer(vocabulary(["ab c", "a b", "Ġ a"]))
    assert tokenizer.tables is None
    dataset = tf.data.Dataset.from_tensors(["abc a", "", "ab"]).map(tokenizer)
    known = tokenizer.vocabulary
    assert next(iter(dataset)).to_list() == [known.ids(["abc", "Ġa"]), [], known.ids(["ab"])]


@pytest.mark.usefixtures("eager")
def test_packing_and_masks():
    known = vocabulary()
    preprocessor = keras_bert.TextPreprocessor(known, 16, keep_special_tokens=["[MASK]"])
    packed = preprocessor((["the [MASK]"], [" a"]))
    row = pieces_of(preprocessor.tokenizer, packed["token_ids"][0].numpy())
    assert row[:8] == ["<s>", "t", "he", "<mask>", "</s>", "</s>", "Ġa", "</s>"]
    assert set(row[8:]) == {"<pad>"}
    assert not packed["segment_ids"].numpy().any()
    assert preprocessor.decode(packed["token_ids"][0][:8]) == "the<mask> a"
    np.testing.assert_array_equal(preprocessor(["\ud800"])["padding_mask"][0, :8], [1] * 8)


def test_the_case_is_not_changed():
    with pytest.raises(ValueError, match="lowercase"):
        keras_bert.TextPreprocessor(vocabulary(), 16, lowercase=True)
