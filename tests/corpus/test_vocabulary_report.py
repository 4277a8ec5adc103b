"""How well a vocabulary covers a text, compared with a plain loop."""

import random

import pytest

from keras_bert import Vocabulary
from keras_bert.corpus.vocabulary_report import report
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary
from tests.text.google_words import pieces_of

COMPACT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_report_equals_reference_loop():
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghi", k=rng.randint(1, 7))) for _ in range(500)]
    counts = {word: rng.randint(1, 5) for word in words}
    pieces = learn_vocabulary(counts, 150, unused=0, alphabet_limit=8).pieces
    found = [pieces_of(word, set(pieces)) for word, count in counts.items() for _ in range(count)]
    unknown = found.count(["[UNK]"])
    numbers = report(counts, pieces)
    assert numbers.words == len(found)
    assert numbers.pieces_per_word == pytest.approx(sum(map(len, found)) / len(found))
    assert numbers.unknown_rate == pytest.approx(unknown / len(found))
    assert numbers.whole_words == pytest.approx((sum(len(split) == 1 for split in found) - unknown) / len(found))
    numbers = report({"a": 5, "aaa": 1, "b": 1, "c": 1}, Vocabulary([*COMPACT, "a", "##a", "b"]))
    assert str(numbers) == "8 words, 1.2500 tokens per word, 12.500% unknown, 75.00% whole words"
    with pytest.raises(ValueError, match="`counts` is empty. Expected a text with words"):
        report({}, COMPACT)
