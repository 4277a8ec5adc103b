"""WordPiece's vocabularies: lines of `vocab.txt`, what the kernel may match, and the text of pieces."""

import pytest

from keras_bert import AddedToken, Vocabulary
from keras_bert.text.wordpiece import WordPiece, matched_pieces, read_lines, write_lines
from tests.text.google_words import SPECIAL


def test_lines_are_read_as_they_are_written(tmp_path):
    """Also pieces that Python takes for line ends."""
    path = tmp_path / "vocab.txt"
    pieces = ["a", "\u2028", "\x85", "##b"]
    write_lines(pieces, path)
    assert path.read_bytes() == "a\n\u2028\n\x85\n##b\n".encode()
    assert read_lines(path) == pieces


def test_a_blank_line_has_no_piece(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("a\n \nb\n")
    with pytest.raises(ValueError, match="vocab.txt:2: the line is empty. Expected one piece per line"):
        read_lines(path)


def test_pieces_that_the_kernel_must_not_match():
    """The first of two, an added token that is no part of words, and pieces with white space or NUL."""
    added = [AddedToken("<x>"), AddedToken("<y>", wordpiece=True)]
    vocabulary = Vocabulary([*SPECIAL, "a", "a", "<x>", "<y>", "new york", "b\0"], added)
    assert matched_pieces(vocabulary)[5:] == ["\x015", "a", "\x017", "<y>", "\x019", "\x0110"]


def test_pieces_that_continue_a_word():
    vocabulary = Vocabulary([*SPECIAL, "a", "##b", "##"])
    algorithm = WordPiece()
    assert algorithm.is_continuation(vocabulary)[5:] == [False, True, True]
    assert algorithm.text(vocabulary, ["a", "##b", "##b", "a"]) == "abb a"


@pytest.mark.parametrize(
    ("class_name", "settings", "expected"),
    [
        ("BertJapanese", {"word_tokenizer_type": "mecab"}, True),
        ("BertJapanese", {"word_tokenizer_type": "mecab", "subword_tokenizer_type": "character"}, False),
        ("BertJapanese", {"word_tokenizer_type": "basic"}, False),
        ("Bert", {"word_tokenizer_type": "mecab"}, False),
    ],
)
def test_classes_that_split_texts_by_a_dictionary(class_name, settings, expected):
    assert WordPiece().word_class(class_name, settings) == expected


def test_offsets_are_trimmed_only_in_the_form_of_roberta():
    Vocabulary(SPECIAL, trim_offsets=True, pair_separators=2, pair_segments=False)
    with pytest.raises(ValueError, match="trim_offsets"):
        Vocabulary(SPECIAL, trim_offsets=True)
