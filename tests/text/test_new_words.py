"""What holds for words that are added to any vocabulary. Those of each algorithm are in files of their own."""

import pytest

from keras_bert import Vocabulary
from keras_bert.text.new_words import add_words, without_known
from tests.text.test_wordpiece_words import vocabulary


def test_known_words_are_skipped(caplog):
    assert add_words(vocabulary(), ["AB", "##b"], True) == (vocabulary(), {})
    assert "2 of 2 words are pieces of the vocabulary already" in caplog.text


@pytest.mark.parametrize("words", ["word", None, [3]])
def test_words_must_be_a_list_of_strings(words):
    with pytest.raises(ValueError, match="`words` must be a list of strings. Received: words="):
        add_words(vocabulary(), words, True)


def test_unigram_vocabularies_are_refused(golden):
    unigram = Vocabulary(golden / "hf_world" / "unigram_bert" / "tokenizer.json")
    with pytest.raises(ValueError, match="a Unigram model"):
        add_words(unigram, ["word"], unigram.lowercase)


def test_lines_of_a_vocabulary_that_are_pieces_already(caplog):
    assert without_known(["ab", "new", "##b", "other"], vocabulary()) == ["new", "other"]
    assert "2 of 4 words are pieces of the vocabulary already" in caplog.text
