"""The words of sentences and their tokens, for lists of words and for texts."""

import bisect
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks.tagging.schemes import Entity
from keras_bert.text.viewed_texts import tokenized

_SENTENCES = 2**12  # Lists of words to tokenize at a time.
_NO_TOKEN = -1


class Words(NamedTuple):
    """The words of all sentences and their tokens.

    A *sentence* is a row of the file; its *words* and *tokens* are numbered over all sentences, so that they index flat
    arrays.
    """

    ids: tf.RaggedTensor  # Token ids `(sentences, tokens)`.
    counts: np.ndarray  # `(sentences,)`, the number of words.
    first_token: np.ndarray  # `(words,)`, -1 for a word without tokens.
    word: np.ndarray  # `(tokens,)`, the word of each token.
    starts_part: np.ndarray  # `(tokens,)`, whether a token starts a word of BERT: it has no `##`.
    bytes: np.ndarray | None  # `(words, 2)`, the first in the text and the last + 1; `None` for lists of words.

    @property
    def has_tokens(self):
        """Whether the tokenizer keeps each word, `(words,)`."""
        return self.first_token >= 0


def words_of_lists(sentences, tokenizer):
    """Returns the `Words` of lists of words."""
    ids, sizes = _tokens_of_words(sentences, tokenizer)
    first_token = np.cumsum(sizes) - sizes
    return Words(
        ids=ids,
        counts=np.array([len(words) for words in sentences]),
        first_token=np.where(sizes > 0, first_token, _NO_TOKEN),
        word=np.repeat(np.arange(len(sizes)), sizes),
        starts_part=tokenizer.word_starts(ids.values).numpy(),
        bytes=None,
    )


def _tokens_of_words(sentences, tokenizer):
    """Returns the token ids of lists of words, ragged `(sentences, tokens)`, and the number of tokens of each word."""
    ids = []
    sizes = []
    for first in range(0, len(sentences), _SENTENCES):
        words = tf.ragged.constant(sentences[first : first + _SENTENCES], tf.string, ragged_rank=1)
        pieces = words.with_values(tokenizer.of_words(words.values))
        sizes.append(pieces.values.row_lengths().numpy())
        ids.append(pieces.merge_dims(1, 2))
    return tf.concat(ids, 0), np.concatenate(sizes)


def words_of_texts(texts, tokenizer):
    """Returns the `Words` of texts, which are those of BERT: a token and the `##` tokens that follow it."""
    ids, starts, ends = tokenized(tokenizer.with_offsets, texts)
    starts_part = tokenizer.word_starts(ids.values).numpy()
    first_token = np.flatnonzero(starts_part)
    sentence = ids.value_rowids().numpy()
    # A word ends before the next one, the last word with the last token.
    last_token = np.append(first_token, len(sentence))[1:] - 1
    first_byte = starts.values.numpy()[first_token]
    last_byte = ends.values.numpy()[last_token]
    return Words(
        ids=ids,
        counts=np.bincount(sentence[first_token], minlength=len(texts)),
        first_token=first_token,
        word=np.cumsum(starts_part) - 1,
        starts_part=starts_part,
        bytes=np.stack([first_byte, last_byte], 1),
    )


class WordEntities(NamedTuple):
    """Entities of a text, in its words."""

    entities: list  # Those of `Entity`.
    inexact: int  # How many of them start or end inside a word.


def in_words(spans, entities):
    """Converts entities in characters to the words that cover them, `WordEntities`.

    `spans` are the first character of each word of the text and the last + 1. An entity without a word is left out:
    two entities may share one, which the first of them has.
    """
    starts = [start for start, _ in spans]
    ends = [end for _, end in spans]
    covering = []
    inexact = 0
    taken = 0
    for type_, start, end in entities:
        first = bisect.bisect_right(ends, start)
        limit = bisect.bisect_left(starts, end)
        if first >= limit or (starts[first], ends[limit - 1]) != (start, end):
            inexact += 1
        first = max(first, taken)
        if first < limit:
            covering.append(Entity(type_, first, limit))
            taken = limit
    return WordEntities(covering, inexact)
