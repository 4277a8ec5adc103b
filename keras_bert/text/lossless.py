"""A reversible WordPiece tokenizer for generated text: text to ids and back.

A "▁" marks the start of each word, as in SentencePiece, so that "a, b" and "a , b" differ: "▁a", ",", "▁b" and "▁a",
"▁", ",", "▁b". Characters outside the vocabulary become their UTF-8 bytes, each a token, written as one of the 256
Braille patterns.
"""

from typing import Any

import tensorflow as tf

from keras_bert.text.pieces import BYTES, REVERSIBLE, WORD_START, is_special
from keras_bert.text.tokenizer import build_tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece_tokenizer import WordSplitter

_WHITE = r"[\s\p{Z}\x{0b}\x{1c}-\x{1f}\x{85}]+"
_LONGEST = 64  # Characters; longer words are split, since the tokenizer limits their length.


def normalize(texts):
    """Replaces each run of white space by one space and strips the texts; invalid UTF-8 becomes U+FFFD."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.strip(tf.strings.regex_replace(texts, _WHITE, " "))


def mark_words(texts):
    """Returns normalized texts with a mark before each word."""
    return tf.where(texts == "", "", WORD_START + tf.strings.regex_replace(texts, " ", f" {WORD_START}"))


def learned_words(texts):
    """Returns texts like those that the tokenizer splits, to learn a vocabulary on, without what is always bytes."""
    reserved = "[" + "".join((WORD_START, *BYTES)) + "]+"
    return tf.strings.regex_replace(mark_words(normalize(texts)), f"([^ ]){reserved}", r"\1 ")


class LosslessTokenizer:
    """Splits texts into tokens from which `detokenize` restores the normalized texts.

    Args:
        vocabulary: a path, a list of pieces or a `Vocabulary`, learned on marked words, with the pieces `BYTES`.

    Call arguments:
        texts: a vector of strings.

    Returns:
        Ragged int32 ids.

    Example:
        tokenizer = LosslessTokenizer("vocab.txt")
        tokenizer.detokenize(tokenizer(["Hello there!"]))
    """

    lowercase = False

    def __init__(self, vocabulary: Any):
        self.vocabulary = Vocabulary(vocabulary)
        missing = [piece for piece in (*REVERSIBLE, WORD_START, *BYTES) if piece not in self.vocabulary]
        if missing:
            raise ValueError(
                f"{self.vocabulary.source}: the vocabulary lacks {missing[0]!r}. Expected one of "
                "`train_vocab --reversible`"
            )
        self._tokenizer = build_tokenizer(self.vocabulary, lowercase=False)
        known = self._known_characters()
        self._known = tf.constant(known, tf.int32)
        self._plain = "[" + "".join(rf"\x{{{point:x}}}" for point in known) + " ]*"
        self._texts = tf.constant([_text(piece) for piece in self.vocabulary.pieces])

    def __call__(self, texts):
        texts = normalize(tf.convert_to_tensor(texts, tf.string))
        plain = tf.reduce_all(tf.strings.regex_full_match(texts, self._plain))
        texts = tf.cond(plain, lambda: mark_words(texts), lambda: self._marked_with_bytes(texts))
        return self._tokenizer(tf.strings.regex_replace(texts, rf"([^\s]{{{_LONGEST}}})", r"\1 "))

    @property
    def start_id(self):
        """The id of `[START]`, with which the decoder begins."""
        return self.vocabulary.id("[START]")

    @property
    def end_id(self):
        """The id of `[END]`, which ends every sequence."""
        return self.vocabulary.id("[END]")

    def with_end(self, texts):
        """Returns the ids of texts, each followed by `[END]`."""
        ids = self(texts)
        return tf.concat([ids, tf.fill([ids.nrows(), 1], self.end_id)], axis=1)

    def detokenize(self, ids):
        """Returns the texts of ragged ids; special tokens are left out."""
        texts = tf.strings.reduce_join(tf.gather(self._texts, ids), axis=-1)
        return normalize(texts)

    def _marked_with_bytes(self, texts):
        """Returns `mark_words(texts)` with bytes in place of the characters outside the vocabulary."""
        characters = tf.strings.unicode_split(texts, "UTF-8")
        points = tf.strings.unicode_decode(texts, "UTF-8").flat_values
        at = tf.minimum(tf.searchsorted(self._known, points), tf.size(self._known) - 1)
        known = (tf.gather(self._known, at) == points) | (points == ord(" "))
        replaced = tf.where(points == ord(" "), f" {WORD_START}", characters.flat_values)
        rare = tf.boolean_mask(characters.flat_values, ~known)
        numbers = tf.strings.unicode_decode(rare, "ISO-8859-1")
        written = tf.strings.unicode_encode(
            tf.expand_dims(numbers.with_values(numbers.flat_values + 0x2800), -1), "UTF-8"
        )
        written = " " + tf.strings.reduce_join(written, axis=-1, separator=" ") + " "
        replaced = tf.tensor_scatter_nd_update(replaced, tf.where(~known), written)
        return tf.where(texts == "", "", WORD_START) + tf.strings.reduce_join(characters.with_values(replaced), axis=-1)

    def _known_characters(self):
        """Returns the sorted code points that the vocabulary covers at any place of a word."""
        marks = {WORD_START, *BYTES}
        single = [piece for piece in self.vocabulary.pieces if len(piece) == 1 and piece not in marks]
        apart = WordSplitter(lowercase=False)([f"a{character}a" for character in single]).to_list()
        known = []
        for character, words in zip(single, apart, strict=True):
            is_word = words == [b"a", character.encode(), b"a"]
            is_letter = words == [f"a{character}a".encode()] and f"##{character}" in self.vocabulary
            if is_word or is_letter:
                known.append(ord(character))
        return sorted(known)


def _text(piece):
    """Returns the bytes that a piece stands for."""
    if is_special(piece):
        return b""
    if piece in BYTES:
        return bytes([BYTES.index(piece)])
    return (piece.removeprefix("##") if len(piece) > 2 else piece).replace(WORD_START, " ").encode()
