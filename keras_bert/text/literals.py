"""Strings that are always a single token. They are extracted before the text is split into words."""

import re
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.packing import select
from keras_bert.text.tokenizer_steps import CHINESE, WHITE_SPACE

_LARGEST = 2**63 - 1
# A letter, mark, digit or connector, as `\w` of the tokenizers library.
_LETTER = r"[\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}Ⓐ-ⓩ\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]"


class TextParts(NamedTuple):
    """Texts split into parts, some of which are tokens."""

    row_splits: tf.Tensor  # Row splits of the parts of each text.
    rest: tf.Tensor  # The parts as strings, `(parts,)`; tokens are empty.
    is_token: tf.Tensor  # Bool, `(parts,)`.
    ids: tf.Tensor  # The ids of the tokens, `(tokens,)`.
    starts: tf.Tensor  # The byte offsets of the parts, `(parts,)`.
    ends: tf.Tensor


def without_tokens(row_splits, rest, starts, ends):
    """Returns `TextParts` of which none is a token, such as words."""
    return TextParts(
        row_splits,
        rest,
        is_token=tf.zeros_like(rest, tf.bool),
        ids=tf.zeros([0], tf.int32),
        starts=starts,
        ends=ends,
    )


class _Split(NamedTuple):
    """Texts split at literals. The first three are ragged `(texts, parts)`, the others `(parts,)`."""

    parts: tf.RaggedTensor  # Strings.
    starts: tf.RaggedTensor  # Byte offsets.
    ends: tf.RaggedTensor
    is_token: tf.Tensor  # Bool.
    place: tf.Tensor  # The place of the token among all literals.


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
        """Splits strings `(texts,)` into `TextParts`."""
        split = self._split(texts)
        if self._is_single is not None:
            split = self._without_parts_of_words(texts, split)
        is_token = split.is_token
        rows = split.parts.value_rowids()
        parts = TextParts(
            split.parts.row_splits,
            rest=tf.where(is_token, "", split.parts.values),
            is_token=is_token,
            ids=tf.gather(self._ids, tf.boolean_mask(split.place, is_token)),
            starts=split.starts.values,
            ends=split.ends.values,
        )
        if self._strips_after is not None:
            takes_space = is_token & tf.gather(self._strips_after, split.place)
            parts = _with_space_after(parts, rows, takes_space)
        if self._strips_before is not None:
            takes_space = is_token & tf.gather(self._strips_before, split.place)
            parts = _with_space_before(parts, rows, takes_space)
        if self._trim:
            starts = tf.where(is_token, split.starts.values, parts.starts)
            ends = tf.where(is_token, split.ends.values, parts.ends)
            parts = parts._replace(starts=starts, ends=ends)
        return parts

    def _split(self, texts):
        """Splits texts at all literals, also at parts of words."""
        from tensorflow_text import regex_split_with_offsets

        parts, starts, ends = regex_split_with_offsets(texts, self._pattern, self._pattern)
        # A part either is a token or contains none, so its hash identifies the token.
        hashes = _hash(parts.values)
        place = tf.minimum(tf.searchsorted(self._hashes, hashes), tf.size(self._hashes) - 1)
        is_token = tf.gather(self._hashes, place) == hashes
        return _Split(parts, starts, ends, is_token, place)

    def _has_letter(self, strings, pattern):
        """Returns whether strings have a letter at the place in a pattern; Chinese ones do not count if `spaced`."""
        has_letter = tf.strings.regex_full_match(strings, pattern % _LETTER)
        if not self._spaced:
            return has_letter
        return has_letter & ~tf.strings.regex_full_match(strings, pattern % CHINESE)

    def _without_parts_of_words(self, texts, split):
        """Makes text of the single words that have a letter beside them, and joins it with the text around."""
        rows = split.starts.value_rowids()
        text = tf.gather(texts, rows)
        starts = split.starts.values
        ends = split.ends.values
        # A letter has at most four bytes.
        before = tf.strings.substr(text, tf.maximum(starts - 4, 0), tf.minimum(starts, 4))
        after = tf.strings.substr(text, ends, tf.fill(tf.shape(ends), tf.constant(4, ends.dtype)))
        has_letter_beside = self._has_letter(before, r"\C*%s") | self._has_letter(after, r"%s\C*")
        is_token = split.is_token & ~(tf.gather(self._is_single, split.place) & has_letter_beside)

        # Neighbors in a text that are no tokens become one part.
        is_joined = ~is_token[1:] & ~is_token[:-1] & (rows[1:] == rows[:-1])
        one = tf.fill(tf.minimum(tf.shape(rows), 1), True)  # Empty if there are no parts.
        is_first = tf.concat([one, ~is_joined], 0)
        is_last = tf.concat([is_first[1:], one], 0)
        (first_starts,) = select(is_first, split.starts)
        (last_ends,) = select(is_last, split.ends)
        sizes = last_ends.values - first_starts.values
        joined = tf.strings.substr(tf.boolean_mask(text, is_first), first_starts.values, sizes)
        return _Split(
            first_starts.with_values(joined),
            first_starts,
            last_ends,
            is_token=tf.boolean_mask(is_token, is_first),
            place=tf.boolean_mask(split.place, is_first),
        )


def _flags(name, tokens, order):
    """Returns in this order which tokens have a flag of `AddedToken`, `None` if none has it."""
    has_flag = [token is not None and getattr(token, name) for token in tokens]
    if not any(has_flag):
        return None
    return tf.gather(tf.constant(has_flag), order)


def _with_space_before(parts, rows, takes_space):
    """Returns `TextParts` in which some tokens have the white space at the end of the part before them."""
    is_in_same_text = rows[1:] == rows[:-1]
    gives_space = tf.concat([takes_space[1:] & is_in_same_text, tf.zeros_like(takes_space[:1])], 0)
    rest, given = _without_space(parts, gives_space, f"[{WHITE_SPACE}]+$")
    taken = tf.concat([tf.zeros_like(given[:1]), given[:-1]], 0)
    return parts._replace(rest=rest, starts=parts.starts - taken, ends=parts.ends - given)


def _with_space_after(parts, rows, takes_space):
    """The mirror image: some tokens have the white space at the start of the part after them."""
    is_in_same_text = rows[1:] == rows[:-1]
    gives_space = tf.concat([tf.zeros_like(takes_space[:1]), takes_space[:-1] & is_in_same_text], 0)
    rest, given = _without_space(parts, gives_space, f"^[{WHITE_SPACE}]+")
    taken = tf.concat([given[1:], tf.zeros_like(given[:1])], 0)
    return parts._replace(rest=rest, starts=parts.starts + given, ends=parts.ends + taken)


def _without_space(parts, gives_space, pattern):
    """Returns the strings of parts, some of them without the white space of a pattern, and its number of bytes."""
    rest = tf.where(gives_space, tf.strings.regex_replace(parts.rest, pattern, ""), parts.rest)
    given = tf.strings.length(parts.rest) - tf.strings.length(rest)
    return rest, tf.cast(given, parts.starts.dtype)


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

    def joined_offsets(of_parts, within_parts):
        dtype = within_parts.dtype
        of_tokens = tf.gather(tf.cast(of_parts, dtype), tokens)
        begin = tf.gather(tf.cast(parts.starts, dtype), within_parts.value_rowids())
        return joined(of_tokens, within_parts.values + begin)

    joined_ids = joined(parts.ids, ids.values)
    if not offsets:
        return (joined_ids,)
    starts, ends = offsets
    return joined_ids, joined_offsets(parts.starts, starts), joined_offsets(parts.ends, ends)


def _hash(strings):
    return tf.strings.to_hash_bucket_fast(strings, _LARGEST)
