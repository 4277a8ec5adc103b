"""What a subword algorithm has unless it says otherwise."""

import pytest

from keras_bert import AddedToken, Vocabulary
from keras_bert.text.algorithm import Algorithm
from tests.text.google_words import SPECIAL


def test_the_last_of_two_added_tokens_decides_whether_it_is_part_of_words():
    added = [AddedToken("a"), AddedToken("b"), AddedToken("a", wordpiece=True)]
    vocabulary = Vocabulary([*SPECIAL, "a", "b"], added)
    assert Algorithm().tokens_beside_pieces(vocabulary) == {"b"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, None), ({"normalizer": {"type": "NFC"}}, False), ({"normalizer": {"type": "Lowercase"}}, True)],
)
def test_the_normalizer_decides_on_the_case(settings, expected):
    assert Algorithm().decided_case(Vocabulary(SPECIAL, **settings)) is expected


def test_pieces_are_not_added_to_any_algorithm():
    with pytest.raises(ValueError, match="pieces are added to WordPiece vocabularies"):
        Algorithm().check_extendable(Vocabulary(SPECIAL))
