"""BERT's tokenizer inside the graph: from strings to ids and byte offsets, identical to Google's.

Two tf-text kernels make one pass each: the normalizer, with the table of `normalization`, and the linear WordPiece,
which also splits at white space, punctuation and Chinese characters. A regular expression detects two rare cases that
need more work: a capital sigma at the end of a word, and words that are too long (the kernel limits bytes). Added
tokens and kept special tokens are extracted beforehand, see `literals`.
"""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert.text import normalization, tokenizer_json
from keras_bert.text.literals import Literals, Parts, join
from keras_bert.text.pre_tokenizer import PreTokenizer
from keras_bert.text.sequence_normalizer import SequenceNormalizer
from keras_bert.text.vocabulary import Vocabulary

# Characters that end a word in any context.
_ENDS, _CHINESE = r"\s!-/:-@\[-`{-~、。", "㐀-䶿一-鿿"
_PUNCTUATION = r"[!-/:-@\[-`{-~]|\p{P}"


class WordSplitter:
    """Splits texts into normalized words, without WordPiece.

    Args:
        lowercase: bool, whether to lower-case words. Defaults to `True`.
        strip_accents: bool, whether to remove accents. Defaults to `lowercase`.

    Example:
        WordSplitter()(["Don't!"])  # [["don", "'", "t", "!"]]
    """

    def __init__(self, lowercase=True, strip_accents=None):
        self._lowercase = lowercase
        # With this vocabulary every word is a single token.
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
    """Splits texts into WordPiece tokens.

    Args:
        vocabulary: a path, a list of pieces, a `TextPreprocessor` or a `Vocabulary`, whose added tokens are kept whole.
        lowercase: bool, whether the vocabulary is uncased. Defaults to that of a `TextPreprocessor`, or else to `True`.
        strip_accents: bool, whether to remove accents. Defaults to the setting of the vocabulary, or else `lowercase`.
        keep_special_tokens: list of tokens such as `"[MASK]"` to keep whole. By default they are split at the brackets.

    Call arguments:
        texts: strings of any shape, or lists of them.

    Returns:
        Ragged int32 ids with the shape of the texts plus one axis; a vector for a single string. `with_offsets` returns
        `(ids, starts, ends)`; the byte offsets of a token include the accents after it.

    Example:
        BertTokenizer("vocab.txt")(["Hello there!"])
    """

    def __init__(
        self,
        vocabulary: Any,
        lowercase: bool | None = None,
        *,
        strip_accents: bool | None = None,
        keep_special_tokens: Sequence[str] = (),
    ):
        self.vocabulary = Vocabulary(vocabulary)
        lowercase = getattr(vocabulary, "lowercase", self.vocabulary.lowercase) if lowercase is None else lowercase
        _check_kept(keep_special_tokens, self.vocabulary)
        self.vocabulary.check_casing(lowercase)
        self.keep_special_tokens = tuple(keep_special_tokens)
        self._lowercase, self._strip_accents = lowercase, strip_accents
        if strip_accents is None:
            strip_accents = self.vocabulary.strip_accents
        self._has_steps = self.vocabulary.has_steps
        self._longest = self.vocabulary.max_word_length
        self._chinese = self.vocabulary.tokenize_chinese_chars
        # A character normalizes to at most three, so a word of a third of the maximum length cannot become too long.
        most = min(self._longest // 3, 66)  # More repetitions make the regular expression slow.
        word = f"[^{_ENDS}{_CHINESE if self._chinese else ''}]{{0,{most}}}"
        end = f"[{_ENDS}{_CHINESE if self._chinese else ''}]"
        self._short_words = f"(?:{word}{end})*{word}"
        self._plain = self._short_words.replace("[^", "[^Σ")
        pieces = self.vocabulary.wordpieces
        self._normalizer, self._wordpiece = _kernels(
            lowercase, strip_accents, pieces, self._longest * 4, split=self._chinese and not self._has_steps
        )
        if self._has_steps:
            accents = Vocabulary(self.vocabulary, strip_accents=strip_accents)
            self._normalizer = SequenceNormalizer(tokenizer_json.normalizer(accents, lowercase))
            self._pre_tokenizer = PreTokenizer(self.vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"})
        self._exact, self._normal = self._literals()
        self._unknown = self.vocabulary.id("[UNK]")
        self._is_continuation = _constant([piece.startswith("##") for piece in pieces], tf.bool)
        self._characters = _constant([len(piece.removeprefix("##")) for piece in pieces], tf.int32)
        graph = tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        for name in ("_tokenize", "_tokenize_with_offsets"):
            setattr(self, name, graph(getattr(self, name)))

    def __call__(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        return _reshaped(self._tokenize(tf.reshape(texts, [-1])), texts)

    def with_offsets(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        return tuple(_reshaped(part, texts) for part in self._tokenize_with_offsets(tf.reshape(texts, [-1])))

    def __reduce__(self):
        options = {"strip_accents": self._strip_accents, "keep_special_tokens": self.keep_special_tokens}
        return functools.partial(BertTokenizer, self.vocabulary, self._lowercase, **options), ()

    def _literals(self):
        """Returns the `Literals` of the original and of the normalized texts, or a false value for none."""
        exact = {name: self.vocabulary.id(name) for name in self.keep_special_tokens}
        normal = {}
        for token in self.vocabulary.added_tokens:
            index = self.vocabulary.id(token.content)
            if not token.normalized:
                exact[token.content] = index
                continue
            with tf.init_scope():
                forms = tf.stack(
                    [token.content, normalization.replace_final_sigma(token.content)][: 2 - self._has_steps]
                )
                forms = [form.decode() for form in self._normalizer.normalize(tf.stack(forms)).numpy()]
            # If two tokens normalize to the same string, the token equal to that string wins.
            normal.update((form, index) for form in forms if form and (form == token.content or form not in normal))
        return exact and Literals(exact), normal and Literals(normal)

    def _tokenize(self, texts):
        return self._pieces(texts, offsets=False)[0]

    def _tokenize_with_offsets(self, texts):
        return self._pieces(texts, offsets=True)

    def _pieces(self, texts, offsets):
        """Returns `(ids,)`, or `(ids, starts, ends)`."""
        if not self._exact:
            return self._pieces_of_rest(texts, offsets)
        # The splitting kernel ends a text at NUL. Clean-up removes both characters.
        parts = self._exact.split(tf.strings.regex_replace(texts, "\\x00", "\x01"))
        return join(parts, *self._pieces_of_rest(parts.rest, offsets))

    def _pieces_of_rest(self, texts, offsets):
        texts, short = (texts, None) if self._has_steps else self._prepare(texts)
        if offsets:
            texts, origins = self._normalizer.normalize_with_offsets(texts)
        else:
            texts = self._normalizer.normalize(texts)
        if self._normal:
            parts = self._normal.split(texts)
            pieces = join(parts, *self._pieces_of_words(parts.rest, short, offsets))
        else:
            pieces = self._pieces_of_words(texts, short, offsets)
        return (pieces[0], *_original_offsets(origins, *pieces[1:])) if offsets else pieces

    def _prepare(self, texts):
        """Replaces final sigmas, without changing byte counts, and checks that no word is too long."""
        plain = _all_match(texts, self._plain)

        def look_closer():
            short = _all_match(texts, self._short_words)
            return normalization.replace_final_sigma(texts) if self._lowercase else texts, short

        return tf.cond(plain, lambda: (texts, plain), look_closer)

    def _pieces_of_words(self, texts, short, offsets):
        """Tokenizes normalized texts, optionally with offsets into them."""

        def tokenize(texts):
            return self._wordpiece.tokenize_with_offsets(texts) if offsets else (self._wordpiece.tokenize(texts),)

        if self._has_steps:
            return self._pieces_of_parts(self._pre_tokenizer(texts), offsets)
        if self._chinese:
            pieces = tokenize(texts)
        else:
            parts = _split_words(texts)
            pieces = join(parts, *tokenize(parts.rest))
        return tf.cond(short, lambda: tuple(pieces), lambda: self._limit_words(*pieces))

    def _pieces_of_parts(self, parts, offsets):
        """Tokenizes words; those of too many characters are [UNK]."""
        is_long = tf.strings.length(parts.rest, "UTF8_CHAR") > self._longest
        words = tf.where(is_long, "\1", parts.rest)  # In no text: the normalizer replaces it.
        if not offsets:
            return join(parts, self._wordpiece.tokenize(words))
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(words)
        rows = ids.value_rowids()
        whole = tf.gather(tf.cast(tf.strings.length(parts.rest), ends.dtype), rows)
        ends = ends.with_values(tf.where(tf.gather(is_long, rows), whole, ends.values))
        return join(parts, ids, starts, ends)

    def _limit_words(self, ids, *offsets):
        """Replaces words of too many characters by [UNK]."""
        is_continuation = tf.gather(self._is_continuation, ids.values)
        word = tf.cumsum(tf.cast(~is_continuation, tf.int32)) - 1
        long = tf.gather(tf.math.segment_sum(tf.gather(self._characters, ids.values), word) > self._longest, word)
        keep = ids.with_values(~(long & is_continuation))
        values = [ids.with_values(tf.where(long, self._unknown, ids.values))]
        if offsets:
            starts, ends = offsets
            last = tf.gather(tf.math.segment_max(ends.values, word), word)
            values += [starts, ends.with_values(tf.where(long, last, ends.values))]
        return tuple(tf.ragged.boolean_mask(value, keep) for value in values)


def _kernels(lowercase, strip_accents, pieces, most_bytes, split=True):
    """Creates tf-text's normalizer and WordPiece, which splits texts into words if `split`."""
    # Imported lazily: `import keras_bert` loads this file to register the preprocessor, and must stay fast.
    import tensorflow_text

    strip_accents = lowercase if strip_accents is None else strip_accents
    model = normalization.model(bool(lowercase), bool(strip_accents))
    return (
        tensorflow_text.FastBertNormalizer(model_buffer=_constant(model, tf.uint8)),
        tensorflow_text.FastWordpieceTokenizer(
            pieces, max_bytes_per_word=most_bytes, token_out_type=tf.int32, no_pretokenization=not split
        ),
    )


def _split_words(texts):
    """Splits normalized texts into words at white space and punctuation only."""
    import tensorflow_text

    words, starts, ends = tensorflow_text.regex_split_with_offsets(texts, rf"\s+|{_PUNCTUATION}", _PUNCTUATION)
    no_token = tf.zeros_like(words.values, tf.bool)
    return Parts(words.row_splits, words.values, no_token, tf.zeros([0], tf.int32), starts.values, ends.values)


def _all_match(texts, pattern):
    return tf.reduce_all(tf.strings.regex_full_match(texts, pattern))


def _constant(values, dtype):
    """Creates a constant outside any graph, so that every graph can capture it."""
    with tf.init_scope(), tf.device("cpu"):
        return tf.constant(values, dtype)


def _original_offsets(origins, starts, ends):
    """Maps offsets in the normalized texts to offsets in the original texts."""
    # The start of each token's row: two ranges take a tenth of the time of `value_rowids`.
    lengths = starts.row_lengths()
    rows = (
        tf.ragged.range(origins.row_starts(), origins.row_starts() + lengths).values - tf.ragged.range(lengths).values
    )
    origin, last = tf.cast(origins.values, tf.int32), ends.values + rows - 1
    first, end = tf.gather(origin, starts.values + rows), tf.gather(origin, last + 1)
    within = end == tf.gather(origin, last)  # The token ends within the expansion of one character: include all of it.

    def next_character():
        changes = tf.where(origin[1:] != origin[:-1])[:, 0]
        return tf.gather(origin, tf.gather(changes, tf.searchsorted(changes, last)) + 1)

    end = tf.cond(tf.reduce_any(within), next_character, lambda: end)
    return starts.with_values(first), ends.with_values(end)


def _reshaped(values, texts):
    """Reshapes ragged `(texts, tokens)` to the shape of the texts plus one axis."""
    shape = texts.shape
    if shape.rank == 0:
        return values[0]
    for axis in range((shape.rank or 1) - 1, 0, -1):
        size = tf.shape(texts, tf.int64)[axis]
        rows = tf.reduce_prod(tf.shape(texts, tf.int64)[:axis])
        values = tf.RaggedTensor.from_uniform_row_length(values, size, nrows=rows)
    return values


def _check_kept(literals, vocabulary):
    if not isinstance(literals, list | tuple):
        raise ValueError(f"`keep_special_tokens` must be a list or a tuple. Received: {literals!r}")
    for literal in literals:
        if not isinstance(literal, str) or literal not in vocabulary:
            raise ValueError(
                f"`keep_special_tokens` has a token that is not in the vocabulary, {vocabulary.source}. "
                f"Received: {literal!r}"
            )
