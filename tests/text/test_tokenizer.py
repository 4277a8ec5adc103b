"""What all tokenizers do: inputs of any shape, copies by pickle, and many texts in parts."""

import pickle

import pytest

from keras_bert import BertTokenizer

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from keras_bert.text import tokenizer as text_tokenizer  # noqa: E402
from tests.text.google_words import PIECES, listed  # noqa: E402


@pytest.mark.usefixtures("eager")
def test_input_shapes_and_lengths():
    small = BertTokenizer(PIECES)
    tokenizer = pickle.loads(pickle.dumps(small))
    assert tokenizer.vocabulary == small.vocabulary
    assert tokenizer([["a b", ""], ["ab", "!"]]).to_list() == [[[5, 7], []], [[5, 8], [9]]]
    assert listed(tokenizer.with_offsets("a b")) == [[5, 7], [0, 2], [1, 3]]
    assert tokenizer.with_offsets([["a b"], ["b"]])[1].to_list() == [[[0, 2]], [[0]]]
    ids, starts, _ = tokenizer.with_offsets(tf.zeros([0], tf.string))
    assert ids.shape == starts.shape == (0, None)
    assert ids.dtype == starts.dtype == tf.int32
    assert tokenizer(["a b! " * 200_000]).row_lengths().numpy().tolist() == [600_000]
    assert tokenizer(["b" * 1_000_000]).to_list() == [[1]]


def test_texts_are_tokenized_in_parts(monkeypatch):
    def words_and_bytes(texts):
        return tf.strings.split(texts), tf.strings.bytes_split(texts)

    texts = ["a b", "", "cd", "e f g", "h"]
    words, letters = words_and_bytes(tf.constant(texts))
    monkeypatch.setattr(text_tokenizer, "_TEXTS", 2)
    words_in_parts, bytes_in_parts = text_tokenizer.tokenized(words_and_bytes, texts)
    assert words_in_parts.to_list() == words.to_list()
    assert bytes_in_parts.to_list() == letters.to_list()
