"""Strings that are always a single token. They are extracted before the text is split into words."""

import re
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.packing import select
from keras_bert.text.tokenizer_steps import CHINESE, WHITE_SPACE

_LARGEST = 2**63 - 1
# A letter, mark, digit or connector, as `\w` of the tokenizers library.
_LETTER = r"[\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}Ⓐ-ⓩ\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]"


class Parts(NamedTuple):
    """Texts split into parts, some of which are tokens."""

    row_splits: tf.Tensor  # Row splits of the parts of each text.
    rest: tf.Tensor  # The parts as strings, `(parts,)`; tokens are empty.
    is_token: tf.Tensor  # Bool, `(parts,)`.
    ids: tf.Tensor  # The ids of the tokens, `(tokens,)`.
    starts: tf.Tensor  # The byte offsets of the parts, `(parts,)`.
    ends: tf.Tensor


class Literals:
    """Finds strings in texts from left to right, longest match first. A text takes 15 us with 100 strings.

    `ids` maps strings to ids, `tokens` are the `AddedToken`s by id: how some of them are matched. Chinese characters
    beside a token that is a single word are words of their own if `spaced`. The place of a token includes the white
    space that belongs to it, unless `trim`.
    """

    def __init__(self, ids, tokens, spaced=False, trim=False):
        longest_first = sorted(ids, key=lambda string: (-len(string), string))
        self._pattern = "|".join(map(re.escape, longest_first))
        self._spaced = spaced
        self._trim = trim
        with tf.init_scope(), tf.device("cpu"):
            hashes = _hash(tf.constant(list(ids), tf.string))
            order = tf.argsort(hashes)
            self._hashes = tf.gather(hashes, order)
            self._ids = tf.gather(tf.constant(list(ids.values()), tf.int32), order)
            matched = [tokens.get(index) for index in ids.values()]
            self._is_single = _flags("single_word", matched, order)
            self._strips_before = _flags("lstrip", matched, order)
            self._strips_after = _flags("rstrip", matched, order)

    def split(self, texts):
        """Splits strings `(texts,)` into `Parts`."""
        import tensorflow_text

        parts, starts, ends = tensorflow_text.regex_split_with_offsets(texts, self._pattern, self._pattern)
        # A part either is a token or contains none, so its hash identifies the token.
        hashes = _hash(parts.values)
        place = tf.minimum(tf.searchsorted(self._hashes, hashes), tf.size(self._hashes) - 1)
        is_token = tf.gather(self._hashes, place) == hashes
        if self._is_single is not None:
            parts, starts, ends, is_token, place = self._without_parts_of_words(texts, starts, ends, is_token, place)
        rest = tf.where(is_token, "", parts.values)
        ids = tf.gather(self._ids, tf.boolean_mask(place, is_token))
        found = Parts(parts.row_splits, rest, is_token, ids, starts.values, ends.values)
        rows = parts.value_rowids()
        if self._strips_after is not None:
            found = _with_space_after(found, rows, is_token & tf.gather(self._strips_after, place))
        if self._strips_before is not None:
            found = _with_space_before(found, rows, is_token & tf.gather(self._strips_before, place))
        if self._trim:
            starts = tf.where(is_token, starts.values, found.starts)
            ends = tf.where(is_token, ends.values, found.ends)
            return found._replace(starts=starts, ends=ends)
        return found

    def _has_letter(self, strings, pattern):
        """Returns whether strings have a letter at the place in a pattern."""
        has_letter = tf.strings.regex_full_match(strings, pattern % _LETTER)
        return has_letter & ~tf.strings.regex_full_match(strings, pattern % CHINESE) if self._spaced else has_letter

    def _without_parts_of_words(self, texts, starts, ends, is_token, place):
        """Makes text of the single words that have a letter beside them, and joins it with the text around."""
        texts = tf.gather(texts, starts.value_rowids())
        before = tf.strings.substr(texts, tf.maximum(starts.values - 4, 0), tf.minimum(starts.values, 4))
        after = tf.strings.substr(texts, ends.values, tf.fill(tf.shape(ends.values), tf.constant(4, ends.dtype)))
        beside = self._has_letter(before, r"\C*%s") | self._has_letter(after, r"%s\C*")
        is_token &= ~(tf.gather(self._is_single, place) & beside)
        rows = starts.value_rowids()
        same = ~is_token[1:] & ~is_token[:-1] & (rows[1:] == rows[:-1])
        first = tf.concat([tf.fill(tf.minimum(tf.shape(rows), 1), True), ~same], 0)
        last = tf.concat([first[1:], tf.fill(tf.minimum(tf.shape(rows), 1), True)], 0)
        (starts,), (ends,) = select(first, starts), select(last, ends)
        parts = tf.strings.substr(tf.boolean_mask(texts, first), starts.values, ends.values - starts.values)
        return starts.with_values(parts), starts, ends, tf.boolean_mask(is_token, first), tf.boolean_mask(place, first)


def _flags(name, tokens, order):
    """Returns in this order which tokens have a flag of `AddedToken`, `None` if none has it."""
    has_flag = [token is not None and getattr(token, name) for token in tokens]
    if not any(has_flag):
        return None
    return tf.gather(tf.constant(has_flag), order)


def _with_space_before(parts, rows, strips):
    """Returns `Parts` in which the tokens of `strips` have the white space at the end of the part before them."""
    follows = tf.concat([strips[1:] & (rows[1:] == rows[:-1]), tf.zeros_like(strips[:1])], 0)
    rest = tf.where(follows, tf.strings.regex_replace(parts.rest, f"[{WHITE_SPACE}]+$", ""), parts.rest)
    space = _shorter(parts, rest)
    starts = parts.starts - tf.concat([tf.zeros_like(space[:1]), space[:-1]], 0)
    return parts._replace(rest=rest, starts=starts, ends=parts.ends - space)


def _with_space_after(parts, rows, strips):
    """Returns `Parts` in which the tokens of `strips` have the white space at the start of the part after them."""
    follows = tf.concat([tf.zeros_like(strips[:1]), strips[:-1] & (rows[1:] == rows[:-1])], 0)
    rest = tf.where(follows, tf.strings.regex_replace(parts.rest, f"^[{WHITE_SPACE}]+", ""), parts.rest)
    space = _shorter(parts, rest)
    ends = parts.ends + tf.concat([space[1:], tf.zeros_like(space[:1])], 0)
    return parts._replace(rest=rest, starts=parts.starts + space, ends=ends)


def _shorter(parts, rest):
    """Returns by how many bytes the parts are longer than `rest`."""
    return tf.cast(tf.strings.length(parts.rest) - tf.strings.length(rest), parts.starts.dtype)


def join(parts, ids, *offsets):
    """Joins the pieces of all parts of each text.

    `ids` are ragged `(parts, pieces)`, int32; `offsets` the starts and ends of the pieces within their part. Returns
    ragged `(texts, pieces)`: `(ids,)`, or `(ids, starts, ends)` with offsets in the text.
    """

    tokens = tf.where(parts.is_token)[:, 0]
    # Where each part ends in the texts, and the places of its token and of its pieces.
    before = tf.cumsum(tf.cast(parts.is_token, ids.row_splits.dtype))
    splits = tf.gather(ids.row_splits + tf.pad(before, [[1, 0]]), parts.row_splits)
    own = tf.gather(ids.row_splits[:-1] + before - 1, tokens)
    others = tf.ragged.range(ids.row_starts() + before, ids.row_limits() + before).values
    places = [tf.cast(own, tf.int32), tf.cast(others, tf.int32)]

    def joined(of_tokens, of_pieces):
        # The checks of a ragged tensor, and its `concat`, would take most of the time of tracing.
        values = tf.dynamic_stitch(places, [of_tokens, of_pieces])
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def joined_offsets(of_parts, offsets):
        of_parts, begin = tf.cast(of_parts, offsets.dtype), tf.cast(parts.starts, offsets.dtype)
        return joined(tf.gather(of_parts, tokens), offsets.values + tf.gather(begin, offsets.value_rowids()))

    return joined(parts.ids, ids.values), *map(joined_offsets, (parts.starts, parts.ends), offsets)


def _hash(strings):
    return tf.strings.to_hash_bucket_fast(strings, _LARGEST)
