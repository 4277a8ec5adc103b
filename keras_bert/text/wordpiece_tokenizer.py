"""BERT's tokenizer inside the graph: from strings to ids and byte offsets, identical to Google's.

Two tf-text kernels make one pass each: the normalizer, with the table of `normalization`, and the linear WordPiece,
which also splits at white space, punctuation and Chinese characters. A regular expression detects two rare cases that
need more work: a capital sigma at the end of a word, and words that are too long (the kernel limits bytes). Added
tokens and kept special tokens are extracted beforehand, see `literals`.
"""

import tensorflow as tf

from keras_bert.text import normalization, wordpiece_words
from keras_bert.text.graph_steps import PreTokenizer, sequence_normalizer
from keras_bert.text.literals import join, without_tokens
from keras_bert.text.packing import select
from keras_bert.text.pieces import CONTINUATION
from keras_bert.text.tokenizer import Tokenizer, constant, original_offsets, trimmed_offsets

# Characters that end a word in any context.
_ENDS = r"\s!-/:-@\[-`{-~、。"
_CHINESE = "㐀-䶿一-鿿"
_PUNCTUATION = r"[!-/:-@\[-`{-~]|\p{P}"


class WordSplitter:
    """Splits texts into normalized words, without WordPiece; `strip_accents` defaults to `lowercase`.

    Example:
        WordSplitter()(["Don't!"])  # [["don", "'", "t", "!"]]
    """

    def __init__(self, lowercase: bool = True, strip_accents=None):
        self._lowercase = lowercase
        # With this vocabulary every word is a single token.
        self._normalizer = _bert_normalizer(lowercase, strip_accents)
        self._words = _wordpiece(["[UNK]", "a"], 2**30)

    def __call__(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        if self._lowercase:
            texts = normalization.replace_final_sigma(texts)
        normalized = self._normalizer.normalize(texts)
        _, starts, ends = self._words.tokenize_with_offsets(normalized)
        text_of_word = tf.gather(normalized, starts.value_rowids())
        words = tf.strings.substr(text_of_word, starts.values, ends.values - starts.values)
        return starts.with_values(words)


class WordPieceTokenizer(Tokenizer):
    """Splits texts into the pieces of a WordPiece vocabulary, see `BertTokenizer`."""

    def _create_kernels(self, lowercase, strip_accents):
        self.vocabulary.check_casing(lowercase)
        if strip_accents is None:
            strip_accents = self.vocabulary.strip_accents
        self._has_steps = self.vocabulary.has_steps
        self._longest = self.vocabulary.max_word_length
        self._chinese = self.vocabulary.tokenize_chinese_chars
        self.spaced = self._chinese and not self._has_steps
        self._short_words = _short_words(self._longest, self._chinese)
        self._plain = self._short_words.replace("[^", "[^Σ")
        pieces = self.vocabulary.wordpieces
        self._wordpiece = _wordpiece(pieces, self._longest * 4, split=self.spaced)
        if self._has_steps:
            accents = self.vocabulary.replace(strip_accents=strip_accents)
            normalizer = accents.algorithm.json_normalizer(accents, lowercase)
            self._normalizer = sequence_normalizer(normalizer)
            self._pre_tokenizer = PreTokenizer(self.vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"})
        else:
            self._normalizer = _bert_normalizer(lowercase, strip_accents)
        self._unknown = self.vocabulary.id("[UNK]")
        is_continuation = [piece.startswith(CONTINUATION) for piece in pieces]
        lengths = [len(piece.removeprefix(CONTINUATION)) for piece in pieces]
        self._is_continuation = constant(is_continuation, tf.bool)
        self._characters = constant(lengths, tf.int32)

    @staticmethod
    def new_pieces(vocabulary, words, lowercase):
        return wordpiece_words.new_pieces(vocabulary, words, lowercase)

    def _starts_words(self, ids):
        """Those without `##`."""
        return ~tf.gather(self._is_continuation, ids)

    def _normalized(self, content):
        forms = [content]
        with tf.init_scope():
            if not self._has_steps:
                forms.append(normalization.replace_final_sigma(content))
            normalized = self._normalizer.normalize(tf.stack(forms))
            return [form.decode() for form in normalized.numpy()]

    def _pieces_of_rest(self, texts, offsets):
        original = texts
        short = None  # Steps other than BERT's limit words by themselves, see `_pieces_of_parts`.
        if not self._has_steps:
            texts, short = self._prepare(texts)
        if offsets:
            normalized, origins = self._normalizer.normalize_with_offsets(texts)
        else:
            normalized = self._normalizer.normalize(texts)
        if self._normal is None:
            pieces = self._pieces_of_words(normalized, short, offsets)
        else:
            parts = self._normal.split(normalized)
            pieces = join(parts, *self._pieces_of_words(parts.rest, short, offsets))
        if not offsets:
            return pieces
        ids, starts, ends = pieces
        if self.vocabulary.trim_offsets:
            return ids, *trimmed_offsets(original, origins, starts, ends)
        return ids, *original_offsets(origins, starts, ends)

    def _prepare(self, texts):
        """Replaces final sigmas, without changing byte counts, and checks that no word is too long."""
        plain = _all_match(texts, self._plain)

        def look_closer():
            short = _all_match(texts, self._short_words)
            if self._lowercase:
                return normalization.replace_final_sigma(texts), short
            return texts, short

        return tf.cond(plain, lambda: (texts, plain), look_closer)

    def _pieces_of_words(self, texts, short, offsets):
        """Tokenizes normalized texts, optionally with offsets into them; `short` is whether no word is too long."""
        if self._has_steps:
            return self._pieces_of_parts(self._pre_tokenizer(texts), offsets)
        if self._chinese:
            pieces = self._kernel_pieces(texts, offsets)
        else:
            parts = _split_words(texts)
            pieces = join(parts, *self._kernel_pieces(parts.rest, offsets))
        return tf.cond(short, lambda: tuple(pieces), lambda: self._limit_words(*pieces))

    def _kernel_pieces(self, texts, offsets):
        """Returns what the kernel makes of texts: `(ids,)`, or `(ids, starts, ends)`."""
        if offsets:
            return self._wordpiece.tokenize_with_offsets(texts)
        return (self._wordpiece.tokenize(texts),)

    def _pieces_of_parts(self, parts, offsets):
        """Tokenizes words; those of too many characters are [UNK]."""
        is_long = tf.strings.length(parts.rest, "UTF8_CHAR") > self._longest
        words = tf.where(is_long, "\1", parts.rest)  # In no text: the normalizer replaces it.
        if not offsets:
            return join(parts, self._wordpiece.tokenize(words))
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(words)
        part = ids.value_rowids()
        sizes = tf.gather(tf.cast(tf.strings.length(parts.rest), ends.dtype), part)
        ends_of_words = tf.where(tf.gather(is_long, part), sizes, ends.values)
        return join(parts, ids, starts, ends.with_values(ends_of_words))

    def _limit_words(self, ids, *offsets):
        """Replaces words of too many characters by [UNK]."""
        is_continuation = tf.gather(self._is_continuation, ids.values)
        word = tf.cumsum(tf.cast(~is_continuation, tf.int32)) - 1
        lengths = tf.math.segment_sum(tf.gather(self._characters, ids.values), word)
        is_long = tf.gather(lengths > self._longest, word)
        limited = [ids.with_values(tf.where(is_long, self._unknown, ids.values))]
        if offsets:
            starts, ends = offsets
            end_of_word = tf.gather(tf.math.segment_max(ends.values, word), word)
            limited += [starts, ends.with_values(tf.where(is_long, end_of_word, ends.values))]
        return select(~(is_long & is_continuation), *limited)


def _short_words(longest, splits_chinese):
    """Returns a regular expression of texts without words that may be too long after the normalization."""
    ends = _ENDS
    if splits_chinese:
        ends += _CHINESE
    # A character normalizes to at most three, so a word of a third of the maximum length cannot become too long.
    most = min(longest // 3, 66)  # More repetitions make the regular expression slow.
    word = f"[^{ends}]{{0,{most}}}"
    return f"(?:{word}[{ends}])*{word}"


def _bert_normalizer(lowercase, strip_accents):
    """Creates tf-text's normalizer."""
    # Imported lazily: `import keras_bert` loads this file to register the preprocessor, and must stay fast.
    import tensorflow_text

    if strip_accents is None:
        strip_accents = lowercase
    model = normalization.model(bool(lowercase), bool(strip_accents))
    return tensorflow_text.FastBertNormalizer(model_buffer=constant(model, tf.uint8))


def _wordpiece(pieces, most_bytes, split=True):
    """Creates tf-text's WordPiece, which splits texts into words if `split`."""
    import tensorflow_text

    return tensorflow_text.FastWordpieceTokenizer(
        pieces, max_bytes_per_word=most_bytes, token_out_type=tf.int32, no_pretokenization=not split
    )


def _split_words(texts):
    """Splits normalized texts into words at white space and punctuation only."""
    import tensorflow_text

    words, starts, ends = tensorflow_text.regex_split_with_offsets(texts, rf"\s+|{_PUNCTUATION}", _PUNCTUATION)
    return without_tokens(words.row_splits, words.values, starts.values, ends.values)


def _all_match(texts, pattern):
    return tf.reduce_all(tf.strings.regex_full_match(texts, pattern))
