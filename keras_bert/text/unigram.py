"""SentencePiece's Unigram tokenizer inside the graph: from strings to ids and byte offsets.

One op of TF-Text normalizes texts, splits them into words and finds the most probable pieces of each.
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert.text import sentencepiece_model, tokenizer_steps
from keras_bert.text.base_tokenizer import Tokenizer, constant, original_offsets
from keras_bert.text.sequence_normalizer import SequenceNormalizer
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import WORD_START, Vocabulary

_WHITE = r"^[\s\p{Z}\x{85}▁]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]+"
_OPTIONS = 0, 1.0, False, False, False, tf.int32  # No samples, no tokens at the ends, not reversed.
_ROW = 2**32  # More bytes than a text has.


class UnigramTokenizer(Tokenizer, tf.Module):
    """Splits texts into the pieces of a Unigram vocabulary.

    Differs from Hugging Face's tokenizers in texts with combining marks, which SentencePiece composes with the
    character before them; at the control character U+0085, which does not end a word; and in added tokens that are not
    special, which are matched before the normalization.

    Args:
        vocabulary: as for `BertTokenizer`, with `unigram`.
        lowercase, strip_accents: what the vocabulary's own normalizer does, which is their default.
        keep_special_tokens: list of tokens such as `"[MASK]"` to keep whole.
    """

    def __init__(
        self,
        vocabulary: Any,
        lowercase: bool | None = None,
        *,
        strip_accents: bool | None = None,
        keep_special_tokens: Sequence[str] = (),
    ):
        tf.Module.__init__(self)
        self._set(vocabulary, lowercase, strip_accents, keep_special_tokens)
        self.tables = _kernel(self.vocabulary)  # A SavedModel must own it.
        before, _ = tokenizer_steps.unigram_steps(self.vocabulary.normalizer, self.vocabulary.pre_tokenizer)
        self._normalizer = SequenceNormalizer({"type": "Sequence", "normalizers": before}) if before else None
        pieces = constant(self.vocabulary.pieces, tf.string)
        bare = tf.strings.regex_replace(pieces, f"^{WORD_START}", "")
        self._continues = constant(self.vocabulary.is_continuation, tf.bool)
        self._is_punctuation, self._is_bare = tf.strings.regex_full_match(bare, _PUNCTUATION), bare == ""
        self._finish()

    def _normalized(self, content):
        return [content]

    def _pieces_of_rest(self, texts, offsets):
        if self._normalizer:
            texts, origins = self._normalizer.normalize_with_offsets(texts)
        if not offsets:
            return (self.tables.tokenize(texts),)
        ids, starts, ends = self.tables.tokenize_with_offsets(texts)
        # The op gives the white space before a word to its first piece.
        surfaces = tf.strings.substr(tf.gather(texts, ids.value_rowids()), starts.values, ends.values - starts.values)
        words = tf.strings.regex_replace(surfaces, _WHITE, "")
        starts += starts.with_values(tf.strings.length(surfaces) - tf.strings.length(words))
        ends = ends.with_values(tf.where(tf.gather(self._is_bare, ids.values), ends.values, _ends(starts, ends)))
        return ids, *(original_offsets(origins, starts, ends) if self._normalizer else (starts, ends))

    def word_starts(self, ids):
        """Returns whether tokens, a vector of ids, start a word; punctuation is a word, as for BERT."""
        punctuation = tf.gather(self._is_punctuation, ids)
        after_bare, after_punctuation = (
            tf.concat([[False], values[:-1]], 0) for values in (tf.gather(self._is_bare, ids), punctuation)
        )
        return ~tf.gather(self._continues, ids) | punctuation & ~after_bare | after_punctuation


def _ends(starts, ends):
    """Returns ends so that pieces of one character, such as "a" and "/" of "℀", all have the whole character."""
    rows = ends.value_rowids() * _ROW
    begins, stops = (rows + tf.cast(places.values, tf.int64) for places in (starts, ends))
    later = tf.gather(tf.pad(stops, [[0, 1]]), tf.searchsorted(stops, begins, "right"))
    return tf.cast(tf.where(later < rows + _ROW, tf.maximum(later, stops), stops) - rows, tf.int32)


def build_tokenizer(vocabulary, lowercase=None, **options):
    """Returns the tokenizer of a vocabulary, WordPiece's or Unigram's, with the arguments of `BertTokenizer`."""
    build = BertTokenizer if Vocabulary(vocabulary).unigram is None else UnigramTokenizer
    return build(vocabulary, lowercase, **options)


# TF-Text's class owns its model through a kernel in TensorFlow's eager cache, which `keras.utils.clear_session`
# empties: every tokenizer would fail after it. A model with a name of its own lives as long as the process. This class
# can go when TF-Text's own does that.
class _Kernel(tf.saved_model.experimental.TrackableResource):
    """SentencePiece's op.

    Args:
        model: bytes, see `sentencepiece_model`.
    """

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
