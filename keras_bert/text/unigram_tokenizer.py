"""SentencePiece's Unigram tokenizer inside the graph: from strings to ids and byte offsets.

One op of TF-Text normalizes texts, splits them into words and finds the most probable pieces of each.
"""

import functools
import hashlib

import tensorflow as tf

from keras_bert.text import sentencepiece_model, tokenizer_steps
from keras_bert.text.graph_steps import sequence_normalizer
from keras_bert.text.literals import Literals
from keras_bert.text.pieces import WORD_START
from keras_bert.text.tokenizer import Tokenizer, constant, original_offsets

_WHITE = r"^[\s\p{Z}\x{85}▁]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]+"
# White space by its number of bytes, and its sign: where words end if the normalization leaves it.
_SPACES = {
    1: "\t\n\v\f\r",
    2: "\x85\xa0",
    3: "▁\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))),
}
_OPTIONS = 0, 1.0, False, False, False, tf.int32  # No samples, no tokens at the ends, not reversed.


class UnigramTokenizer(Tokenizer, tf.Module):
    """Splits texts into the pieces of a Unigram vocabulary.

    Differs from Hugging Face's tokenizers in texts with combining marks, which SentencePiece composes with the
    character before them; in the word "▁", which it removes; in added tokens that are not special, which are matched
    before the normalization; and in equally probable splits, of which either may be chosen.

    `lowercase` and `strip_accents` are what the vocabulary's own normalizer does, which is their default.
    """

    def __init__(self, *arguments, **options):
        tf.Module.__init__(self)
        super().__init__(*arguments, **options)

    def _create_kernels(self, lowercase, strip_accents):
        self.vocabulary.check_casing(lowercase)
        self.tables = _kernel(self.vocabulary)  # A SavedModel must own it.
        before, _ = tokenizer_steps.unigram_steps(self.vocabulary.normalizer, self.vocabulary.pre_tokenizer)
        self._normalizer = sequence_normalizer({"type": "Sequence", "normalizers": before}) if before else None
        self._spaces = _kept_spaces(self.vocabulary)
        pieces = constant(self.vocabulary.pieces, tf.string)
        bare = tf.strings.regex_replace(pieces, f"^{WORD_START}", "")
        self._continues = constant(self.vocabulary.is_continuation, tf.bool)
        self._is_punctuation, self._is_bare = tf.strings.regex_full_match(bare, _PUNCTUATION), bare == ""

    def _literals(self):
        names = (*self.keep_special_tokens, *(token.content for token in self.vocabulary.added_tokens))
        ids = {name: self.vocabulary.id(name) for name in names}
        return names and Literals(ids, self.vocabulary.added_by_id), None

    def _pieces_of_rest(self, texts, offsets):
        if self._normalizer:
            texts, origins = self._normalizer.normalize_with_offsets(texts)
        for pattern, spaces in self._spaces:
            texts = tf.strings.regex_replace(texts, pattern, spaces)
        if not offsets:
            return (self.tables.tokenize(texts),)
        ids, starts, ends = self.tables.tokenize_with_offsets(texts)
        # The op gives the white space before a word to its first piece.
        rows = tf.gather(texts, ids.value_rowids())
        surfaces = tf.strings.substr(rows, starts.values, ends.values - starts.values)
        words = tf.strings.regex_replace(surfaces, _WHITE, "")
        starts += starts.with_values(tf.strings.length(surfaces) - tf.strings.length(words))
        # Each of the pieces of one character, such as "a" and "/" of "℀", has the whole character.
        is_part = (starts.values == ends.values) & ~tf.gather(self._is_bare, ids.values)
        ends += ends.with_values(tf.where(is_part, _first_length(rows, starts.values), 0))
        return ids, *(original_offsets(origins, starts, ends) if self._normalizer else (starts, ends))

    def word_starts(self, ids):
        """Returns whether tokens, a vector of ids, start a word; punctuation is a word, as for BERT."""
        punctuation = tf.gather(self._is_punctuation, ids)
        after_bare, after_punctuation = (
            tf.concat([[False], values[:-1]], 0) for values in (tf.gather(self._is_bare, ids), punctuation)
        )
        return ~tf.gather(self._continues, ids) | punctuation & ~after_bare | after_punctuation


def _kept_spaces(vocabulary):
    """Returns patterns of the white space that the normalization leaves in texts, and spaces with as many bytes.

    SentencePiece only splits texts at spaces; the tokenizers that begin with `WhitespaceSplit` split at all of these.
    """
    if len(tokenizer_steps.parts(vocabulary.pre_tokenizer, "pretokenizers")) == 1:
        return []
    kept = {size: "".join(sentencepiece_model.unchanged(vocabulary, chars)) for size, chars in _SPACES.items()}
    return [(f"[{chars}]", " " * size) for size, chars in kept.items() if chars]


def _first_length(texts, starts):
    """Returns the number of bytes of the character at a place in each text."""
    zero = tf.zeros_like(starts)
    following = tf.strings.substr(texts, starts, zero + 4)
    return tf.strings.length(tf.strings.substr(following, zero, zero + 1, unit="UTF8_CHAR"))


# TF-Text's class owns its model through a kernel in TensorFlow's eager cache, which `keras.utils.clear_session`
# empties: every tokenizer would fail after it. A model with a name of its own lives as long as the process. This class
# can go when TF-Text's own does that.
class _Kernel(tf.saved_model.experimental.TrackableResource):
    """SentencePiece's op, for the bytes of a model, see `sentencepiece_model`."""

    def __init__(self, model):
        from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

        super().__init__()
        self._model, self._ops = model, gen_sentencepiece_tokenizer
        _ = self.resource_handle  # Creates it, outside of any graph.

    def _create_resource(self):
        name = hashlib.sha256(self._model).hexdigest()
        return self._ops.sentencepiece_op(model=self._model, shared_name=name)

    def tokenize(self, texts):
        """Returns ragged ids of strings `(texts,)`."""
        ids, splits = self._ops.sentencepiece_tokenize_op(self.resource_handle, texts, *_OPTIONS, return_nbest=False)
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def tokenize_with_offsets(self, texts):
        """Returns ragged ids, and the byte offsets where they start and end."""
        ids, splits, *offsets = self._ops.sentencepiece_tokenize_with_offsets_op(
            self.resource_handle, texts, *_OPTIONS, return_nbest=False
        )
        values = ids, *(tf.cast(places, tf.int32) for places in offsets)
        return tuple(tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values)


@functools.lru_cache(maxsize=2)
def _kernel(vocabulary):
    """Returns the op of a vocabulary, which its tokenizers share."""
    with tf.init_scope(), tf.device("cpu"):
        return _Kernel(sentencepiece_model.serialized(vocabulary))
