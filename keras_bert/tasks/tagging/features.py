"""Converts sentences to windows of tokens, tags to targets, and logits to tags of words and entities."""

import bisect
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.data.token_rows import compact_parts
from keras_bert.heads.answers import character_offsets
from keras_bert.tasks.tagging import schemes
from keras_bert.tasks.tagging.schemes import PLAIN, Entity
from keras_bert.text.entities import parse
from keras_bert.text.preprocessor import unpadded
from keras_bert.text.spans import Windows, half_stride, max_context, sliding_windows, window_slices

_CHUNK = 2**12  # Sentences to tokenize at a time.
_WINDOWS = 2**12  # Windows to predict at a time.
_IGNORED = -1  # Target of tokens without a tag.
_NEVER = -1e9  # Logit of the tags that a word without tokens does not get.

# Coordinates: a *sentence* is a row of the file; its *words* and *tokens* are numbered over all sentences, so that they
# index flat arrays. A *window* has tokens of one unit, a sentence or a whole document. The words of a text also have
# *bytes* in it; entities of texts are in *characters*, all other entities in words of their sentence.


class _Words(NamedTuple):
    """The words of all sentences and their tokens."""

    ids: tf.RaggedTensor  # Token ids `(sentences, tokens)`.
    counts: np.ndarray  # `(sentences,)`, the number of words.
    first_token: np.ndarray  # `(words,)`, -1 for a word without tokens.
    word: np.ndarray  # `(tokens,)`, the word of each token.
    starts_part: np.ndarray  # `(tokens,)`, whether a token starts a word of BERT: it has no `##`.
    bytes: np.ndarray | None  # `(words, 2)`, the first in the text and the last + 1; `None` for lists of words.


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
        self.sentences, self.labels, self._preprocessor = sentences, list(labels), preprocessor
        self.ids = {label: number for number, label in enumerate(self.labels)}
        self.outside = schemes.OUTSIDE if schemes.OUTSIDE in self.ids else self.labels[0]
        tokenize, source = (_of_words, sentences.words) if sentences.texts is None else (_of_texts, sentences.texts)
        words = self._words = tokenize(source, preprocessor.tokenizer)
        self.counts, self.tokens = words.counts, words.ids.row_lengths().numpy()
        self.has_tokens, self._first_word = words.first_token >= 0, np.cumsum(words.counts) - words.counts
        missing = np.flatnonzero(~self.has_tokens)
        rows = np.searchsorted(np.cumsum(self.counts), missing, "right")
        self.without_tokens = list(zip(rows.tolist(), (missing - self._first_word[rows]).tolist(), strict=True))
        self.gold_tags, self.inexact = self._gold_tags() if sentences.is_labeled else (None, [])
        units = words.ids
        if document_context:
            sizes = np.bincount(sentences.documents, self.tokens).astype(np.int64)
            units = tf.RaggedTensor.from_row_lengths(units.values, sizes[np.unique(sentences.documents)])
        self._units = units
        room = preprocessor.room()
        self.windows = sliding_windows(units.row_lengths(), room, half_stride(preprocessor.sequence_length))
        self._chosen = max_context(self.windows)
        self._targets = self._token_targets(first_token_only)

    def _gold_tags(self):
        """Returns the tags of the words of each sentence, and the sentence of each entity with borders inside words."""
        if self.sentences.tags is not None:
            return self.sentences.tags, []
        in_words, inexact = list(self.sentences.entities), []
        for row in range(0 if self.sentences.texts is None else len(self.sentences)):
            in_words[row], others = _in_words(self.word_spans(row), in_words[row])
            inexact += [row] * others
        scheme = itertools.repeat(schemes.of_labels(self.labels))
        return list(map(schemes.to_tags, in_words, self.counts.tolist(), scheme)), inexact

    def _token_targets(self, first_token_only):
        """Returns the label id of each token, -1 for tokens that are not trained or have an unknown type."""
        words, ids = self._words, self.ids
        targets = np.full(len(words.word), _IGNORED, np.int32)
        if self.gold_tags is None:
            return targets
        tags = list(itertools.chain.from_iterable(self.gold_tags))
        if not first_token_only:
            parts = tags if self.sentences.scheme == PLAIN else map(_continued, tags)
            of_parts = np.array([ids.get(tag, _IGNORED) for tag in parts], np.int32)
            targets[words.starts_part] = of_parts[words.word[words.starts_part]]
        of_words = np.array([ids.get(tag, _IGNORED) for tag in tags], np.int32)
        targets[words.first_token[self.has_tokens]] = of_words[self.has_tokens]
        return targets

    def text(self, row):
        """Returns a sentence as text."""
        return " ".join(self.sentences.words[row]) if self.sentences.texts is None else self.sentences.texts[row]

    def word_spans(self, row):
        """Returns the character offsets of the words of a sentence in its text."""
        if self.sentences.texts is None:
            words = self.sentences.words[row]
            ends = itertools.accumulate(map(len, words), lambda end, length: end + 1 + length)
            return [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
        first = int(self._first_word[row])
        offsets = character_offsets(self.text(row))[self._words.bytes[first : first + int(self.counts[row])]]
        return list(map(tuple, offsets.tolist()))

    def inputs(self, first=0, last=None):
        """Returns the compact model inputs of a range of windows, for `Batches`."""
        return compact_parts(self._ragged_parts(Windows(*(part[first:last] for part in self.windows))))

    def _ragged_parts(self, windows):
        for begin in range(0, max(len(windows.length), 1), _WINDOWS):
            some = Windows(*(part[begin : begin + _WINDOWS] for part in windows))
            yield unpadded(self._preprocessor.pack(window_slices(self._units, some)))

    def targets(self):
        """Returns the label ids of the tokens of each window, ragged int32; -1 for tokens that are ignored."""
        targets = window_slices(self._units.with_values(tf.constant(self._targets)), self.windows)
        targets = tf.where(self._chosen.values, targets.values, _IGNORED)
        ends = tf.fill([len(self.windows.length), 1], _IGNORED)
        return tf.concat([ends, self._chosen.with_values(targets), ends], 1)

    def examples(self):
        """Returns inputs and targets for training."""
        return self.inputs(), self.targets()

    def logits(self, predict):
        """Returns the logits of all words, `(words, labels)`; `predict` maps inputs to the model's outputs."""
        count = len(self.windows.length)
        parts = []
        for first in range(0, count, _WINDOWS):
            outputs = predict(self.inputs(first, first + _WINDOWS))
            parts.append(self._token_logits(outputs["logits"], first, first + _WINDOWS))
        return self._word_logits(np.concatenate(parts))

    def from_outputs(self, outputs):
        """Returns the logits of all words, given the outputs of the model for all windows."""
        return self._word_logits(self._token_logits(outputs["logits"]))

    def _token_logits(self, logits, first=0, last=None):
        """Returns the logits of the tokens of a range of windows, each from the window with the most context."""
        chosen = self._chosen[first:last].to_tensor(False).numpy()
        mask = np.zeros(logits.shape[:2], bool)
        mask[:, 1 : 1 + chosen.shape[1]] = chosen
        return logits[mask]

    def _word_logits(self, logits):
        """Returns the logits of the first token of each word, given those of all tokens."""
        words = np.full((len(self.has_tokens), len(self.labels)), _NEVER, logits.dtype)
        words[:, self.ids[self.outside]] = 0  # Of words without tokens.
        words[self.has_tokens] = logits[self._words.first_token[self.has_tokens]]
        return words

    def tags(self, logits):
        """Returns the tags of the words of each sentence with the highest logits, a list of lists."""
        tags = iter([self.labels[number] for number in logits.argmax(-1).tolist()])
        return [list(itertools.islice(tags, count)) for count in self.counts.tolist()]

    def entities(self, logits):
        """Returns the entities of each sentence as `Sentences.entities` has them."""
        return [self.in_text(row, entities) for row, entities in enumerate(self.word_entities(logits))]

    def word_entities(self, logits):
        """Returns the entities of each sentence, with indices of words."""
        parts = dict(zip(self.labels, zip(*parse(self.labels), strict=True), strict=True))
        entities = [schemes.joined(map(parts.get, tags)) for tags in self.tags(logits)]
        if self.sentences.scheme == "io":  # As in the written file: adjacent entities of a type are one.
            tags = map(schemes.to_tags, entities, self.counts.tolist(), itertools.repeat("io"))
            entities = [schemes.entities(sentence, "io") for sentence in tags]
        return entities

    def in_text(self, row, entities):
        """Converts entities of words to characters, if the sentences are texts."""
        if self.sentences.texts is None or not entities:
            return entities
        words = self.word_spans(row)
        return [Entity(type_, words[start][0], words[end - 1][1]) for type_, start, end in entities]


def labels(sentences):
    """Returns the labels of a model for `Sentences`: B and I of each type, or the plain tags."""
    types = {type_ for types in sentences.types() for type_ in types}
    return sorted(types) if sentences.scheme == PLAIN else schemes.labels(types)


def _of_words(sentences, tokenizer):
    """Returns the `_Words` of lists of words."""
    ids, sizes = [], []
    for first in range(0, len(sentences), _CHUNK):
        words = tf.ragged.constant(sentences[first : first + _CHUNK], tf.string, ragged_rank=1)
        pieces = words.with_values(tokenizer(words.values))
        sizes.append(pieces.values.row_lengths().numpy())
        ids.append(pieces.merge_dims(1, 2))
    ids, sizes = tf.concat(ids, 0), np.concatenate(sizes)
    counts, starts_part = np.array(list(map(len, sentences))), tokenizer.word_starts(ids.values).numpy()
    first_token = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
    return _Words(ids, counts, first_token, np.repeat(np.arange(len(sizes)), sizes), starts_part, None)


def _of_texts(texts, tokenizer):
    """Returns the `_Words` of texts, which are those of BERT."""
    parts = [tokenizer.with_offsets(tf.constant(texts[n : n + _CHUNK])) for n in range(0, len(texts), _CHUNK)]
    ids, starts, ends = (tf.concat(values, 0) for values in zip(*parts, strict=True))
    starts_part = tokenizer.word_starts(ids.values).numpy()
    first_token = np.flatnonzero(starts_part)
    sentence = ids.value_rowids().numpy()
    counts = np.bincount(sentence[first_token], minlength=len(texts))
    last_token = np.append(first_token, len(sentence))[1:] - 1
    spans = np.stack([starts.values.numpy()[first_token], ends.values.numpy()[last_token]], 1)
    return _Words(ids, counts, first_token, np.cumsum(starts_part) - 1, starts_part, spans)


def _in_words(spans, entities):
    """Converts entities in characters to the words that cover them; also returns how many have other borders."""
    in_words, inexact = [], 0
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    for type_, start, end in entities:
        first, last = bisect.bisect_right(ends, start), bisect.bisect_left(starts, end)
        inexact += first >= last or (starts[first], ends[last - 1]) != (start, end)
        first = max(first, in_words[-1].end if in_words else 0)  # Two entities may share a word.
        if first < last:
            in_words.append(Entity(type_, first, last))
    return in_words, inexact


def _continued(tag):
    """Returns the tag of further parts of a word."""
    return f"I{tag[1:]}" if tag[:2] in ("B", "B-") else tag
