"""A reversible WordPiece tokenizer for generated text: text to ids and back.

A "▁" marks the start of each word, as in SentencePiece, so that "a, b" and "a , b" differ: "▁a", ",", "▁b" and "▁a",
"▁", ",", "▁b". Characters outside the vocabulary become their UTF-8 bytes, each a token, written as one of the 256
Braille patterns.
"""

from typing import Any

import tensorflow as tf

from keras_bert.text.pieces import BYTES, CONTINUATION, REVERSIBLE, WORD_START, is_special
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
    reserved = f"[{WORD_START}{''.join(BYTES)}]+"
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
        needed = (*REVERSIBLE, WORD_START, *BYTES)
        missing = [piece for piece in needed if piece not in self.vocabulary]
        if missing:
            raise ValueError(
                f"{self.vocabulary.source}: the vocabulary lacks {missing[0]!r}. Expected one of "
                "`train_vocab --reversible`"
            )
        self._tokenizer = build_tokenizer(self.vocabulary, lowercase=False)
        known = self._known_characters()
        self._known = tf.constant(known, tf.int32)
        self._plain = "[" + "".join(rf"\x{{{point:x}}}" for point in known) + " ]*"
        self._texts = tf.constant([_bytes_of(piece) for piece in self.vocabulary.pieces])

    def __call__(self, texts):
        normalized = normalize(tf.convert_to_tensor(texts, tf.string))
        are_plain = tf.reduce_all(tf.strings.regex_full_match(normalized, self._plain))
        marked = tf.cond(
            are_plain,
            lambda: mark_words(normalized),
            lambda: self._marked_with_bytes(normalized),
        )
        split = tf.strings.regex_replace(marked, rf"([^\s]{{{_LONGEST}}})", r"\1 ")
        return self._tokenizer(split)

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
        place = tf.minimum(tf.searchsorted(self._known, points), tf.size(self._known) - 1)
        is_space = points == ord(" ")
        is_known = (tf.gather(self._known, place) == points) | is_space
        with_marks = tf.where(is_space, f" {WORD_START}", characters.flat_values)
        unknown = tf.boolean_mask(characters.flat_values, ~is_known)
        written = _written_bytes(unknown)
        replaced = tf.tensor_scatter_nd_update(with_marks, tf.where(~is_known), written)
        joined = tf.strings.reduce_join(characters.with_values(replaced), axis=-1)
        return tf.where(texts == "", "", WORD_START) + joined

    def _known_characters(self):
        """Returns the sorted code points that the vocabulary covers at any place of a word."""
        marks = {WORD_START, *BYTES}
        pieces = self.vocabulary.pieces
        single = [piece for piece in pieces if len(piece) == 1 and piece not in marks]
        between_letters = [f"a{character}a" for character in single]
        apart = WordSplitter(lowercase=False)(between_letters).to_list()
        known = []
        for character, words in zip(single, apart, strict=True):
            is_word = words == [b"a", character.encode(), b"a"]
            is_letter = words == [f"a{character}a".encode()] and CONTINUATION + character in self.vocabulary
            if is_word or is_letter:
                known.append(ord(character))
        return sorted(known)


def _written_bytes(characters):
    """Returns strings with the pieces of the bytes of characters, with a space around each."""
    numbers = tf.strings.unicode_decode(characters, "ISO-8859-1")
    points = tf.expand_dims(numbers.with_values(numbers.flat_values + ord(BYTES[0])), -1)
    pieces = tf.strings.unicode_encode(points, "UTF-8")
    return " " + tf.strings.reduce_join(pieces, axis=-1, separator=" ") + " "


def _bytes_of(piece):
    """Returns the bytes that a piece stands for."""
    if is_special(piece):
        return b""
    if piece in BYTES:
        return bytes([BYTES.index(piece)])
    written = piece
    if piece != CONTINUATION:  # Which is a piece of two signs, too.
        written = piece.removeprefix(CONTINUATION)
    return written.replace(WORD_START, " ").encode()
