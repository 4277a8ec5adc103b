"""The tokenizer of a vocabulary, inside the graph: what those of all subword algorithms share."""

import functools
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.literals import Literals, join
from keras_bert.text.packing import first_of_rows, select

_TEXTS = 512  # Texts to tokenize at a time.


def build_tokenizer(vocabulary, lowercase=None, *, strip_accents=None, keep_special_tokens=()):
    """Returns the tokenizer of the algorithm of a `Vocabulary`, with the arguments of `BertTokenizer`.

    Equal arguments give the same tokenizer: tracing and optimizing its graphs takes up to a second.
    """
    check_kept(keep_special_tokens, vocabulary)
    return _shared(vocabulary, lowercase, strip_accents, tuple(keep_special_tokens))


@functools.lru_cache(maxsize=4)
def _shared(vocabulary, lowercase, strip_accents, kept):
    tokenizer_class = vocabulary.algorithm.tokenizer_class()
    return tokenizer_class(vocabulary, lowercase, strip_accents=strip_accents, keep_special_tokens=kept)


class NewPieces(NamedTuple):
    """What a vocabulary lacks to keep words whole."""

    before: dict[str, list[int]]  # The new pieces, with the ids of the pieces that they consist of.
    words: dict[str, str]  # The words by the pieces that they become.
    added_tokens: list  # The `AddedToken`s that are needed.


class Tokenizer:
    """Extracts added tokens and kept special tokens; a subclass splits the rest.

    It has the methods that are not implemented here.

    A call returns ragged int32 ids with the shape of the texts plus one axis; `with_offsets` `(ids, starts, ends)`.
    `vocabulary` is a `Vocabulary`; for the other arguments see `BertTokenizer`.
    """

    tables = None  # What a SavedModel must own besides constants.
    spaced = False  # Whether Chinese characters are words, although the normalizer puts no spaces around them.

    def __init__(self, vocabulary, lowercase=None, *, strip_accents=None, keep_special_tokens=()):
        self.vocabulary = vocabulary
        if lowercase is None:
            lowercase = vocabulary.lowercase
        check_kept(keep_special_tokens, vocabulary)
        self.keep_special_tokens = tuple(keep_special_tokens)
        self._lowercase = lowercase
        self._strip_accents = strip_accents
        self._create_kernels(lowercase, strip_accents)
        self._exact, self._normal = self._literals()
        # A graph of its own for each tokenizer, in the place of the methods.
        graph = tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._tokenize = graph(self._tokenize)
        self._tokenize_with_offsets = graph(self._tokenize_with_offsets)

    @staticmethod
    def new_pieces(vocabulary, words, lowercase):
        """Returns the `NewPieces` with which a vocabulary keeps words whole; raises if it cannot have more."""
        vocabulary.algorithm.check_extendable(vocabulary)
        raise NotImplementedError

    def _create_kernels(self, lowercase, strip_accents):
        """Sets what `_pieces_of_rest` needs."""
        raise NotImplementedError

    def __call__(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        return reshaped(self._tokenize(tf.reshape(texts, [-1])), texts)

    def of_words(self, words):
        """Same as a call, for words of a text: an algorithm whose words begin with a space adds it here."""
        return self(words)

    def word_starts(self, ids):
        """Returns which tokens start a word, a bool vector, given ragged ids `(texts, tokens)`: also the first ones."""
        return self._starts_words(ids.values) | first_of_rows(ids)

    def _starts_words(self, ids):
        """Returns which tokens, a vector of ids, start a word, but for the first ones of texts."""
        raise NotImplementedError

    def word_places(self, ids, starts, ends):
        """Returns where words start and end in the texts, given ragged ids, and where tokens do: ragged offsets."""
        is_first = self.word_starts(ids)
        is_last = tf.concat([is_first[1:], tf.ones_like(is_first[:1])], 0)
        (word_starts,) = select(is_first, starts)
        (word_ends,) = select(is_last, ends)
        return word_starts, word_ends

    def with_offsets(self, texts):
        texts = tf.convert_to_tensor(texts, tf.string)
        ids_starts_ends = self._tokenize_with_offsets(tf.reshape(texts, [-1]))
        return tuple(reshaped(values, texts) for values in ids_starts_ends)

    def __reduce__(self):
        options = {"strip_accents": self._strip_accents, "keep_special_tokens": self.keep_special_tokens}
        create = functools.partial(type(self), self.vocabulary, self._lowercase, **options)
        return create, ()

    def _literals(self):
        """Returns the `Literals` of the original and of the normalized texts, each `None` if there are none."""
        exact = {name: self.vocabulary.id(name) for name in self.keep_special_tokens}
        normal = {}
        tokens = self.vocabulary.added_by_id
        for index, token in tokens.items():
            if not token.normalized:
                exact[token.content] = index
                continue
            for form in self._normalized(token.content):
                # If two tokens normalize to the same string, the token equal to that string wins.
                if form and (form == token.content or form not in normal):
                    normal[form] = index
        trim = self.vocabulary.trim_offsets
        exact_literals = Literals(exact, tokens, trim=trim) if exact else None
        normal_literals = Literals(normal, tokens, self.spaced, trim) if normal else None
        return exact_literals, normal_literals

    def _normalized(self, content):
        """Returns the strings that the content of an added token may become in normalized texts, a list."""
        raise NotImplementedError

    def _tokenize(self, texts):
        return self._pieces(texts, offsets=False)[0]

    def _tokenize_with_offsets(self, texts):
        return self._pieces(texts, offsets=True)

    def _pieces(self, texts, offsets):
        """Returns `(ids,)` of strings `(texts,)`, or with `offsets` `(ids, starts, ends)`, ragged `(texts, pieces)`."""
        if self._exact is None:
            return self._pieces_of_rest(texts, offsets)
        # The splitting kernel ends a text at NUL. Clean-up removes both characters.
        without_nul = tf.strings.regex_replace(texts, "\\x00", "\x01")
        parts = self._exact.split(without_nul)
        return join(parts, *self._pieces_of_rest(parts.rest, offsets))

    def _pieces_of_rest(self, texts, offsets):
        """Returns the same of texts without the tokens that are matched in original texts."""
        raise NotImplementedError


def tokenized(tokenize, texts):
    """Applies a function from strings to ragged tensors, such as a tokenizer, to a list of any number of texts."""
    outputs = []
    for first in range(0, len(texts), _TEXTS):
        outputs.append(tokenize(tf.constant(texts[first : first + _TEXTS])))
    return [tf.concat(tensors, 0) for tensors in zip(*outputs, strict=True)]


def constant(values, dtype):
    """Creates a constant outside any graph, so that every graph can capture it."""
    with tf.init_scope(), tf.device("cpu"):
        return tf.constant(values, dtype)


def original_offsets(origins, starts, ends):
    """Maps offsets in the normalized texts to offsets in the original texts.

    The place of a token includes the characters after it that were removed.
    """
    rows = _row_starts(origins, starts)
    origin = tf.cast(origins.values, tf.int32)
    last = ends.values + rows - 1
    first_origin = tf.gather(origin, starts.values + rows)
    last_origin = tf.gather(origin, last)
    end_origin = tf.gather(origin, last + 1)
    # Some token ends within the expansion of one character, all of which belongs to it.
    is_within = tf.reduce_any(end_origin == last_origin)

    def next_character():
        changes = tf.where(origin[1:] != origin[:-1])[:, 0]
        return tf.gather(origin, tf.gather(changes, tf.searchsorted(changes, last)) + 1)

    end = tf.cond(is_within, next_character, lambda: end_origin)
    return starts.with_values(first_origin), ends.with_values(end)


def trimmed_offsets(texts, origins, starts, ends):
    """Same as `original_offsets`, without the characters after a token that were removed from the texts."""
    rows = _row_starts(origins, starts)
    origin = tf.cast(origins.values, tf.int32)
    first_origin = tf.gather(origin, starts.values + rows)
    last_origin = tf.gather(origin, ends.values + rows - 1)
    end = _character_ends(texts, starts.with_values(last_origin))
    return starts.with_values(first_origin), ends.with_values(end)


def _row_starts(origins, tokens):
    """Returns for each token where its row starts in the values of `origins`."""
    # Two ranges take a tenth of the time of `value_rowids`.
    lengths = tokens.row_lengths()
    first = origins.row_starts()
    return tf.ragged.range(first, first + lengths).values - tf.ragged.range(lengths).values


def _character_ends(texts, places):
    """Returns where the characters end that start at ragged places `(texts, places)`, a flat tensor."""
    _, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    limits = character_limits(texts, starts)
    before = tf.cumsum(tf.strings.length(texts) + 1, exclusive=True)  # Of each text, in one line of all texts.
    in_line = limits.values + tf.gather(before, limits.value_rowids())
    rows = places.value_rowids()
    wanted = places.values + tf.gather(before, rows)
    following = tf.searchsorted(in_line, wanted, side="right")
    return tf.gather(in_line, following) - tf.gather(before, rows)


def character_limits(texts, starts):
    """Returns where characters start, given ragged `(texts, characters)`, and where each text ends, as int32."""
    ends = tf.strings.length(texts)[:, tf.newaxis]
    return tf.concat([tf.cast(starts, tf.int32), ends], 1)


def reshaped(values, texts):
    """Reshapes ragged `(texts, tokens)` to the shape of the texts plus one axis."""
    shape = texts.shape
    if shape.rank == 0:
        return values[0]
    nested = values
    for axis in range((shape.rank or 1) - 1, 0, -1):
        size = tf.shape(texts, tf.int64)[axis]
        rows = tf.reduce_prod(tf.shape(texts, tf.int64)[:axis])
        nested = tf.RaggedTensor.from_uniform_row_length(nested, size, nrows=rows)
    return nested


def check_kept(literals, vocabulary):
    """Raises unless `keep_special_tokens` is a list of pieces."""
    if not isinstance(literals, list | tuple):
        raise ValueError(f"`keep_special_tokens` must be a list or a tuple. Received: {literals!r}")
    for literal in literals:
        if not isinstance(literal, str) or literal not in vocabulary:
            raise ValueError(
                f"`keep_special_tokens` has a token that is not in the vocabulary, {vocabulary.source}. "
                f"Received: {literal!r}"
            )
