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
from keras_bert.text.graph_steps import PreTokenizer, sequence_normalizer
from keras_bert.text.literals import Literals, Parts, join
from keras_bert.text.packing import select
from keras_bert.text.vocabulary import Vocabulary

# Characters that end a word in any context.
_ENDS, _CHINESE = r"\s!-/:-@\[-`{-~、。", "㐀-䶿一-鿿"
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
        texts = self._normalizer.normalize(texts)
        _, starts, ends = self._words.tokenize_with_offsets(texts)
        texts = tf.gather(texts, starts.value_rowids())
        return starts.with_values(tf.strings.substr(texts, starts.values, ends.values - starts.values))


class Tokenizer:
    """Extracts added tokens and kept special tokens; a subclass splits the rest: `_create_kernels`, `_pieces_of_rest`.

    A call returns ragged int32 ids with the shape of the texts plus one axis; `with_offsets` `(ids, starts, ends)`.
    """

    tables = None  # What a SavedModel must own besides constants.
    spaced = False  # Whether Chinese characters are words, although the normalizer puts no spaces around them.

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
        check_kept(keep_special_tokens, self.vocabulary)
        self.keep_special_tokens = tuple(keep_special_tokens)
        self._lowercase, self._strip_accents = lowercase, strip_accents
        self._create_kernels(lowercase, strip_accents)
        self._exact, self._normal = self._literals()
        graph = tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        for name in ("_tokenize", "_tokenize_with_offsets"):
            setattr(self, name, graph(getattr(self, name)))

    def _create_kernels(self, lowercase, strip_accents):
        """Sets what `_pieces_of_rest` needs."""
        raise NotImplementedError

    def __call__(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        return _reshaped(self._tokenize(tf.reshape(texts, [-1])), texts)

    def with_offsets(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        return tuple(_reshaped(part, texts) for part in self._tokenize_with_offsets(tf.reshape(texts, [-1])))

    def __reduce__(self):
        options = {"strip_accents": self._strip_accents, "keep_special_tokens": self.keep_special_tokens}
        return functools.partial(type(self), self.vocabulary, self._lowercase, **options), ()

    def _literals(self):
        """Returns the `Literals` of the original and of the normalized texts, or a false value for none."""
        exact = {name: self.vocabulary.id(name) for name in self.keep_special_tokens}
        normal, single = {}, []
        for token in self.vocabulary.added_tokens:
            index = self.vocabulary.id(token.content)
            single += [index] * token.single_word
            if not token.normalized:
                exact[token.content] = index
                continue
            forms = self._normalized(token.content)
            # If two tokens normalize to the same string, the token equal to that string wins.
            normal.update((form, index) for form in forms if form and (form == token.content or form not in normal))
        return exact and Literals(exact, single), normal and Literals(normal, single, self.spaced)

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


class BertTokenizer(Tokenizer):
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

    def _create_kernels(self, lowercase, strip_accents):
        if self.vocabulary.unigram is not None:
            raise ValueError(
                f"{self.vocabulary.source}: expected a vocabulary of WordPiece. Received: one of SentencePiece"
            )
        self.vocabulary.check_casing(lowercase)
        if strip_accents is None:
            strip_accents = self.vocabulary.strip_accents
        self._has_steps = self.vocabulary.has_steps
        self._longest = self.vocabulary.max_word_length
        self._chinese = self.vocabulary.tokenize_chinese_chars
        self.spaced = self._chinese and not self._has_steps
        # A character normalizes to at most three, so a word of a third of the maximum length cannot become too long.
        most = min(self._longest // 3, 66)  # More repetitions make the regular expression slow.
        word = f"[^{_ENDS}{_CHINESE if self._chinese else ''}]{{0,{most}}}"
        end = f"[{_ENDS}{_CHINESE if self._chinese else ''}]"
        self._short_words = f"(?:{word}{end})*{word}"
        self._plain = self._short_words.replace("[^", "[^Σ")
        pieces = self.vocabulary.wordpieces
        self._wordpiece = _wordpiece(pieces, self._longest * 4, split=self.spaced)
        if self._has_steps:
            accents = Vocabulary(self.vocabulary, strip_accents=strip_accents)
            self._normalizer = sequence_normalizer(tokenizer_json.normalizer(accents, lowercase))
            self._pre_tokenizer = PreTokenizer(self.vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"})
        else:
            self._normalizer = _bert_normalizer(lowercase, strip_accents)
        self._unknown = self.vocabulary.id("[UNK]")
        self._is_continuation = constant([piece.startswith("##") for piece in pieces], tf.bool)
        self._characters = constant([len(piece.removeprefix("##")) for piece in pieces], tf.int32)

    def word_starts(self, ids):
        """Returns whether tokens, a vector of ids, start a word: they have no `##`."""
        return ~tf.gather(self._is_continuation, ids)

    def _normalized(self, content):
        with tf.init_scope():
            forms = tf.stack([content, normalization.replace_final_sigma(content)][: 2 - self._has_steps])
            return [form.decode() for form in self._normalizer.normalize(forms).numpy()]

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
        return (pieces[0], *original_offsets(origins, *pieces[1:])) if offsets else pieces

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
        values = [ids.with_values(tf.where(long, self._unknown, ids.values))]
        if offsets:
            starts, ends = offsets
            last = tf.gather(tf.math.segment_max(ends.values, word), word)
            values += [starts, ends.with_values(tf.where(long, last, ends.values))]
        return select(~(long & is_continuation), *values)


def _bert_normalizer(lowercase, strip_accents):
    """Creates tf-text's normalizer."""
    # Imported lazily: `import keras_bert` loads this file to register the preprocessor, and must stay fast.
    import tensorflow_text

    strip_accents = lowercase if strip_accents is None else strip_accents
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
    no_token = tf.zeros_like(words.values, tf.bool)
    return Parts(words.row_splits, words.values, no_token, tf.zeros([0], tf.int32), starts.values, ends.values)


def _all_match(texts, pattern):
    return tf.reduce_all(tf.strings.regex_full_match(texts, pattern))


def constant(values, dtype):
    """Creates a constant outside any graph, so that every graph can capture it."""
    with tf.init_scope(), tf.device("cpu"):
        return tf.constant(values, dtype)


def original_offsets(origins, starts, ends):
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


def check_kept(literals, vocabulary):
    if not isinstance(literals, list | tuple):
        raise ValueError(f"`keep_special_tokens` must be a list or a tuple. Received: {literals!r}")
    for literal in literals:
        if not isinstance(literal, str) or literal not in vocabulary:
            raise ValueError(
                f"`keep_special_tokens` has a token that is not in the vocabulary, {vocabulary.source}. "
                f"Received: {literal!r}"
            )
