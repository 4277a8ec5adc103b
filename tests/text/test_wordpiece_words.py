"""Words that become pieces of WordPiece: unused pieces are replaced, and texts are normalized as the tokenizer does."""

import re

import pytest

from keras_bert import AddedToken, Vocabulary
from keras_bert.text.bert_tokenizer import BertTokenizer
from keras_bert.text.new_words import add_words

pytestmark = pytest.mark.usefixtures("eager")
PIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[unused7]", "ab", "a", "##b", "##a", "ς", "<e>", "O", "##o"]


def vocabulary(**options):
    return Vocabulary(PIECES, [AddedToken("<e>")], **options)


def test_unused_pieces_are_replaced_first():
    extended, before = add_words(vocabulary(), ["ABBA", "##bo", "ab", "Áaa", "xyz"], True)
    assert extended.pieces == ("[PAD]", "abba", *PIECES[2:5], "##bo", *PIECES[6:], "aaa", "xyz")
    # The longest piece first; [UNK] for a word with unknown characters.
    assert before == {1: [6, 8, 9], 5: [8, 13], 14: [7, 9, 9], 15: [2]}
    assert extended.added_tokens == (AddedToken("<e>"),)
    ids = BertTokenizer(extended)(["abba <e>abba AAA xyz", "abbaa abbo"]).to_list()
    assert ids == [[1, 11, 1, 14, 15], [1, 9, 6, 5]]


@pytest.mark.parametrize(
    ("options", "lowercase", "word", "piece"),
    [
        ({}, True, "ΟΔΟΣ", "οδος"),
        ({"strip_accents": False, "tokenize_chinese_chars": False}, True, "É中国", "é中国"),
        ({"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "WhitespaceSplit"}}, False, "ﬁN-1", "fiN-1"),
    ],
)
def test_words_are_normalized(options, lowercase, word, piece):
    extended, _ = add_words(vocabulary(**options), [word], lowercase)
    assert extended.pieces[1] == piece
    assert BertTokenizer(extended, lowercase)([f"a {word} a"]).to_list() == [[7, 1, 7]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([""], "`words` must be single words, as the tokenizer splits texts. Received: '', no word"),
        (["##"], "Received: '##', no word"),
        (["New-York"], "Received: 'New-York', the words 'new' '-' 'york'; add these alone"),
        (["[unused1]"], "`words` must be words of texts, not special tokens. Received: '[unused1]'"),
        (["Foo", "foo"], "`words` must differ. Received: 'Foo' and 'foo', both 'foo' in texts"),
        (["foo", "foo"], "Received: 'foo' and 'foo', both 'foo' in texts"),
        (
            ["b" * 201],
            "`words` must have at most 200 characters; longer ones are [UNK]. Received: 'bbbbbbbbbbbbbbbbbbbb'... of "
            "201",
        ),
        (["xyoz"], "`words` must be whole without special tokens in them. Received: 'xyoz', [UNK] yo [UNK]"),
    ],
)
def test_words_that_are_refused(words, message):
    extended = Vocabulary([*PIECES, "yo"], [AddedToken("yo")])
    with pytest.raises(ValueError, match=re.escape(message)):
        add_words(extended, words, True)
