"""Words that are added to byte-level BPE: tokens with the space before them, where no letter is beside them."""

import pytest

from keras_bert.text.new_words import add_words
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import MASK, pieces_of, vocabulary

pytestmark = pytest.mark.usefixtures("eager")


def test_words_that_are_added(caplog):
    """A piece without a space before it, such as "he", keeps its id; "the" is a piece already, with and without."""
    known = vocabulary()
    extended, before = add_words(known, ["theon", "naïve", "the", "he"], False)
    assert extended.pieces[len(known) :] == ("theon", "naïve")
    assert before[len(known)] == known.ids(["Ġthe", "on"])
    whole = MASK._replace(normalized=True, special=False, single_word=True)
    expected = [whole._replace(content=word) for word in ("he", "theon", "naïve")]
    assert list(extended.added_tokens[-3:]) == expected
    assert "2 of 4 words are pieces of the vocabulary already" in caplog.text


def test_texts_with_words_that_were_added():
    extended, _ = add_words(vocabulary(), ["theon", "naïve", "he"], False)
    tokenizer = build_tokenizer(extended)
    ids = tokenizer("a theon, theons naïve  he").numpy()
    assert pieces_of(tokenizer, ids) == ["a", "theon", ",", "Ġthe", "on", "s", "naïve", "he"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a b"], "be single words, without white space"),
        ([""], "be single words, without white space"),
        (["Ġa"], "be as in texts, without 'Ġ'"),
        (["-a"], "begin and end with a letter or a digit"),
        (["a-"], "begin and end with a letter or a digit"),
        (["x", "x"], "differ. Received: 'x' twice"),
        (["é"], "not be pieces that stand for other bytes"),
    ],
)
def test_words_that_are_refused(words, message):
    with pytest.raises(ValueError, match=f"`words` must {message}"):
        add_words(vocabulary(), words, False)
