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
    counts = {}
    for _ in range(500):
        word = "".join(rng.choices("abcdefghi", k=rng.randint(1, 7)))
        counts[word] = rng.randint(1, 5)
    pieces = learn_vocabulary(counts, 150, unused=0, alphabet_limit=8).pieces
    known = set(pieces)
    total = 0
    unknown = 0
    whole = 0
    for word, count in counts.items():
        split = pieces_of(word, known)
        total += count * len(split)
        if split == ["[UNK]"]:
            unknown += count
        elif len(split) == 1:
            whole += count
    words = sum(counts.values())
    numbers = report(counts, pieces)
    assert numbers.words == words
    assert numbers.pieces_per_word == pytest.approx(total / words)
    assert numbers.unknown_rate == pytest.approx(unknown / words)
    assert numbers.whole_words == pytest.approx(whole / words)


def test_a_report_as_a_line():
    numbers = report({"a": 5, "aaa": 1, "b": 1, "c": 1}, Vocabulary([*COMPACT, "a", "##a", "b"]))
    assert str(numbers) == "8 words, 1.2500 tokens per word, 12.500% unknown, 75.00% whole words"


def test_a_text_without_words():
    with pytest.raises(ValueError, match="`counts` is empty. Expected a text with words"):
        report({}, COMPACT)
