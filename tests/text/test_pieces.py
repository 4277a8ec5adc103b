"""What the pieces of every vocabulary must be."""

import pytest

from keras_bert.text.pieces import (
    BYTES,
    REVERSIBLE,
    check_any,
    check_special_tokens,
    check_string,
    is_special,
    place_of,
    utf8_text,
)

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [("[CLS]", True), ("[unused1]", True), ("<S>", True), ("[", False), ("[a b]", False), ("x[CLS]", False)],
)
def test_special_pieces(piece, expected):
    assert is_special(piece) == expected


def test_the_place_of_a_piece():
    """Lines count from 1, ids from 0."""
    assert place_of("a/vocab.txt", 0) == "a/vocab.txt:1"
    assert place_of("tokenizer.json", 0) == "tokenizer.json, id 0"


def test_each_byte_has_a_piece():
    assert len(set(BYTES)) == 256
    assert BYTES[0x41] == "\u2841"


def places(pieces):
    return {piece: index for index, piece in enumerate(pieces)}


def test_special_tokens_of_bert_or_of_reversible_vocabularies():
    check_special_tokens(places(BERT), BERT, "vocab.txt")
    check_special_tokens(places(REVERSIBLE), REVERSIBLE, "vocab.txt")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (BERT[:3], r"vocab.txt: the vocabulary lacks \[SEP\]. Expected a BERT vocabulary"),
        (["[PAD]", "[unk]", "[CLS]", "[SEP]"], r"lacks \[UNK\]; vocab.txt:2 has '\[unk\]' instead"),
    ],
)
def test_special_tokens_that_are_missing(pieces, message):
    with pytest.raises(ValueError, match=message):
        check_special_tokens(places(pieces), pieces, "vocab.txt")


def test_vocabularies_that_are_no_lists_of_strings():
    with pytest.raises(ValueError, match="a.json: the vocabulary is empty"):
        check_any([], "a.json")
    with pytest.raises(ValueError, match="a.json, id 3: a piece must be a string. Received: None"):
        check_string(None, 3, "a.json")


def test_files_must_be_utf_8(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("a\né\n".encode())
    assert utf8_text(path) == "a\né\n"
    path.write_bytes(b"a\n\xe9\n")
    with pytest.raises(ValueError, match=r"vocab.txt:2: a vocabulary must be UTF-8. Received: b'\\xe9\\n'"):
        utf8_text(path)
