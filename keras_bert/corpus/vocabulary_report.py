"""How well a vocabulary covers a text. Does not use TensorFlow."""

import collections
import dataclasses

from keras_bert.corpus.wordpiece_search import BEGIN, beginnings, matches, private_piece
from keras_bert.text.tokenizer_options import LONGEST_WORD
from keras_bert.text.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class VocabularyReport:
    """How well a vocabulary covers a text."""

    words: int
    pieces_per_word: float  # `[UNK]` counts as one.
    unknown_rate: float  # The share of words that are `[UNK]`.
    whole_words: float  # The share of words that are one piece other than `[UNK]`.

    def __str__(self):
        return (
            f"{self.words:,} words, {self.pieces_per_word:.4f} tokens per word, {self.unknown_rate:.3%} unknown, "
            f"{self.whole_words:.2%} whole words"
        )


def report(counts, vocabulary):
    """Computes the `VocabularyReport` of a vocabulary on a text, given as word counts."""
    words = sum(counts.values())
    if not words:
        raise ValueError("`counts` is empty. Expected a text with words")
    table = beginnings(list(map(private_piece, Vocabulary(vocabulary).pieces)))
    words_of_size = collections.Counter()
    for word, count in counts.items():
        words_of_size[_number_of_pieces(BEGIN + word, table)] += count
    tokens = sum(max(size, 1) * count for size, count in words_of_size.items())
    return VocabularyReport(
        words=words,
        pieces_per_word=tokens / words,
        unknown_rate=words_of_size[0] / words,
        whole_words=words_of_size[1] / words,
    )


def _number_of_pieces(word, table):
    """Returns the number of pieces of a word, 0 if it is [UNK]."""
    longest, _ = matches(word, table)
    place = 0
    number = 0
    while place < len(word) and longest[place]:
        place = longest[place]
        number += 1
    is_covered = place == len(word)
    is_too_long = len(word) > len(BEGIN) + LONGEST_WORD
    return number if is_covered and not is_too_long else 0
