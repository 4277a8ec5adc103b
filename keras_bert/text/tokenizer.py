"""BERT's tokenizer inside the graph: from strings to ids and byte offsets, equal to Google's.

Two kernels of tf-text do the work in one pass each: its normalizer, with the exact table of `normalization`, and its
linear WordPiece, which splits at white space, punctuation and Chinese characters on the way. What they cannot see is
rare, found by one regular expression, and mended: the final sigma and the limit of 200 characters a word.
"""

import re

import tensorflow as tf
import tensorflow_text

from keras_bert.text import normalization
from keras_bert.text.vocabulary import Vocabulary

LONGEST_WORD = 200  # In characters after normalization; a longer word is [UNK].
# No run of so many characters that it could become a longer word: no character becomes more than three.
_SHORT_WORDS = r"(?:\S{0,66}\s)*\S{0,66}"
# Code points among the Chinese ones that no character has: the kernel takes each for a word of its own.
_PLACEHOLDERS = [chr(code) for code in range(0xFADA, 0xFB00)]
_NO_CHARACTER = "\ufa6e"


class WordSplitter:
    """Texts to words: clean-up, lower-casing, accent stripping, split at white space, punctuation, Chinese characters.

    Args:
        lowercase: whether words are lower-cased.
        strip_accents: whether accents are removed; `None` is the same as `lowercase`.

    Example:
        WordSplitter()(["Don't!"])  # [["don", "'", "t", "!"]]
    """

    def __init__(self, lowercase=True, strip_accents=None):
        self._normalizer = _Normalizer(lowercase, strip_accents)
        self._words = _wordpiece(["[UNK]"], most_bytes=2**30)

    def __call__(self, texts):
        texts = self._normalizer.normalize(tf.convert_to_tensor(texts, tf.string))
        _, starts, ends = self._words.tokenize_with_offsets(texts)
        texts = tf.gather(texts, starts.value_rowids())
        return starts.with_values(tf.strings.substr(texts, starts.values, ends.values - starts.values))


class BertTokenizer:
    """Texts to word pieces.

    Args:
        vocabulary: a path, a list of pieces or a `Vocabulary`.
        lowercase: whether the vocabulary is uncased.
        strip_accents: whether accents are removed; `None` is the same as `lowercase`.
        keep_special_tokens: pieces such as `"[MASK]"` that are kept whole where a text has them literally. By default
            they are split at the brackets, as any text.

    Call arguments:
        texts: strings, `(batch,)`.

    Returns:
        int32 ids, ragged `(batch, pieces)`. `with_offsets` gives `(ids, starts, ends)`: the bytes of the text that
        each piece came from, with the accents after it.

    Example:
        BertTokenizer("vocab.txt")(["Hello there!"])
    """

    def __init__(self, vocabulary, lowercase=True, strip_accents=None, keep_special_tokens=()):
        self.vocabulary = Vocabulary(vocabulary)
        self.keep_special_tokens = tuple(keep_special_tokens)
        _check_literals(self.keep_special_tokens, self.vocabulary)
        self._normalizer = _Normalizer(lowercase, strip_accents)
        pieces = [*self.vocabulary.pieces, *_PLACEHOLDERS[: len(self.keep_special_tokens)]]
        self._wordpiece = _wordpiece(pieces, LONGEST_WORD * 4)
        self._ids = _constant([*range(len(self.vocabulary)), *self.vocabulary.ids(self.keep_special_tokens)], tf.int32)
        self._unknown = self.vocabulary.id("[UNK]")
        self._goes_on = _constant([piece.startswith("##") for piece in pieces], tf.bool)
        self._characters = _constant([len(piece.removeprefix("##")) for piece in pieces], tf.int32)
        signature = [tf.TensorSpec([None], tf.string)]
        self._tokenize = tf.function(self._tokenize, input_signature=signature)
        self._tokenize_with_offsets = tf.function(self._tokenize_with_offsets, input_signature=signature)

    def __call__(self, texts):
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def with_offsets(self, texts):
        return self._tokenize_with_offsets(tf.convert_to_tensor(texts, tf.string))

    def _tokenize(self, texts):
        texts = self._hide_literals(texts)
        ids = self._wordpiece.tokenize(self._normalizer.normalize(texts))
        (ids,) = self._limit_words(texts, ids)
        return self._show_literals(ids)

    def _tokenize_with_offsets(self, texts):
        texts = self._hide_literals(texts)
        normal, origins = self._normalizer.normalize_with_offsets(texts)
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(normal)
        starts, ends = _original_offsets(origins, starts, ends)
        ids, starts, ends = self._limit_words(texts, ids, starts, ends)
        return self._show_literals(ids), starts, ends

    def _hide_literals(self, texts):
        """Puts a placeholder for each special token that is kept, in as many bytes: the rest of them is cleaned up."""
        if self.keep_special_tokens:
            texts = tf.strings.regex_replace(texts, f"[{_PLACEHOLDERS[0]}-{_PLACEHOLDERS[-1]}]", _NO_CHARACTER)
        for literal, placeholder in zip(self.keep_special_tokens, _PLACEHOLDERS, strict=False):
            filler = "\x7f" * (len(literal.encode()) - len(placeholder.encode()))
            texts = tf.strings.regex_replace(texts, re.escape(literal), placeholder + filler)
        return texts

    def _show_literals(self, ids):
        return tf.ragged.map_flat_values(tf.gather, self._ids, ids) if self.keep_special_tokens else ids

    def _limit_words(self, texts, ids, *offsets):
        """Google limits words by characters, the kernel by bytes: makes [UNK] of the words that passed only here."""
        short = tf.reduce_all(tf.strings.regex_full_match(texts, _SHORT_WORDS))
        return tf.cond(short, lambda: (ids, *offsets), lambda: self._drop_long_words(ids, *offsets))

    def _drop_long_words(self, ids, *offsets):
        goes_on = tf.gather(self._goes_on, ids.values)
        word = tf.cumsum(tf.cast(~goes_on, tf.int32)) - 1
        long = tf.gather(tf.math.segment_sum(tf.gather(self._characters, ids.values), word) > LONGEST_WORD, word)
        keep = ids.with_values(~(long & goes_on))
        values = [ids.with_values(tf.where(long, self._unknown, ids.values))]
        if offsets:
            starts, ends = offsets
            values += [starts, ends.with_values(tf.gather(tf.math.segment_max(ends.values, word), word))]
        return tuple(tf.ragged.boolean_mask(value, keep) for value in values)


class _Normalizer:
    """Clean-up, lower-casing and accent stripping in one pass of tf-text's kernel with an exact table."""

    def __init__(self, lowercase, strip_accents):
        strip_accents = lowercase if strip_accents is None else strip_accents
        model = normalization.model(bool(lowercase), bool(strip_accents))
        self._kernel = tensorflow_text.FastBertNormalizer(model_buffer=_constant(model, tf.uint8))
        self._lowercase = lowercase

    def normalize(self, texts):
        return self._kernel.normalize(self._final_sigma(texts))

    def normalize_with_offsets(self, texts):
        return self._kernel.normalize_with_offsets(self._final_sigma(texts))

    def _final_sigma(self, texts):
        if not self._lowercase:
            return texts
        return tf.strings.regex_replace(texts, normalization.final_sigma(), normalization.FINAL_SIGMA)


def _wordpiece(pieces, most_bytes):
    return tensorflow_text.FastWordpieceTokenizer(list(pieces), max_bytes_per_word=most_bytes, token_out_type=tf.int32)


def _constant(values, dtype):
    """A constant that lives outside of any graph, so that every graph can hold it."""
    with tf.init_scope(), tf.device("cpu"):
        return tf.constant(values, dtype)


def _original_offsets(origins, starts, ends):
    """Places in the normalized texts to places in the texts, by the map from the one to the other."""
    rows = tf.gather(origins.row_starts(), starts.value_rowids())
    origin, last = tf.cast(origins.values, tf.int32), ends.values + rows - 1
    first, end = tf.gather(origin, starts.values + rows), tf.gather(origin, last + 1)
    within = end == tf.gather(origin, last)  # The piece ends amid what one character became: it has all of it.

    def next_character():
        changes = tf.where(origin[1:] != origin[:-1])[:, 0]
        return tf.gather(origin, tf.gather(changes, tf.searchsorted(changes, last)) + 1)

    end = tf.cond(tf.reduce_any(within), next_character, lambda: end)
    return starts.with_values(first), ends.with_values(end)


def _check_literals(literals, vocabulary):
    shortest = len(_PLACEHOLDERS[0].encode())
    for literal in literals:
        if not isinstance(literal, str) or literal not in vocabulary:
            raise ValueError(
                f"`keep_special_tokens` has a token that is not in the vocabulary, {vocabulary.source}. "
                f"Received: {literal!r}"
            )
        if len(literal.encode()) < shortest:
            raise ValueError(f"`keep_special_tokens` must have {shortest} bytes each. Received: {literal!r}")
    if len(literals) > len(_PLACEHOLDERS):
        raise ValueError(f"`keep_special_tokens` has {len(_PLACEHOLDERS)} tokens at most. Received: {len(literals)}")
