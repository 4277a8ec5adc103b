"""BERT's tokenizer inside the graph: from strings to ids and byte offsets, equal to Google's.

Two kernels of tf-text do the work in one pass each: its normalizer, with the exact table of `normalization`, and its
linear WordPiece, which splits at white space, punctuation and Chinese characters on the way. Two things need a second
look, and are rare enough for one regular expression to rule them out: a capital sigma that ends a word, and words of
more than 200 characters (the kernel limits bytes).
"""

import re

import tensorflow as tf

from keras_bert.text import normalization
from keras_bert.text.vocabulary import LONGEST_WORD, Vocabulary

# Characters that end a word whatever stands around them, and runs without them that cannot become a long word, since no
# character becomes more than three.
_ENDS = r"\s!-/:-@\[-`{-~、。㐀-䶿一-鿿"
_SHORT_WORDS = f"(?:[^{_ENDS}]{{0,66}}[{_ENDS}])*[^{_ENDS}]{{0,66}}"
_PLAIN = _SHORT_WORDS.replace("[^", "[^Σ")
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
        self._lowercase = lowercase
        # With this vocabulary every word is one piece.
        self._normalizer, self._words = _kernels(lowercase, strip_accents, ["[UNK]", "a"], 2**30)

    def __call__(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        if self._lowercase:
            texts = normalization.replace_final_sigma(texts)
        texts = self._normalizer.normalize(texts)
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
        _check_literals(keep_special_tokens, self.vocabulary)
        self.keep_special_tokens = tuple(keep_special_tokens)
        self._lowercase = lowercase
        pieces = [*self.vocabulary.pieces, *_PLACEHOLDERS[: len(self.keep_special_tokens)]]
        self._normalizer, self._wordpiece = _kernels(lowercase, strip_accents, pieces, LONGEST_WORD * 4)
        self._ids = _constant([*range(len(self.vocabulary)), *self.vocabulary.ids(self.keep_special_tokens)], tf.int32)
        self._unknown = self.vocabulary.id("[UNK]")
        self._goes_on = _constant([piece.startswith("##") for piece in pieces], tf.bool)
        self._characters = _constant([len(piece.removeprefix("##")) for piece in pieces], tf.int32)
        graph = tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._tokenize, self._tokenize_with_offsets = graph(self._tokenize), graph(self._tokenize_with_offsets)

    def __call__(self, texts):
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def with_offsets(self, texts):
        return self._tokenize_with_offsets(tf.convert_to_tensor(texts, tf.string))

    def _tokenize(self, texts):
        texts, short = self._prepare(texts)
        ids = self._wordpiece.tokenize(self._normalizer.normalize(texts))
        ids = tf.cond(short, lambda: ids, lambda: self._limit_words(ids)[0])
        return self._show_literals(ids)

    def _tokenize_with_offsets(self, texts):
        texts, short = self._prepare(texts)
        normal, origins = self._normalizer.normalize_with_offsets(texts)
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(normal)
        starts, ends = _original_offsets(origins, starts, ends)
        ids, starts, ends = tf.cond(short, lambda: (ids, starts, ends), lambda: self._limit_words(ids, starts, ends))
        return self._show_literals(ids), starts, ends

    def _prepare(self, texts):
        """The texts with as many bytes, ready for the table, and whether no word of them is too long."""
        texts = self._hide_literals(texts)
        plain = _all_match(texts, _PLAIN)
        return tf.cond(plain, lambda: (texts, plain), lambda: self._second_look(texts))

    def _second_look(self, texts):
        short = _all_match(texts, _SHORT_WORDS)
        return normalization.replace_final_sigma(texts) if self._lowercase else texts, short

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

    def _limit_words(self, ids, *offsets):
        """Makes [UNK] of every word of more than 200 characters."""
        goes_on = tf.gather(self._goes_on, ids.values)
        word = tf.cumsum(tf.cast(~goes_on, tf.int32)) - 1
        long = tf.gather(tf.math.segment_sum(tf.gather(self._characters, ids.values), word) > LONGEST_WORD, word)
        keep = ids.with_values(~(long & goes_on))
        values = [ids.with_values(tf.where(long, self._unknown, ids.values))]
        if offsets:
            starts, ends = offsets
            last = tf.gather(tf.math.segment_max(ends.values, word), word)
            values += [starts, ends.with_values(tf.where(long, last, ends.values))]
        return tuple(tf.ragged.boolean_mask(value, keep) for value in values)


def _kernels(lowercase, strip_accents, pieces, most_bytes):
    """tf-text's normalizer and its WordPiece."""
    # Not above: `import keras_bert` reads this file, so that Keras knows the preprocessor, and should stay quick.
    import tensorflow_text

    strip_accents = lowercase if strip_accents is None else strip_accents
    model = normalization.model(bool(lowercase), bool(strip_accents))
    return (
        tensorflow_text.FastBertNormalizer(model_buffer=_constant(model, tf.uint8)),
        tensorflow_text.FastWordpieceTokenizer(pieces, max_bytes_per_word=most_bytes, token_out_type=tf.int32),
    )


def _all_match(texts, pattern):
    return tf.reduce_all(tf.strings.regex_full_match(texts, pattern))


def _constant(values, dtype):
    """A constant that lives outside of any graph, so that every graph can hold it."""
    with tf.init_scope(), tf.device("cpu"):
        return tf.constant(values, dtype)


def _original_offsets(origins, starts, ends):
    """Places in the normalized texts to places in the texts, by the map from the one to the other."""
    # The start of each piece's row: two ranges, for a tenth of the time of `value_rowids`.
    lengths = starts.row_lengths()
    rows = (
        tf.ragged.range(origins.row_starts(), origins.row_starts() + lengths).values - tf.ragged.range(lengths).values
    )
    origin, last = tf.cast(origins.values, tf.int32), ends.values + rows - 1
    first, end = tf.gather(origin, starts.values + rows), tf.gather(origin, last + 1)
    within = end == tf.gather(origin, last)  # The piece ends amid what one character became: it has all of it.

    def next_character():
        changes = tf.where(origin[1:] != origin[:-1])[:, 0]
        return tf.gather(origin, tf.gather(changes, tf.searchsorted(changes, last)) + 1)

    end = tf.cond(tf.reduce_any(within), next_character, lambda: end)
    return starts.with_values(first), ends.with_values(end)


def _check_literals(literals, vocabulary):
    if not isinstance(literals, list | tuple):
        raise ValueError(f"`keep_special_tokens` must be a list or a tuple. Received: {literals!r}")
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
