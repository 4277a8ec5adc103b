"""Merges of byte-pair encoding: which of them are those of pieces, and what is refused."""

import pytest

from keras_bert import Vocabulary
from keras_bert.text import merges
from keras_bert.text.byte_characters import CHARACTERS
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.byte_level import MERGES, vocabulary


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (MERGES, True),
        ([], True),
        (["a b", "b c", "ab c", "a bc"], False),  # One piece of two merges.
        (["ab c", "a b"], False),  # A piece before its parts.
        (["b c", "a b", "ab c"], False),  # "abc" is never made of "ab" and "c": "bc" comes first.
        (["a b", "ab a", "b a"], True),
        (["a a", "aa a", "aa aa"], True),
    ],
)
def test_merges_that_are_those_of_pieces(lines, expected):
    assert merges.are_those_of_pieces(merges.parsed(lines)) == expected


def test_a_line_that_is_repeated_has_the_last_rank():
    """As in the tokenizers library, which reads them into a map."""
    lines = ["a b", "b c", "a b"]
    known = vocabulary(lines)
    tokenizer = build_tokenizer(known)
    assert tokenizer("abc").numpy().tolist() == known.ids(["a", "bc"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merges": "Ġ t"}, "`merges` must be a list of strings"),
        ({"merges": ["Ġ t h"]}, "a merge must be two pieces with a space between them. Received: merge 0"),
        ({"merges": ["x y"]}, "merge 0, 'x y', needs a piece 'xy', which the vocabulary lacks"),
        ({"normalizer": {"type": "NFC"}}, "byte-level BPE has no `normalizer`"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "`pre_tokenizer` must be GPT-2's"),
    ],
)
def test_merges_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        vocabulary().replace(**change)


def test_all_bytes_are_needed():
    pieces = [piece for piece in vocabulary().pieces if piece != CHARACTERS[0xFF]]
    settings = vocabulary().get_config() | {"pieces": pieces}
    with pytest.raises(ValueError, match="lacks 'ÿ', the byte 0xff. Expected pieces for all 256 bytes"):
        Vocabulary(settings)
