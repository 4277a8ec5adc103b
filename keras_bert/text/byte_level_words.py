"""GPT-2's words inside the graph: contractions, letters, digits, other signs and white space, with the space before.

GPT-2 splits texts by a regular expression with a look-ahead, which TensorFlow's does not have:

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

Here, each character has a kind, and a word starts where the kind changes. A space before another kind belongs to the
word after it; so do other characters of white space not, which end the white space before them.
"""

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.text.packing import first_of_rows
from keras_bert.text.tokenizer_steps import WHITE_CHARACTERS

_OTHER, _LETTER, _NUMBER, _WHITE = range(4)  # Kinds.
_TABLE_SIZE = 0x40000  # Letters and numbers come before this code point.
# What became a letter or a number in Unicode 15 and 16, which Python's `unicodedata` may not know yet.
_NEW_LETTERS = (
    "\u1c89-\u1c8a \ua7cb-\ua7cd \ua7da-\ua7dc \U000105c0-\U000105f3 \U00010d4a-\U00010d65 \U00010d6f-\U00010d85 "
    "\U00010ec2-\U00010ec4 \U0001123f-\U00011240 \U00011380-\U00011389 \U0001138b-\U0001138b \U0001138e-\U0001138e "
    "\U00011390-\U000113b5 \U000113b7-\U000113b7 \U000113d1-\U000113d1 \U000113d3-\U000113d3 \U00011bc0-\U00011be0 "
    "\U00011f02-\U00011f02 \U00011f04-\U00011f10 \U00011f12-\U00011f33 \U0001342f-\U0001342f \U00013441-\U00013446 "
    "\U00013460-\U000143fa \U00016100-\U0001611d \U00016d40-\U00016d6c \U00018cff-\U00018cff \U0001b132-\U0001b132 "
    "\U0001b155-\U0001b155 \U0001df25-\U0001df2a \U0001e030-\U0001e06d \U0001e4d0-\U0001e4eb \U0001e5d0-\U0001e5ed "
    "\U0001e5f0-\U0001e5f0 \U0002b739-\U0002b739 \U0002ebf0-\U0002ee5d \U00031350-\U000323af"
)
_NEW_NUMBERS = (
    "\U00010d40-\U00010d49 \U000116d0-\U000116e3 \U00011bf0-\U00011bf9 \U00011f50-\U00011f59 \U00016130-\U00016139 "
    "\U00016d70-\U00016d79 \U0001ccf0-\U0001ccf9 \U0001d2c0-\U0001d2d3 \U0001e4f0-\U0001e4f9 \U0001e5f1-\U0001e5fa"
)


class CharacterWords(NamedTuple):
    """The words of texts, and the characters that they are made of."""

    points: tf.RaggedTensor  # (texts, characters): code points.
    begins: tf.RaggedTensor  # (texts, characters): where each character begins, in bytes.
    words: tf.Tensor  # (words,): strings.
    row_splits: tf.Tensor  # Row splits of the words of each text.


def split(texts):
    """Returns the `CharacterWords` of strings `(texts,)`. Malformed UTF-8 is read as U+FFFD."""
    points, begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    is_first = first_of_rows(points)
    starts = _with_contractions(points.values, is_first, _word_starts(points.values, is_first))
    places = tf.where(starts)[:, 0]
    words = tf.RaggedTensor.from_row_starts(points.values, places, validate=False)
    before = tf.pad(tf.cumsum(tf.cast(starts, tf.int64)), [[1, 0]])
    return CharacterWords(
        points,
        begins,
        words=tf.strings.unicode_encode(words, "UTF-8"),
        row_splits=tf.gather(before, points.row_splits),
    )


def _word_starts(points, is_first):
    """Returns where words start, but for contractions; `is_first` tells the first character of each text."""
    kinds = tf.gather(tf.constant(kinds_of_characters()), tf.minimum(points, _TABLE_SIZE - 1))
    is_white = kinds == _WHITE
    is_last = _next(is_first, at_end=True)
    changes = is_first | (kinds != previous(kinds))
    # Of white space before another kind, the last character is apart, and a plain space belongs to what follows it.
    ends_white = is_white & ~is_last & ~_next(is_white)
    follows_space = ~is_first & ~is_white & previous(points == ord(" "))
    return (changes | ends_white) & ~follows_space


def _with_contractions(points, is_first, starts):
    """Returns the starts of words with those of contractions, such as "'s", and of what follows them."""
    is_last = _next(is_first, at_end=True)
    is_next_to_last = _next(is_first, 2, at_end=True)
    second = tf.where(is_last, 0, _next(points))
    third = tf.where(is_last | is_next_to_last, 0, _next(points, 2))
    is_quote = starts & (points == ord("'"))
    has_one = is_quote & _is_any(second, "stmd")
    is_re_or_ve = _is_any(second, "rv") & (third == ord("e"))
    is_ll = (second == ord("l")) & (third == ord("l"))
    has_two = is_quote & (is_re_or_ve | is_ll)
    within = previous(has_one | has_two)
    behind = previous(has_one, 2) | previous(has_two, 3)
    return (starts & ~within) | behind


def _is_any(points, characters):
    """Returns which code points are those of some characters."""
    is_any = points == ord(characters[0])
    for character in characters[1:]:
        is_any |= points == ord(character)
    return is_any


def previous(values, distance=1):
    """Returns for each value the one before it, zeros at the start."""
    padded = tf.pad(values, [[distance, 0]])
    return padded[: tf.size(values)]


def _next(values, distance=1, at_end=0):
    """Returns for each value the one after it, and `at_end` behind the last one."""
    padded = tf.pad(values, [[0, distance]], constant_values=at_end)
    return padded[distance:]


@functools.cache
def kinds_of_characters():
    """Returns the kinds of code points up to `_TABLE_SIZE`, whose last one counts for all others."""
    kinds = np.full(_TABLE_SIZE, _OTHER, np.uint8)
    for point in range(_TABLE_SIZE):
        category = unicodedata.category(chr(point))
        if category[0] == "L":
            kinds[point] = _LETTER
        elif category[0] == "N":
            kinds[point] = _NUMBER
    for ranges, kind in ((_NEW_LETTERS, _LETTER), (_NEW_NUMBERS, _NUMBER)):
        for first, _, last in ranges.split():
            kinds[ord(first) : ord(last) + 1] = kind
    for character in WHITE_CHARACTERS:
        kinds[ord(character)] = _WHITE
    return kinds
