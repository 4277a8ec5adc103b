"""Converts sentences to windows of tokens, tags to targets, and logits to tags of words and entities."""

import bisect
import functools
import itertools

import numpy as np
import tensorflow as tf

from keras_bert.tasks.tagging import schemes
from keras_bert.tasks.tagging.schemes import PLAIN, Entity
from keras_bert.text.spans import half_stride, max_context, sliding_windows, window_slices

_CHUNK = 2**12  # Sentences to tokenize at a time.
_WINDOWS = 2**12  # Windows to predict at a time.
_IGNORED = -1  # Target of tokens without a tag.
_NEVER = -1e9  # Logit of the tags that a word without tokens does not get.


class TaggingWindows:
    """The windows of `data.Sentences` for one model.

    A word's first token carries its tag. Words of texts are those of BERT: a token and the `##` tokens that follow it.
    Windows start half a window apart, as in the exported model; each token counts in the window that gives it the most
    context.

    Args:
        sentences: a `Sentences`.
        preprocessor: the `TextPreprocessor` of the model.
        labels: list of the model's labels, as from `schemes.labels`.
        document_context: bool, whether windows run over whole documents instead of sentences. Defaults to `False`.
        first_token_only: bool, whether only the first token of a word is trained. By default, so are the first tokens
            of its further parts, such as the points of "U.N.". Defaults to `False`.

    Attributes:
        counts: integer array, the number of words of each sentence.
        tokens: integer array, the number of tokens of each sentence.
        has_tokens: boolean array, whether the tokenizer keeps a word, for all words.
        without_tokens: list of `(sentence, word)`, the words that the tokenizer drops; they are tagged `outside`.
        outside: "O", or the first label of plain tags.
        inexact: list of sentences with an entity that starts or ends inside a word of BERT.
        windows: `Windows` of all sentences or documents.
    """

    # Differs from BERT: trains further parts of words too, since the words of raw texts are those of BERT.
    def __init__(self, sentences, preprocessor, labels, document_context=False, first_token_only=False):
        self.sentences, self.labels, self._preprocessor = sentences, list(labels), preprocessor
        self._ids = {label: number for number, label in enumerate(self.labels)}
        self._starts_word = np.array([not piece.startswith("##") for piece in preprocessor.vocabulary.pieces])
        self.outside = schemes.OUTSIDE if schemes.OUTSIDE in self._ids else self.labels[0]
        self.inexact = []
        self._tokenize_words() if sentences.texts is None else self._tokenize_texts()
        self.tokens = self._pieces.row_lengths().numpy()
        self.has_tokens = self._first >= 0
        missing = np.flatnonzero(~self.has_tokens)
        rows = np.searchsorted(np.cumsum(self.counts), missing, "right")
        starts = np.cumsum(self.counts) - self.counts
        self.without_tokens = list(zip(rows.tolist(), (missing - starts[rows]).tolist(), strict=True))
        units = self._pieces
        if document_context:
            sizes = np.bincount(sentences.documents, self.tokens).astype(np.int64)
            units = tf.RaggedTensor.from_row_lengths(units.values, sizes[np.unique(sentences.documents)])
        self._units = units
        room = preprocessor.sequence_length - 2
        self.windows = sliding_windows(units.row_lengths(), room, half_stride(preprocessor.sequence_length))
        self._chosen = max_context(self.windows)
        self._targets = self._targets_of_tokens(first_token_only)

    def _tokenize_words(self):
        """Sets the tokens of each sentence, the first token of each word among all tokens, and the word of each."""
        parts, sizes = [], []
        tokenizer, sentences = self._preprocessor.tokenizer, self.sentences.words
        for first in range(0, len(sentences), _CHUNK):
            words = tf.ragged.constant(sentences[first : first + _CHUNK], tf.string, ragged_rank=1)
            pieces = words.with_values(tokenizer(words.values))
            sizes.append(pieces.values.row_lengths().numpy())
            parts.append(pieces.merge_dims(1, 2))
        self._pieces, sizes = tf.concat(parts, 0), np.concatenate(sizes)
        self.counts = np.array([len(words) for words in sentences])
        self._first = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
        self._word = np.repeat(np.arange(len(sizes)), sizes)

    def _tokenize_texts(self):
        tokenizer, texts = self._preprocessor.tokenizer, self.sentences.texts
        parts = [tokenizer.with_offsets(tf.constant(texts[n : n + _CHUNK])) for n in range(0, len(texts), _CHUNK)]
        self._pieces, starts, ends = (tf.concat(values, 0) for values in zip(*parts, strict=True))
        is_first = self._starts_word[self._pieces.values.numpy()]
        self._first, self._word = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        rows = self._pieces.value_rowids().numpy()
        self.counts = np.bincount(rows[self._first], minlength=len(texts))
        last = np.append(self._first, len(rows))[1:] - 1
        # Of each word, its first byte and its last byte + 1.
        self._bytes = np.stack([starts.values.numpy()[self._first], ends.values.numpy()[last]], 1)

    def _targets_of_tokens(self, first_token_only):
        """Returns the label id of each token, -1 for tokens that are not trained or have an unknown type."""
        targets = np.full(len(self._word), _IGNORED, np.int32)
        if not self.sentences.is_labeled:
            return targets
        tags = list(itertools.chain.from_iterable(self.gold_tags))
        ids = np.array([self._ids.get(tag, _IGNORED) for tag in tags], np.int32)
        if not first_token_only:
            inside = ids
            if self.sentences.scheme != PLAIN:
                inside = np.array([self._ids.get(_continued(tag), _IGNORED) for tag in tags], np.int32)
            parts = np.flatnonzero(self._starts_word[self._pieces.values.numpy()])
            targets[parts] = inside[self._word[parts]]
        targets[self._first[self.has_tokens]] = ids[self.has_tokens]
        return targets

    @functools.cached_property
    def gold_tags(self):
        """The tags of the words of each sentence, in the scheme of the labels."""
        sentences = self.sentences
        if sentences.tags is not None:
            return sentences.tags
        found = sentences.entities
        if sentences.texts is not None:
            found = [self._in_words(row, entities) for row, entities in enumerate(found)]
        return [schemes.to_tags(one, count) for one, count in zip(found, self.counts.tolist(), strict=True)]

    def _in_words(self, row, entities):
        """Converts entities in characters to the words that cover them."""
        in_words, words = [], self.word_spans(row)
        starts, ends = [start for start, _ in words], [end for _, end in words]
        for kind, start, end in entities:
            first, last = bisect.bisect_right(ends, start), bisect.bisect_left(starts, end)
            if first >= last or (starts[first], ends[last - 1]) != (start, end):
                self.inexact.append(row)
            first = max(first, in_words[-1].end if in_words else 0)  # Two entities may share a word.
            if first < last:
                in_words.append(Entity(kind, first, last))
        return in_words

    def word_spans(self, row):
        """Returns the character offsets of the words of a text."""
        first = int(self._offsets[row])
        data = self.sentences.texts[row].encode()
        spans = self._bytes[first : first + int(self.counts[row])].tolist()
        if len(data) == len(self.sentences.texts[row]):
            return [tuple(span) for span in spans]
        places = np.cumsum([(byte & 0xC0) != 0x80 for byte in data])  # The characters up to and with each byte.
        return [(int(places[start]) - 1, int(places[end - 1])) for start, end in spans]

    @functools.cached_property
    def _offsets(self):
        return np.cumsum(self.counts) - self.counts

    def inputs(self, first=0, last=None):
        """Returns ragged model inputs of a range of windows, as expected by `Batches`."""
        windows = type(self.windows)(*(part[first:last] for part in self.windows))
        packed = self._preprocessor.pack(window_slices(self._units, windows))
        lengths = tf.reduce_sum(packed["padding_mask"], axis=-1)
        return {name: tf.RaggedTensor.from_tensor(ids, lengths) for name, ids in packed.items()}

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
        """Returns the logits of all words, `(words, labels)`.

        Args:
            predict: function that maps inputs to the model's outputs.
        """
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
        words = np.full((len(self._first), len(self.labels)), _NEVER, logits.dtype)
        words[:, self._ids[self.outside]] = 0  # Of words without tokens.
        words[self.has_tokens] = logits[self._first[self.has_tokens]]
        return words

    def tags(self, logits):
        """Returns the tags of the words of each sentence with the highest logits, a list of lists."""
        tags = iter([self.labels[number] for number in logits.argmax(-1).tolist()])
        return [list(itertools.islice(tags, count)) for count in self.counts.tolist()]

    def entities(self, logits):
        """Returns the entities of each sentence as `Sentences.entities` has them."""
        return [self.in_text(row, found) for row, found in enumerate(self.word_entities(logits))]

    def word_entities(self, logits):
        """Returns the entities of each sentence, with indices of words."""
        found = [schemes.entities(tags) for tags in self.tags(logits)]
        if self.sentences.scheme == "io":  # As in the written file: adjacent entities of a type are one.
            tags = map(schemes.to_tags, found, self.counts.tolist(), itertools.repeat("io"))
            return [schemes.entities(each, "io") for each in tags]
        return found

    def in_text(self, row, found):
        """Converts entities of words to characters, if the sentences are texts."""
        if self.sentences.texts is None or not found:
            return found
        words = self.word_spans(row)
        return [Entity(kind, words[start][0], words[end - 1][1]) for kind, start, end in found]


def labels(sentences):
    """Returns the labels of a model for `Sentences`: B and I of each type, or the plain tags."""
    found = {kind for kinds in sentences.types() for kind in kinds}
    return sorted(found) if sentences.scheme == PLAIN else schemes.labels(found)


def _continued(tag):
    """Returns the tag of further parts of a word."""
    return f"I{tag[1:]}" if tag[:2] in ("B", "B-") else tag
