import itertools
import random

import pytest

from keras_bert.corpus import wordpiece_search, wordpiece_trainer
from keras_bert.corpus.vocabulary_report import report
from keras_bert.corpus.word_counts import count_words
from keras_bert.corpus.wordpiece_trainer import extend_vocabulary, learn_vocabulary
from keras_bert.text.bert_tokenizer import BertTokenizer
from tests.text.google_words import pieces_of

COMPACT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
COUNTS = {"low": 5, "lower": 2, "lowest": 3}
# The alphabet of COUNTS: "l" starts its words, the others occur within.
ALPHABET = ["l", "##e", "##o", "##r", "##s", "##t", "##w"]


def cost(counts, pieces):
    return sum(count * len(pieces_of(word, pieces)) for word, count in counts.items())


def alphabet_of(words):
    letters = set()
    for word in words:
        letters.add(word[0])
        letters.update(f"##{letter}" for letter in word[1:])
    return letters


def learned(further):
    """Returns the pieces learned from `COUNTS` besides special ones and the alphabet."""
    pieces = learn_vocabulary(COUNTS, len(COMPACT) + len(ALPHABET) + further, unused=0).pieces
    assert pieces[: len(COMPACT) + len(ALPHABET)] == (*COMPACT, *ALPHABET)
    return list(pieces[len(COMPACT) + len(ALPHABET) :])


def test_manually_derived_vocabularies():
    assert learned(0) == []
    # "low" saves 2 pieces in each of 10 words; the next best, "lowest", saves 5 pieces in each of 3.
    assert learned(1) == ["low"]
    # With "low", "lowest" saves 3 pieces in 3 words, "lower" 2 in 2, "##est" 2 in 3.
    assert learned(2) == ["low", "lowest"]
    # Without "low", 5 words need 2 more pieces each; without "lowest", 3 words need 3; without "lower", 2 words need 2.
    assert learned(3) == ["low", "lowest", "lower"]


def test_a_common_ending():
    """ "##ing" saves 2 pieces in each of 8 words, a whole word 3 pieces in 2, but only 1 after "##ing"."""
    counts = {"ring": 2, "king": 2, "sing": 2, "wing": 2}
    alphabet = ["k", "r", "s", "w", "##g", "##i", "##n"]
    assert learn_vocabulary(counts, 13, unused=0).pieces == (*COMPACT, *alphabet, "##ing")


def test_ties_are_resolved_alphabetically():
    assert learn_vocabulary({"db": 3, "ca": 3, "eb": 3}, 12, unused=0).pieces[-2:] == ("ca", "db")


def test_unused_pieces_are_replaced_first():
    """Beside the alphabet alone, by the pieces of `learn_vocabulary`."""
    pieces = ["[PAD]", "[unused1]", *COMPACT[1:], "[unused2]", *ALPHABET]
    replaced = ("[PAD]", "low", *COMPACT[1:], "lowest", *ALPHABET)
    assert extend_vocabulary(COUNTS, pieces).pieces == replaced
    assert extend_vocabulary(COUNTS, pieces, vocab_size=15).pieces == (*replaced, "lower")


EXISTING = [*COMPACT, *ALPHABET, "low", "lo"]


def test_extended_vocabularies(caplog):
    """With "low", "lowest" saves 3 pieces in 3 words, "lower" 2 in 2; words with other characters do not count."""
    counts = COUNTS | {"xlo": 99, "wol": 9}
    assert extend_vocabulary(counts, EXISTING, vocab_size=16).pieces == (*EXISTING, "lowest", "lower")
    assert not caplog.messages


def test_too_few_words_to_extend_a_vocabulary(caplog):
    assert len(extend_vocabulary(COUNTS, EXISTING, vocab_size=20)) == 16
    assert "gives only 16 tokens instead of 20. Add text or lower the minimum count, which is 2" in caplog.text


def test_vocabularies_that_cannot_be_extended():
    message = "`vocab_size` must be at least 15: the list of pieces has 14 pieces, and 0 of them are unused. Received: "
    with pytest.raises(ValueError, match=f"{message}vocab_size=14"):
        extend_vocabulary(COUNTS, EXISTING)
    with pytest.raises(ValueError, match="`counts` has no word of the characters of the list of pieces"):
        extend_vocabulary({"x": 2}, EXISTING, vocab_size=15)


def test_rare_words_count_but_do_not_become_pieces():
    frequent = {"ab": 2, "cab": 2, "cd": 2}
    rare = {"xab": 1, "yab": 1, "zab": 1}
    # "##ab" saves 1 piece in "cab" and in each rare word, "cab" saves 2 pieces in 2 words.
    both = frequent | rare
    assert learn_vocabulary(both, 14, unused=0).pieces[-1] == "##ab"
    assert learn_vocabulary(frequent, 11, unused=0).pieces[-1] == "cab"
    assert set(learn_vocabulary(both, 19, unused=0, min_count=1).pieces[-6:]) == set(both)


def parts_of(words):
    """Returns all pieces that are a part of a word."""
    parts = set()
    for word in words:
        for start, end in itertools.combinations(range(len(word) + 1), 2):
            prefix = "##" if start else ""
            parts.add(prefix + word[start:end])
    return parts


def test_small_vocabularies_are_close_to_exhaustive_search():
    rng = random.Random(0)
    worse = 0
    for _ in range(20):
        words = {"".join(rng.choices("abc", k=rng.randint(1, 6))) for _ in range(6)}
        counts = {word: rng.randint(1, 9) for word in sorted(words)}
        alphabet = alphabet_of(counts)
        vocabulary = learn_vocabulary(counts, len(COMPACT) + len(alphabet) + 2, unused=0, min_count=1)
        pairs = itertools.combinations(parts_of(words) - alphabet, 2)
        best = min(cost(counts, alphabet.union(pair)) for pair in pairs)
        assert cost(counts, vocabulary) <= 1.25 * best
        if cost(counts, vocabulary) > best:
            worse += 1
    assert worse <= 2


WHOLE = [*COMPACT, *ALPHABET, *COUNTS]  # All that the corpus gives.


@pytest.mark.parametrize("size", [len(WHOLE), len(WHOLE) + 1, 30522])
def test_corpus_too_small_for_vocab_size(caplog, size):
    assert set(learn_vocabulary(COUNTS, size, unused=0).pieces) == set(WHOLE)
    if size == len(WHOLE):
        assert not caplog.messages
    else:
        assert caplog.messages == [
            f"the corpus gives a vocabulary of only 15 tokens instead of {size:,}: 5 special tokens, 7 of the alphabet "
            "and 3 longer words that occur at least 2 times. Add text or lower the minimum count"
        ]


def some_words(number):
    rng = random.Random(number)
    counts = {}
    for rank in range(number):
        word = "".join(rng.choices("etaoinsh", k=rng.randint(1, 9)))
        counts[word] = 1 + 100 // (rank + 1) + rank % 3
    return counts


def test_word_order_and_memory_limit_have_little_effect(monkeypatch):
    counts = some_words(400)
    backwards = dict(reversed(counts.items()))
    vocabulary = learn_vocabulary(counts, 250)
    assert len(vocabulary) == 250
    assert learn_vocabulary(backwards, 250) == vocabulary
    free = cost(counts, vocabulary)
    monkeypatch.setattr(wordpiece_search, "_MOST_CANDIDATES", 1000)
    assert free * 0.99 < cost(counts, learn_vocabulary(counts, 250)) < free * 1.02


@pytest.mark.parametrize("unused", [0, 2, 99])
def test_special_and_unused_pieces(unused):
    """With 99 unused ones, the ids of special tokens are those of BERT's vocabularies."""
    special = ["[PAD]", *(f"[unused{index}]" for index in range(1, unused + 1)), *COMPACT[1:]]
    vocabulary = learn_vocabulary(COUNTS, len(special) + len(ALPHABET) + 1, unused=unused)
    assert vocabulary.pieces == (*special, *ALPHABET, "low")
    assert vocabulary.ids(COMPACT) == [0, unused + 1, unused + 2, unused + 3, unused + 4]


def test_lines_about_the_rounds():
    """5 * 3 + 2 * 5 + 3 * 6 letters in 10 words."""
    lines = []
    learn_vocabulary(COUNTS, len(COMPACT) + len(ALPHABET) + 1, unused=0, progress=lines.append)
    assert lines[0] == "round 1 of 12: 7 tokens, 4.3000 tokens per word"
    assert lines[-1] == "round 12 of 12: 8 tokens, 2.3000 tokens per word"


def test_alphabet_limit_keeps_most_frequent_characters():
    # a 12 times, b 9, c 4, d 4: ties are resolved alphabetically.
    counts = {"ab": 5, "ba": 3, "aca": 1, "cba": 1, "c": 2, "d": 2, "dd": 1}
    vocabulary = learn_vocabulary(counts, 5 + 6, unused=0, alphabet_limit=3)
    assert vocabulary.pieces == (*COMPACT, "a", "b", "c", "##a", "##b", "##c")
    assert report(counts, vocabulary).unknown_rate == 3 / 15


def test_words_above_the_maximum_length_are_ignored():
    longest = "a" * wordpiece_trainer.LONGEST_WORD
    longer = "b" * (wordpiece_trainer.LONGEST_WORD + 1)
    vocabulary = learn_vocabulary({longest: 2, longer: 9}, 8, unused=0)
    assert vocabulary.pieces == (*COMPACT, "a", "##a", longest)
    assert vocabulary.max_word_length == wordpiece_trainer.LONGEST_WORD
    assert report({longest: 2, longer: 9}, vocabulary).unknown_rate == 9 / 11


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ({}, {}, "`counts` is empty. Expected a corpus with words"),
        ({"a" * 201: 1}, {}, "`counts` is empty"),
        (COUNTS, {"unused": -1}, "`unused` must be an integer of at least 0. Received: unused=-1"),
        (COUNTS, {"min_count": 0}, "`min_count` must be a positive integer. Received: min_count=0"),
        (COUNTS, {"alphabet_limit": 1}, "`alphabet_limit` leaves no word. Received: alphabet_limit=1"),
        (COUNTS, {"alphabet_limit": 0}, "alphabet_limit"),
        (COUNTS, {"vocab_size": 109}, "`vocab_size` must be at least 111: 104 special tokens, 7 of the alphabet. Rec"),
    ],
)
def test_arguments_that_are_refused(counts, options, message):
    with pytest.raises(ValueError, match=message):
        learn_vocabulary(counts, **({"vocab_size": 112} | options))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_vocabulary_of_books_is_compact_and_matches_the_tokenizer(data):
    counts, held_out = count_words(data / "corpus" / "books" / "books-0[12].txt", held_out_every=100)
    vocabulary = learn_vocabulary(counts, 8000)
    # The trainer of the package tokenizers reaches 1.112.
    assert report(held_out, vocabulary).pieces_per_word < 1.1
    text = data / "corpus" / "wikitext-2" / "wiki.valid.tokens"
    numbers = report(count_words(text)[0], vocabulary)
    ids = BertTokenizer(vocabulary)(text.read_text(encoding="utf-8").splitlines()).flat_values.numpy()
    assert len(ids) == round(numbers.words * numbers.pieces_per_word)
    assert (ids == vocabulary.id("[UNK]")).sum() == round(numbers.words * numbers.unknown_rate)
