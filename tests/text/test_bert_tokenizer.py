"""The tokenizer, compared with outputs of Google's program and with its rules rewritten in plain Python."""

import functools
import json
from typing import NamedTuple

import pytest

from keras_bert import BertTokenizer, TextPreprocessor, Vocabulary

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from tests.text.google_words import PIECES, ids_of, listed_rows, split, words_of  # noqa: E402


class Case(NamedTuple):
    """Texts with the ids of Google's program for a public vocabulary."""

    tokenizer: BertTokenizer
    texts: list
    ids: list
    lowercase: bool


@pytest.fixture(scope="module")
def read_case(data, golden):
    """Returns a function that reads the `Case` of a public vocabulary."""

    @functools.cache
    def read(name):
        content = json.loads((golden / "google_tokenizer" / f"{name}.json").read_text())
        lowercase = content["lowercase"]
        return Case(
            tokenizer=BertTokenizer(data / "vocab" / f"{name}-vocab.txt", lowercase),
            texts=[case["text"].encode(errors="surrogatepass") for case in content["cases"]],
            ids=[case["ids"] for case in content["cases"]],
            lowercase=lowercase,
        )

    return read


@pytest.mark.parametrize("name", ["cased", "chinese", "multilingual-cased", "uncased"])
def test_ids_equal_google(read_case, name):
    case = read_case(f"bert-base-{name}")
    assert len(case.texts) == 701
    assert case.tokenizer(case.texts).to_list() == case.ids
    # The reference of the other tests agrees.
    for text, ids in zip(case.texts, case.ids, strict=True):
        assert ids_of(text.decode(errors="ignore"), case.tokenizer.vocabulary, case.lowercase) == ids


def is_normal_form(surface, piece, lowercase):
    """Returns whether a part of a text is one word, and a piece is that word, or a part of it from its first letter.

    A sigma depends on the rest of its word; several tokens may come from one character.
    """
    (word,) = words_of(surface, lowercase)
    is_whole = piece.replace("ς", "σ") == word.replace("ς", "σ")
    is_part = piece in word and words_of(surface[0], lowercase) == [word]
    return is_whole or is_part


@pytest.mark.parametrize("name", ["multilingual-cased", "uncased"])
def test_offsets_select_text_that_normalizes_to_the_token(read_case, name):
    """Offsets are sorted, inside the text and on character boundaries; each slice lies within one word."""
    case = read_case(f"bert-base-{name}")
    pieces = case.tokenizer.vocabulary.pieces
    ids, starts, ends = listed_rows(case.tokenizer.with_offsets(case.texts))
    assert ids == case.ids
    count = 0
    for text, row, begins, limits in zip(case.texts, ids, starts, ends, strict=True):
        assert begins == sorted(begins)
        assert limits == sorted(limits)
        for start, end, index in zip(begins, limits, row, strict=True):
            assert 0 <= start < end <= len(text)
            surface = text[start:end].decode()  # Raises in the middle of a character.
            piece = pieces[index].removeprefix("##")
            assert piece == "[UNK]" or is_normal_form(surface, piece, case.lowercase)
            count += 1
    assert count > 15000


class Exported(tf.Module):
    """A tokenizer as a SavedModel."""

    def __init__(self, tokenizer):
        super().__init__()
        specs = [tf.TensorSpec([None], tf.string)]
        self.tokenize = tf.function(tokenizer.with_offsets, input_signature=specs, autograph=False)


def test_saved_model_and_tf_data(read_case, tmp_path):
    uncased, texts, expected, _ = read_case("bert-base-uncased")
    tf.saved_model.save(Exported(uncased), tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert list((tmp_path / "there" / "assets").iterdir()) == []

    loaded = tf.saved_model.load(tmp_path / "there").tokenize(tf.constant(texts))
    ids, starts, ends = listed_rows(loaded)
    assert ids == expected
    assert [starts, ends] == listed_rows(uncased.with_offsets(texts)[1:])

    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(100).map(uncased).unbatch()
    assert [row.numpy().tolist() for row in dataset] == expected


def test_squad_questions(read_case, data, golden):
    uncased = read_case("bert-base-uncased").tokenizer
    questions = []
    for article in json.loads((data / "squad" / "dev-v1.1.json").read_text())["data"]:
        for paragraph in article["paragraphs"]:
            questions += [entry["question"] for entry in paragraph["qas"]]
    folder = golden / "bert_tokenizer_squad_questions"
    assert uncased(questions).to_list() == json.loads((folder / "tokenized_questions.json").read_text())
    assert split(questions) == json.loads((folder / "basic_tokenized_questions.json").read_text())


@pytest.mark.usefixtures("eager")
def test_the_case_is_that_of_a_preprocessor():
    """Unless it is given; a path or a list of pieces is uncased."""
    preprocessor = TextPreprocessor(PIECES, 8, lowercase=False)
    assert BertTokenizer(preprocessor)(["A"]).to_list() == [[1]]
    assert BertTokenizer(preprocessor, lowercase=True)(["A"]).to_list() == [[5]]
    assert BertTokenizer(PIECES)(["A"]).to_list() == [[5]]


def test_other_vocabularies_are_refused(golden):
    unigram = Vocabulary(golden / "hf_world" / "unigram_bert" / "tokenizer.json")
    with pytest.raises(ValueError, match="WordPiece.*a Unigram model"):
        BertTokenizer(unigram)
