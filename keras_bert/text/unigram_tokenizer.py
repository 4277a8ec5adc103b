"""SentencePiece's Unigram tokenizer inside the graph: from strings to ids and byte offsets.

One op of TF-Text normalizes texts, splits them into words and finds the most probable pieces of each.
"""

import functools

import tensorflow as tf

from keras_bert.text import sentencepiece_model, tokenizer_steps
from keras_bert.text.graph_steps import sequence_normalizer
from keras_bert.text.literals import Literals
from keras_bert.text.pieces import WORD_START
from keras_bert.text.sentencepiece_kernel import SentencePieceKernel
from keras_bert.text.tokenizer import Tokenizer, constant, original_offsets

_WHITE = r"^[\s\p{Z}\x{85}▁]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]+"
# White space by its number of bytes, and its sign: where words end if the normalization leaves it.
_SPACES = {
    1: "\t\n\v\f\r",
    2: "\x85\xa0",
    3: WORD_START + tokenizer_steps.WIDE_SPACES,
}


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
        vocabulary = self.vocabulary
        vocabulary.check_casing(lowercase)
        self.tables = _kernel(vocabulary)  # A SavedModel must own it.
        before, _ = tokenizer_steps.unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
        self._normalizer = None
        if before:
            self._normalizer = sequence_normalizer({"type": "Sequence", "normalizers": before})
        self._spaces = _kept_spaces(vocabulary)
        pieces = constant(vocabulary.pieces, tf.string)
        bare = tf.strings.regex_replace(pieces, f"^{WORD_START}", "")
        self._continues = constant(vocabulary.is_continuation, tf.bool)
        self._is_punctuation = tf.strings.regex_full_match(bare, _PUNCTUATION)
        self._is_bare = bare == ""

    def _literals(self):
        names = [*self.keep_special_tokens]
        names.extend(token.content for token in self.vocabulary.added_tokens)
        if not names:
            return None, None
        ids = {name: self.vocabulary.id(name) for name in names}
        return Literals(ids, self.vocabulary.added_by_id), None

    def _pieces_of_rest(self, texts, offsets):
        if self._normalizer is None:
            normalized = texts
        else:
            normalized, origins = self._normalizer.normalize_with_offsets(texts)
        for pattern, spaces in self._spaces:
            normalized = tf.strings.regex_replace(normalized, pattern, spaces)
        if not offsets:
            return (self.tables.tokenize(normalized),)
        ids, starts, ends = self._with_places(normalized)
        if self._normalizer is None:
            return ids, starts, ends
        return ids, *original_offsets(origins, starts, ends)

    def _with_places(self, texts):
        """Returns the ids of normalized texts, and where pieces start and end there, without the space before words."""
        ids, starts, ends = self.tables.tokenize_with_offsets(texts)
        # The op gives the white space before a word to its first piece.
        text = tf.gather(texts, ids.value_rowids())
        surfaces = tf.strings.substr(text, starts.values, ends.values - starts.values)
        words = tf.strings.regex_replace(surfaces, _WHITE, "")
        begin = starts.values + tf.strings.length(surfaces) - tf.strings.length(words)
        # Each of the pieces of one character, such as "a" and "/" of "℀", has the whole character.
        is_part = (begin == ends.values) & ~tf.gather(self._is_bare, ids.values)
        end = ends.values + tf.where(is_part, _first_length(text, begin), 0)
        return ids, starts.with_values(begin), ends.with_values(end)

    def _starts_words(self, ids):
        """Those without a mark of continuation; punctuation is a word, as for BERT."""
        is_punctuation = tf.gather(self._is_punctuation, ids)
        is_bare = tf.gather(self._is_bare, ids)
        after_bare = tf.concat([[False], is_bare[:-1]], 0)
        after_punctuation = tf.concat([[False], is_punctuation[:-1]], 0)
        return ~tf.gather(self._continues, ids) | (is_punctuation & ~after_bare) | after_punctuation


def _kept_spaces(vocabulary):
    """Returns patterns of the white space that the normalization leaves in texts, and spaces with as many bytes.

    SentencePiece only splits texts at spaces; the tokenizers that begin with `WhitespaceSplit` split at all of these.
    """
    if len(tokenizer_steps.flat_steps(vocabulary.pre_tokenizer, "pretokenizers")) == 1:
        return []
    replacements = []
    for size, characters in _SPACES.items():
        kept = "".join(sentencepiece_model.unchanged(vocabulary, characters))
        if kept:
            replacements.append((f"[{kept}]", " " * size))
    return replacements


def _first_length(texts, starts):
    """Returns the number of bytes of the character at a place in each text."""
    zero = tf.zeros_like(starts)
    following = tf.strings.substr(texts, starts, zero + 4)
    return tf.strings.length(tf.strings.substr(following, zero, zero + 1, unit="UTF8_CHAR"))


@functools.lru_cache(maxsize=2)
def _kernel(vocabulary):
    """Returns the op of a vocabulary, which its tokenizers share."""
    with tf.init_scope(), tf.device("cpu"):
        return SentencePieceKernel(sentencepiece_model.serialized(vocabulary))
