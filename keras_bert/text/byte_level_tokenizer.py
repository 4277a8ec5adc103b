"""The tokenizer of byte-level BPE inside the graph: from strings to ids and byte offsets.

`byte_level_words` splits texts into words. Each distinct word of a batch is split into pieces once: by SentencePiece's
op where it does the same merges, or else by a loop.
"""

import functools

import tensorflow as tf

from keras_bert.text import byte_characters, byte_level_words, merges, sentencepiece_model
from keras_bert.text.byte_level_new_words import new_pieces
from keras_bert.text.byte_level_step import adds_prefix_space
from keras_bert.text.graph_steps import utf8_sizes
from keras_bert.text.literals import join
from keras_bert.text.merge_loop import MergeLoop
from keras_bert.text.packing import first_of_rows
from keras_bert.text.sentencepiece_kernel import SentencePieceKernel
from keras_bert.text.tokenizer import Tokenizer, character_limits, constant, reshaped

_PUNCTUATION = r" ?[!-/:-@\[-`{-~\p{P}\p{S}]+"


class ByteLevelTokenizer(Tokenizer, tf.Module):
    """Splits texts into the pieces of a vocabulary of byte-level BPE.

    Malformed UTF-8 is read as U+FFFD, as by Python's `bytes.decode(errors="replace")`.
    """

    def __init__(self, *arguments, **options):
        tf.Module.__init__(self)
        super().__init__(*arguments, **options)
        strings = tf.TensorSpec([None], tf.string)
        self._tokenize_words = tf.function(self._ids_of_words, input_signature=[strings], autograph=False)

    def _create_kernels(self, lowercase, strip_accents):
        self.vocabulary.check_casing(lowercase)
        self.tables = _kernel(self.vocabulary)  # A SavedModel must own it.
        self._loop = None
        if self.tables is None:
            self._loop = MergeLoop(self.vocabulary)
        self._prefix = adds_prefix_space(self.vocabulary)
        contents = byte_characters.contents(self.vocabulary.pieces, self.vocabulary)
        self._sizes = constant([len(content) for content in contents], tf.int32)
        leading, trailing = _trimmed_sizes(contents, self.vocabulary.added_by_id)
        self._leading = constant(leading, tf.int32)
        self._trailing = constant(trailing, tf.int32)
        pieces = constant(contents, tf.string)
        self._continues = constant(self.vocabulary.is_continuation, tf.bool)
        self._is_punctuation = tf.strings.regex_full_match(pieces, _PUNCTUATION)
        self._is_space = pieces == " "
        is_white = [content.decode(errors="replace").isspace() for content in contents]
        self._is_white = constant(is_white, tf.bool)

    @staticmethod
    def new_pieces(vocabulary, words, lowercase):
        return new_pieces(vocabulary, words)

    def word_starts(self, ids):
        """Punctuation is a word, as for BERT. White space belongs to the word after it, or at the end before it."""
        is_first = first_of_rows(ids)
        is_white = tf.gather(self._is_white, ids.values)
        follows_white = byte_level_words.previous(is_white) & ~is_first
        follows_punctuation = byte_level_words.previous(tf.gather(self._is_punctuation, ids.values))
        begins = ~tf.gather(self._continues, ids.values) | follows_punctuation
        following, _ = self._nearest_text(ids)
        starts = tf.where(is_white, (following >= 0) & ~follows_white, begins & ~follows_white)
        return starts | is_first

    def word_places(self, ids, starts, ends):
        # Places of words are those of their text, without the white space at both ends.
        following, preceding = self._nearest_text(ids)
        start_of_text = tf.gather(starts.values, tf.maximum(following, 0))
        end_of_text = tf.gather(ends.values, tf.maximum(preceding, 0))
        begin = tf.where(following < 0, starts.values, start_of_text)
        end = tf.where(preceding < 0, ends.values, end_of_text)
        return super().word_places(ids, starts.with_values(begin), ends.with_values(end))

    def _nearest_text(self, ids):
        """Returns for each token the place of the first one from there on that is no white space, and of the last one.

        Both are -1 where the row has none.
        """
        place = tf.range(tf.size(ids.values))
        texts = tf.cast(tf.where(~tf.gather(self._is_white, ids.values))[:, 0], tf.int32)
        padded = tf.concat([[-1], texts, [-1]], 0)
        following = tf.gather(padded, tf.searchsorted(texts, place) + 1)
        preceding = tf.gather(padded, tf.searchsorted(texts, place, side="right"))
        rows = ids.value_rowids()
        is_after = following < tf.cast(tf.gather(ids.row_limits(), rows), tf.int32)
        is_before = preceding >= tf.cast(tf.gather(ids.row_starts(), rows), tf.int32)
        return tf.where(is_after, following, -1), tf.where(is_before, preceding, -1)

    def of_words(self, words):
        """Same as a call, for words of a text: each gets a space before it, as in a text."""
        words = tf.convert_to_tensor(words, tf.string)
        return reshaped(self._tokenize_words(tf.reshape(words, [-1])), words)

    def _ids_of_words(self, words):
        return self._pieces(words, offsets=False, prefix=True)[0]

    def _normalized(self, content):
        return [content]

    def _pieces(self, texts, offsets, prefix=False):
        """Returns `(ids,)`, or `(ids, starts, ends)`; with `prefix`, texts get a space before them."""
        adds_space = prefix or self._prefix
        between = self._pieces_between_others
        pieces = self._pieces_between(self._exact, texts, offsets, adds_space, between)
        if not offsets or not self.vocabulary.trim_offsets:
            return pieces
        ids, starts, ends = pieces
        return ids, *self._trimmed(ids, starts, ends)

    def _pieces_between_others(self, texts, offsets, prefix):
        return self._pieces_between(self._normal, texts, offsets, prefix, self._pieces_of_text)

    def _pieces_between(self, literals, texts, offsets, prefix, pieces_of_rest):
        """Returns the tokens of `Literals`, if there are any, with the pieces of the texts between them."""
        if literals is None:
            return pieces_of_rest(texts, offsets, prefix)
        parts = _split(literals, texts)
        return join(parts, *pieces_of_rest(parts.rest, offsets, prefix))

    def _pieces_of_text(self, texts, offsets, prefix):
        """Returns the pieces of texts without added tokens."""
        is_added = tf.zeros_like(texts, tf.bool)
        if prefix:
            is_added = (texts != "") & (tf.strings.substr(texts, 0, 1) != " ")
            texts = tf.where(is_added, " " + texts, texts)
        words = byte_level_words.split(texts)
        distinct, place = tf.unique(words.words)
        of_words = tf.gather(self._pieces_of_words(distinct), place)
        splits = tf.gather(of_words.row_splits, words.row_splits)
        ids = tf.RaggedTensor.from_row_splits(of_words.values, splits, validate=False)
        if not offsets:
            return (ids,)
        return ids, *self._places(ids, words, texts, added=tf.cast(is_added, tf.int32))

    def _pieces_of_words(self, words):
        """Returns ragged ids of words `(words,)`."""
        if self.tables is None:
            return self._loop.tokenize(words)
        # Each byte becomes a character.
        return self.tables.tokenize(tf.strings.unicode_transcode(words, "ISO-8859-1", "UTF-8"))

    def _places(self, ids, words, texts, added):
        """Returns where pieces start and end in the texts, from the number of bytes of each.

        A piece that has a part of a character has the place of the whole one. `added` is the number of spaces that were
        added before each text.
        """
        # Pieces and characters by bytes, those of all texts in one line.
        piece_ends = tf.cumsum(tf.gather(self._sizes, ids.values))
        piece_starts = piece_ends - tf.gather(self._sizes, ids.values)
        number = tf.range(tf.size(words.points.values))
        character = tf.repeat(number, utf8_sizes(words.points.values))  # By byte.

        begins = tf.cast(words.begins, tf.int32)
        row = tf.cast(begins.value_rowids(), tf.int32)
        limits = character_limits(texts, begins)  # One more in each row.
        ends = tf.gather(limits.values, number + row + 1)
        # A space that was added has the place of the character after it.
        is_added = tf.gather(added, row) * tf.cast(first_of_rows(words.points), tf.int32)
        character += tf.gather(is_added, character)
        shift = tf.gather(added, ids.value_rowids())
        start = tf.gather(begins.values, tf.gather(character, piece_starts)) - shift
        end = tf.gather(ends, tf.gather(character, piece_ends - 1)) - shift
        return ids.with_values(start), ids.with_values(end)

    def _trimmed(self, ids, starts, ends):
        """Returns the places of pieces, in bytes, without the spaces at their ends, as RoBERTa's post-processor does.

        A piece of spaces alone keeps an empty place, at its end; the space that was added before a text has one at its
        start. This is what `Vocabulary` promises of `trim_offsets`, and what the Rust library does by the same setting
        of `tokenizer.json`. White space around added tokens is trimmed by `Literals`, as for WordPiece.
        """
        leading = tf.gather(self._leading, ids.values)  # Numbers of bytes to trim.
        trailing = tf.gather(self._trailing, ids.values)
        begin = starts.values
        if not self._prefix:
            start = tf.minimum(begin + leading, ends.values)
            end = tf.maximum(ends.values - trailing, start)
            return ids.with_values(start), ids.with_values(end)

        # As in the Rust library, one leading space is not trimmed of the first piece, nor of another one that begins at
        # 0: it may be the space that was added before the text.
        is_first = tf.ragged.range(ids.row_lengths()).values == 0
        may_be_added = (is_first | (begin == 0)) & (leading == 1)
        begin = tf.where(is_first & (begin == 1), 0, begin)
        start = tf.minimum(begin + tf.where(may_be_added, 0, leading), ends.values)
        end = tf.maximum(ends.values - trailing, start)
        # A piece of spaces is empty by now, but for the added space alone: it has the place of the character after it.
        is_added_space = may_be_added & tf.gather(self._is_space, ids.values)
        end = tf.where(is_added_space, start, end)
        return ids.with_values(start), ids.with_values(end)


def _trimmed_sizes(contents, added):
    """Returns how many bytes are trimmed at both ends of pieces, two lists: spaces, of added tokens all white space."""
    leading = []
    trailing = []
    for index, content in enumerate(contents):
        from_start = content.lstrip(b" ")
        to_end = content.rstrip(b" ")
        if index in added:
            text = content.decode(errors="surrogateescape")
            from_start = text.lstrip().encode(errors="surrogateescape")
            to_end = text.rstrip().encode(errors="surrogateescape")
        leading.append(len(content) - len(from_start))
        trailing.append(len(content) - len(to_end))
    return leading, trailing


def _split(literals, texts):
    """Returns the `TextParts` of texts."""
    # The splitting kernel ends a text at NUL.
    parts = literals.split(tf.strings.regex_replace(texts, "\\x00", "\x01"))
    has_nul = tf.reduce_any(tf.strings.regex_full_match(texts, r"(?s)\C*\x00\C*"))
    starts = tf.RaggedTensor.from_row_splits(parts.starts, parts.row_splits, validate=False)
    rows = starts.value_rowids()

    def of_original():
        sizes = parts.ends - parts.starts
        strings = tf.strings.substr(tf.gather(texts, rows), parts.starts, sizes)
        return tf.where(parts.is_token, "", strings)

    return parts._replace(rest=tf.cond(has_nul, of_original, lambda: parts.rest))


@functools.lru_cache(maxsize=2)
def _kernel(vocabulary):
    """Returns SentencePiece's op for a vocabulary, `None` if it does not do the same merges."""
    listed = merges.parsed(vocabulary.merges)
    if not merges.are_those_of_pieces(listed):
        return None
    made = {merge.whole: merge.rank for merge in listed}
    is_byte = set(byte_characters.CHARACTERS)
    pieces = []
    scores = []
    for index, piece in enumerate(vocabulary.pieces):
        if piece in is_byte or piece in made:
            pieces.append(byte_characters.content(piece).decode("latin-1"))
        else:
            # A text of bytes has no other characters than those of Latin-1, so that this matches nothing.
            pieces.append(f"\ufffd{index}")
        scores.append(-float(made.get(piece, 0)))
    with tf.init_scope(), tf.device("cpu"):
        return SentencePieceKernel(sentencepiece_model.serialized_merges(pieces, scores))
