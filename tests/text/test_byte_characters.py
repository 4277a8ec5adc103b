"""The characters that stand for bytes, beside those of GPT-2's program, and added tokens that look like them."""

import pytest

import keras_bert
from keras_bert.text.byte_characters import CHARACTERS, SPACE, content, contents, written
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import pieces_of, vocabulary
from tests.text.google_words import listed


def test_characters_are_printable_and_differ():
    """Those of ASCII and Latin-1 that are printed stand for themselves, the others follow from U+0100 on."""
    assert len(set(CHARACTERS)) == 256
    assert not any(character.isspace() for character in CHARACTERS)
    assert CHARACTERS[ord("a")] == "a"
    assert CHARACTERS[0] == "\u0100"
    assert CHARACTERS[ord(" ")] == SPACE == "Ġ"
    assert CHARACTERS[0x7F] == "\u0121"  # After the 33 bytes up to the space.
    assert CHARACTERS[0xAD] == "\u0143"  # The soft hyphen is the last one.
    assert CHARACTERS[0xFF] == "ÿ"


def test_bytes_and_pieces():
    every = bytes(range(256))
    assert content(written(every)) == every
    assert written(" é".encode()) == "ĠÃ©"
    assert content("<字>") == "<字>".encode()  # An added token, which has other characters.


def test_added_tokens_are_texts_unless_they_are_pieces_of_bytes():
    """ "naïve" has only characters that stand for bytes, too."""
    known = vocabulary(further=["naïve"], added_tokens=["naïve", "é"])
    assert contents(["naïve", "Ġna", "é"], known) == ["naïve".encode(), b" na", b"\xe9"]


@pytest.mark.usefixtures("eager")
def test_an_added_token_that_is_a_byte():
    """Its id is that of the byte 0xe9, too, with which "字" does not begin, but "鸡" does."""
    tokenizer = build_tokenizer(vocabulary(added_tokens=[keras_bert.AddedToken("é", single_word=True)]))
    ids, starts, ends = listed(tokenizer.with_offsets("x 鸡 é y"))
    assert pieces_of(tokenizer, ids) == ["x", "Ġ", "é", "¸", "¡", "Ġ", "é", "Ġ", "y"]
    assert starts[2:7] == [2, 2, 2, 6, 6]
    assert ends[2:7] == [5, 5, 5, 6, 8]
