"""The parts of the search for pieces, by hand."""

from keras_bert.corpus.wordpiece_search import BEGIN, beginnings, matches, private_piece, public_piece


def test_pieces_have_two_forms():
    assert private_piece("low") == f"{BEGIN}low"
    assert public_piece(f"{BEGIN}low") == "low"
    assert private_piece("##er") == "er"
    assert public_piece("er") == "##er"


def test_beginnings_tell_which_of_them_are_pieces():
    assert beginnings(["ab", "abcd"]) == {"a": False, "ab": True, "abc": False, "abcd": True}


def test_the_two_longest_pieces_at_each_place():
    longest, second = matches("abcab", beginnings(["a", "ab", "abc", "b", "c"]))
    assert longest == [3, 2, 3, 5, 5]
    assert second == [2, 0, 0, 4, 0]
