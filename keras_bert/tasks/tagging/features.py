"""The words of sentences and their tokens: tags as targets of tokens, logits of tokens as tags and entities."""

import bisect
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.data.token_rows import compact_parts
from keras_bert.heads.answers import character_offsets
from keras_bert.tasks.tagging import schemes
from keras_bert.tasks.tagging.schemes import PLAIN, EntitySpan
from keras_bert.text.entities import parse
from keras_bert.text.tokenizer import tokenized
from keras_bert.text.viewed_texts import ViewedTexts
from keras_bert.text.views import SlidingWindows

_SENTENCES = 2**12  # Lists of words to tokenize at a time.
_WINDOWS = 2**12  # Windows to predict at a time.
_NO_TOKEN = -1
_IGNORED = -1  # Target of tokens without a tag.
_NEVER = -1e9  # Logit of the tags that a word without tokens does not get.

# Coordinates: see `SentenceWords`. A *window* has tokens of one unit, a sentence or a whole document. The words of a
# text also have *bytes* in it; entities of texts are in *characters*, all other entities in words of their sentence.


class SentenceWords(NamedTuple):
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


def _words_of_lists(sentences, tokenizer):
    """Returns the `SentenceWords` of lists of words."""
    ids, sizes = _tokens_of_words(sentences, tokenizer)
    first_token = np.cumsum(sizes) - sizes
    return SentenceWords(
        ids=ids,
        counts=np.array(list(map(len, sentences))),
        first_token=np.where(sizes > 0, first_token, _NO_TOKEN),
        word=np.repeat(np.arange(len(sizes)), sizes),
        starts_part=tokenizer.word_starts(ids).numpy(),
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


def _words_of_texts(texts, tokenizer):
    """Returns the `SentenceWords` of texts, which are those of BERT: a token and the `##` tokens that follow it."""
    ids, starts, ends = tokenized(tokenizer.with_offsets, texts)
    starts_part = tokenizer.word_starts(ids).numpy()
    first_token = np.flatnonzero(starts_part)
    sentence = ids.value_rowids().numpy()
    places = tokenizer.word_places(ids, starts, ends)
    return SentenceWords(
        ids=ids,
        counts=np.bincount(sentence[first_token], minlength=len(texts)),
        first_token=first_token,
        word=np.cumsum(starts_part) - 1,
        starts_part=starts_part,
        bytes=np.stack([offsets.values.numpy() for offsets in places], 1),
    )


class _WordEntities(NamedTuple):
    """Entities of a text, in its words."""

    entities: list  # Those of `EntitySpan`.
    inexact: int  # How many of them start or end inside a word.


def _in_words(spans, entities):
    """Converts entities in characters to the words that cover them, `_WordEntities`.

    `spans` are the first character of each word of the text and the last + 1. An entity without a word is left out:
    two entities may share one, which the first of them has.
    """
    starts = []
    ends = []
    for start, end in spans:
        starts.append(start)
        ends.append(end)
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
            covering.append(EntitySpan(type_, first, limit))
            taken = limit
    return _WordEntities(covering, inexact)


class TaggingWindows:
    """The windows of `data.Sentences` for one model.

    A word's first token carries its tag. Words of texts are those of BERT: a token and the `##` tokens that follow it.
    Windows start half a window apart, as in the exported model; each token counts in the window that gives it the most
    context.

    `labels` are the model's, `ids` their numbers. With `document_context`, windows run over whole documents instead of
    sentences; with `first_token_only`, the first tokens of further parts of a word, such as the points of "U.N.", are
    not trained.

    `counts` and `tokens` are the number of words and of tokens of each sentence; `has_tokens`, of all words, whether
    the tokenizer keeps them; `without_tokens` `(sentence, word)` of those that it drops, which are tagged `outside`.
    `gold_tags` are in the scheme of the labels, `None` without; `inexact` the sentences with an entity that starts or
    ends inside a word of BERT, once per entity.
    """

    # Differs from BERT: trains further parts of words too, since the words of raw texts are those of BERT.
    def __init__(self, sentences, preprocessor, labels, document_context=False, first_token_only=False):
        self.sentences = sentences
        self.labels = list(labels)
        self.ids = {label: number for number, label in enumerate(self.labels)}
        self.outside = schemes.OUTSIDE if schemes.OUTSIDE in self.ids else self.labels[0]
        if sentences.texts is None:
            self._words = _words_of_lists(sentences.words, preprocessor.tokenizer)
        else:
            self._words = _words_of_texts(sentences.texts, preprocessor.tokenizer)
        self.counts = self._words.counts
        self.tokens = self._words.ids.row_lengths().numpy()
        self.has_tokens = self._words.has_tokens
        self._first_word = np.cumsum(self.counts) - self.counts
        self.without_tokens = self._words_without_tokens()
        self.gold_tags = None
        self.inexact = []
        if sentences.is_labeled:
            self.gold_tags, self.inexact = self._gold_tags()
        units = self._documents() if document_context else self._words.ids
        self._viewed = ViewedTexts(preprocessor, SlidingWindows(), units)
        self._targets = self._token_targets(first_token_only)

    def _words_without_tokens(self):
        """Returns sentence and index of the words that the tokenizer drops."""
        missing = np.flatnonzero(~self.has_tokens)
        rows = np.searchsorted(np.cumsum(self.counts), missing, "right")
        words = missing - self._first_word[rows]
        return list(zip(rows.tolist(), words.tolist(), strict=True))

    def _documents(self):
        """Returns the tokens of each document, ragged `(documents, tokens)`."""
        numbers = np.unique(self.sentences.documents)
        sizes = np.bincount(self.sentences.documents, self.tokens).astype(np.int64)
        return tf.RaggedTensor.from_row_lengths(self._words.ids.values, sizes[numbers])

    def _gold_tags(self):
        """Returns the tags of the words of each sentence, and the sentence of each entity with borders inside words."""
        sentences = self.sentences
        if sentences.tags is not None:
            return sentences.tags, []
        scheme = schemes.of_labels(self.labels)
        tags = []
        inexact = []
        for row, entities in enumerate(sentences.entities):
            if sentences.texts is not None:
                found = _in_words(self.word_spans(row), entities)
                entities = found.entities
                inexact += [row] * found.inexact
            tags.append(schemes.to_tags(entities, int(self.counts[row]), scheme))
        return tags, inexact

    def _token_targets(self, first_token_only):
        """Returns the label id of each token, -1 for tokens that are not trained or have an unknown type."""
        words = self._words
        targets = np.full(len(words.word), _IGNORED, np.int32)
        if self.gold_tags is None:
            return targets
        tags = list(itertools.chain.from_iterable(self.gold_tags))
        if not first_token_only:
            parts = tags
            if self.sentences.scheme != PLAIN:
                parts = list(map(_continued, tags))
            of_parts = self._ids_of(parts)
            targets[words.starts_part] = of_parts[words.word[words.starts_part]]
        of_words = self._ids_of(tags)
        targets[words.first_token[self.has_tokens]] = of_words[self.has_tokens]
        return targets

    def _ids_of(self, tags):
        """Returns the numbers of labels, -1 for others."""
        return np.array([self.ids.get(tag, _IGNORED) for tag in tags], np.int32)

    @property
    def windows(self):
        """The `Views` of the sentences, or of the documents."""
        return self._viewed.views

    def text(self, row):
        """Returns a sentence as text."""
        if self.sentences.texts is None:
            return " ".join(self.sentences.words[row])
        return self.sentences.texts[row]

    def word_spans(self, row):
        """Returns the character offsets of the words of a sentence in its text."""
        if self.sentences.texts is None:
            return _spans_between_spaces(self.sentences.words[row])
        first = int(self._first_word[row])
        last = first + int(self.counts[row])
        offsets = character_offsets(self.text(row))[self._words.bytes[first:last]]
        return list(map(tuple, offsets.tolist()))

    def inputs(self, first=0, last=None):
        """Returns the compact model inputs of a range of windows, for `Batches`."""
        return compact_parts(self._viewed.ragged_parts(first, last))

    def targets(self):
        """Returns the label ids of the tokens of each window, ragged int32; -1 for tokens that are ignored."""
        targets = self._viewed.values(tf.constant(self._targets))
        is_chosen = self._viewed.chosen
        chosen = tf.where(is_chosen.values, targets.values, _IGNORED)
        ends = tf.fill([len(self.windows.length), 1], _IGNORED)  # [CLS] and [SEP].
        return tf.concat([ends, is_chosen.with_values(chosen), ends], 1)

    def examples(self):
        """Returns inputs and targets for training."""
        return self.inputs(), self.targets()

    def logits(self, predict):
        """Returns the logits of all words, `(words, labels)`; `predict` maps inputs to the model's outputs."""
        parts = []
        for first in range(0, len(self.windows.length), _WINDOWS):
            last = first + _WINDOWS
            outputs = predict(self.inputs(first, last))
            parts.append(self._viewed.of_tokens(outputs["logits"], first, last).numpy())
        return self._word_logits(np.concatenate(parts))

    def from_outputs(self, outputs):
        """Returns the logits of all words, given the outputs of the model for all windows."""
        return self._word_logits(self._viewed.of_tokens(outputs["logits"]).numpy())

    def _word_logits(self, logits):
        """Returns the logits of the first token of each word, given those of all tokens."""
        words = np.full((len(self.has_tokens), len(self.labels)), _NEVER, logits.dtype)
        words[:, self.ids[self.outside]] = 0  # Of words without tokens.
        words[self.has_tokens] = logits[self._words.first_token[self.has_tokens]]
        return words

    def tags(self, logits):
        """Returns the tags of the words of each sentence with the highest logits, a list of lists."""
        tags = [self.labels[number] for number in logits.argmax(-1).tolist()]
        sentences = []
        for first, count in zip(self._first_word.tolist(), self.counts.tolist(), strict=True):
            sentences.append(tags[first : first + count])
        return sentences

    def entities(self, logits):
        """Returns the entities of each sentence as `Sentences.entities` has them."""
        sentences = []
        for row, entities in enumerate(self.word_entities(logits)):
            sentences.append(self.in_text(row, entities))
        return sentences

    def word_entities(self, logits):
        """Returns the entities of each sentence, with indices of words."""
        prefixes, types = parse(self.labels)
        parts = dict(zip(self.labels, zip(prefixes, types, strict=True), strict=True))
        sentences = []
        for row, tags in enumerate(self.tags(logits)):
            entities = schemes.joined([parts[tag] for tag in tags])
            if self.sentences.scheme == "io":
                # As in the written file: adjacent entities of a type are one.
                written = schemes.to_tags(entities, int(self.counts[row]), "io")
                entities = schemes.entities(written, "io")
            sentences.append(entities)
        return sentences

    def in_text(self, row, entities):
        """Converts entities of words to characters, if the sentences are texts."""
        if self.sentences.texts is None or not entities:
            return entities
        words = self.word_spans(row)
        converted = []
        for type_, first, limit in entities:
            start, _ = words[first]
            _, end = words[limit - 1]
            converted.append(EntitySpan(type_, start, end))
        return converted


def labels(sentences):
    """Returns the labels of a model for `Sentences`: B and I of each type, or the plain tags."""
    types = set(itertools.chain.from_iterable(sentences.types()))
    if sentences.scheme == PLAIN:
        return sorted(types)
    return schemes.labels(types)


def _spans_between_spaces(words):
    """Returns the first character of each word and the last + 1, where single spaces separate the words."""
    spans = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def _continued(tag):
    """Returns the tag of further parts of a word."""
    if tag[:2] in ("B", "B-"):
        return f"I{tag[1:]}"
    return tag
