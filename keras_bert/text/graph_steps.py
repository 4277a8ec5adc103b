"""Normalizers and pre-tokenizers other than BERT's, equal to those of Hugging Face's tokenizers, inside the graph.

Normalizers that treat each character alone are merged into tables of tf-text's kernel, see `normalizer_model`. Only the
canonical order and composition of Unicode's normal forms depend on neighbors: they run on code points, where needed.
"""

import functools
import itertools
import json
import re
import sys
import unicodedata

import numpy as np
import tensorflow as tf

from keras_bert.text import normalization
from keras_bert.text.literals import Parts
from keras_bert.text.normalization import normalizer_model, ranges
from keras_bert.text.tokenizer_steps import CHINESE, FORMS, WHITE_SPACE, normalizer_steps, pre_tokenizer_steps

_WHITE = "\t\n\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_NUL = "\ufdd0"  # In place of the two characters that the kernels treat specially: a noncharacter.
_CLEAN = str.maketrans(dict.fromkeys(_WHITE, " ") | dict.fromkeys(("\ufffd", _NUL)))
_CONTROL = {"Cc", "Cf", "Co"}
_ORDER, _COMPOSE = "order", "compose"
_PAIR = 2**21  # Above every code point.

# Of pre-tokenizers: character classes without brackets.
_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
_WORD = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉"
_BEHAVIORS = {
    "Isolated": f"[{_PUNCTUATION}]",
    "Contiguous": f"[{_PUNCTUATION}]+",
    "MergedWithPrevious": f"[^{_PUNCTUATION}]*[{_PUNCTUATION}]",
    "MergedWithNext": f"[{_PUNCTUATION}][^{_PUNCTUATION}]*",
}


class SequenceNormalizer:
    """Normalizes strings `(texts,)`, with the interface of `tensorflow_text.FastBertNormalizer`.

    `values` is the normalizer in `tokenizer.json`.
    """

    def __init__(self, values: dict):
        changes = [change for step in normalizer_steps(values) for change in _changes(step)]
        self._stages = _stages(changes)

    def normalize(self, texts):
        return self.normalize_with_offsets(texts)[0]

    def normalize_with_offsets(self, texts):
        """Returns the texts, and for each byte, and the end, the offset where its character starts in the original."""
        texts, origins = self._stages[0](texts)
        for stage in self._stages[1:]:
            texts, offsets = stage(texts)
            origins = _through(origins, offsets)
        return texts, origins


def sequence_normalizer(values):
    """Returns the `SequenceNormalizer` of a dict; the last ones are kept, since their tables take a second."""
    return _kept(json.dumps(values, allow_nan=False))


@functools.lru_cache(maxsize=8)
def _kept(values):
    return SequenceNormalizer(json.loads(values))


def _through(origins, offsets):
    """Maps offsets in texts to those of the original, `origins`; both ragged int64 `(texts, bytes)`."""
    places = offsets.values + tf.gather(origins.row_starts(), offsets.value_rowids())
    return offsets.with_values(tf.gather(origins.values, places))


def _changes(step):
    """Returns the changes of a step: functions that treat each character alone, `_ORDER`, `_COMPOSE`, replacements."""
    kind = step["type"]
    if kind in FORMS:
        return [functools.partial(unicodedata.normalize, kind), _ORDER if kind[-1] == "D" else _COMPOSE]
    if kind == "Replace":
        pattern, content = step["pattern"]["String"], step["content"]
        return [(pattern, content)] if len(pattern) > 1 else [lambda text: text.replace(pattern, content)]
    if kind == "BertNormalizer":
        return _bert_changes(**{name: value for name, value in step.items() if name != "type"})
    return [str.lower if kind == "Lowercase" else functools.partial(_without, "M")]


def _bert_changes(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True):
    strip_accents = lowercase if strip_accents is None else strip_accents
    changes = [_clean] if clean_text else []
    changes += [functools.partial(re.compile(CHINESE).sub, r" \1 ")] if handle_chinese_chars else []
    if strip_accents:
        changes += [functools.partial(unicodedata.normalize, "NFD"), _ORDER, functools.partial(_without, "Mn")]
    return [*changes, str.lower] if lowercase else changes


def _clean(text):
    """Unlike Google's program, the library removes private characters too."""
    text = text.translate(_CLEAN)
    if _CONTROL.isdisjoint(map(unicodedata.category, text)):  # Quick, for blocks of characters.
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _CONTROL)


def _without(category, text):
    return "".join(char for char in text if not unicodedata.category(char).startswith(category))


def _protect(text):
    """Replaces two characters by one that is in no piece either, and neither white space nor punctuation."""
    return text.replace("\0", _NUL).replace("\1", _NUL)


def _stages(changes):
    """Returns the stages of a normalizer.

    A stage takes strings `(texts,)` and returns them changed, with ragged offsets `(texts, bytes + 1)`: where the
    character of each byte starts in the given text, and its end.
    """
    stages, functions = [], [_protect]
    for place, change in enumerate(changes):
        if callable(change):
            functions.append(change)
            continue
        following = list(itertools.takewhile(callable, changes[place + 1 :]))
        if change == _ORDER and not any(_apply(following, mark) for mark in marks()):
            continue  # The marks are removed.
        stages += [_table(functions)] if functions else []
        stages, functions = [*stages, _stage(change)], []
    return [*stages, _table(functions)] if functions else stages


def _apply(functions, text):
    for function in functions:
        text = function(text)
    return text


def _table(functions):
    """Returns a stage that applies functions to each character alone."""
    import tensorflow_text

    changed = {}
    for block in normalization.blocks():
        normal = _apply(functions, block)
        if normal != block:  # If nothing is left of a block, as of private characters, nothing is left of any.
            changed |= {char: _apply(functions, char) if normal else "" for char in block}
    table = {char.encode(): normal.encode() for char, normal in changed.items() if normal != char}
    model = normalizer_model(table | dict.fromkeys(normalization.broken_sequences(), b""))
    with tf.init_scope(), tf.device("cpu"):
        kernel = tensorflow_text.FastBertNormalizer(model_buffer=tf.constant(model, tf.uint8))
    return kernel.normalize_with_offsets


def _stage(change):
    """Returns the stage of a change that depends on neighbors."""
    if change == _ORDER:
        return sort_marks
    return _composition() if change == _COMPOSE else functools.partial(_replace, *change)


def _replace(pattern, content, texts):
    """A stage that replaces a string by another."""
    import tensorflow_text

    escaped = re.escape(pattern)
    parts, starts, _ = tensorflow_text.regex_split_with_offsets(texts, escaped, escaped)
    is_match = parts.values == pattern
    replaced = tf.where(is_match, content, parts.values)
    places = tf.ragged.range(tf.cast(tf.strings.length(replaced), tf.int64))
    rows = places.value_rowids()
    origins = tf.gather(starts.values, rows) + tf.where(tf.gather(is_match, rows), tf.zeros_like(rows), places.values)
    normal = tf.strings.reduce_join(parts.with_values(replaced), axis=-1)
    return normal, with_end(origins, normal, texts)


def _composition():
    """Returns a stage that composes texts whose characters are composed."""
    decompose = _table([functools.partial(unicodedata.normalize, "NFD")])

    def apply(texts):
        texts, origins = decompose(texts)
        for stage in (sort_marks, compose):
            texts, offsets = stage(texts)
            origins = _through(origins, offsets)
        return texts, origins

    return lambda texts: tf.cond(needs_composition(texts), lambda: apply(texts), lambda: unchanged(texts))


@functools.cache
def marks():
    """Returns the characters with a combining class other than 0."""
    return [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char)]


@functools.cache
def _pairs():
    """Returns the pairs of characters that compose, as sorted numbers, and the code points of their composites."""
    pairs = {}
    for char in map(chr, range(sys.maxunicode + 1)):
        whole = unicodedata.normalize("NFD", char)
        if len(whole) > 1 and unicodedata.normalize("NFC", whole) == char:
            first, second = unicodedata.normalize("NFC", whole[:-1]), whole[-1]
            pairs[ord(first) * _PAIR + ord(second)] = ord(char)
    keys = sorted(pairs)
    return np.array(keys, np.int64), np.array([pairs[key] for key in keys], np.int32)


def sort_marks(texts):
    """A stage that sorts the marks after each letter by their combining class."""
    mark = f"[{ranges(map(ord, marks()))}]"
    letter = mark.replace("[", "[^", 1)
    sorted_already = tf.reduce_all(tf.strings.regex_full_match(texts, f"(?:{mark}?{letter})*{mark}?"))
    return tf.cond(sorted_already, lambda: unchanged(texts), lambda: _sort(texts))


def _sort(texts):
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    combining = _combining(points.values)
    letter = tf.cast(_is_leader(combining, points.value_rowids()), tf.int64)
    order = tf.argsort(tf.cumsum(letter) * 256 + tf.cast(combining, tf.int64), stable=True)
    # Offsets stay in order, as in the library: marks that change places change their ranges too.
    return _encode(texts, points.with_values(tf.gather(points.values, order)), starts)


def needs_composition(texts):
    """Returns whether any text may have characters that compose."""
    seconds = {int(key % _PAIR) for key in _pairs()[0]} | set(map(ord, marks()))
    return ~tf.reduce_all(tf.strings.regex_full_match(texts, f"[^{ranges(sorted(seconds))}]*"))


def compose(texts):
    """A stage that composes decomposed, sorted texts."""
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    flat = [points.values, tf.cast(starts.values, tf.int64), points.value_rowids()]
    shapes = [tf.TensorShape([None])] * 3
    # Each pass composes the first pair of each letter.
    flat = tf.while_loop(lambda more, *flat: more, _compose_once, [True, *flat], [tf.TensorShape([]), *shapes])[1:]
    points, starts = (tf.RaggedTensor.from_value_rowids(values, flat[2], points.nrows()) for values in flat[:2])
    return _encode(texts, points, starts)


def _compose_once(_, points, starts, rows):
    keys, composites = map(tf.constant, _pairs())
    combining, place = _combining(points), tf.range(tf.size(points))
    is_leader = _is_leader(combining, rows)
    leader = tf.gather(tf.where(is_leader)[:, 0], tf.cumsum(tf.cast(is_leader, tf.int32)) - 1)
    leader = tf.cast(tf.concat([leader[:1], leader[:-1]], 0), tf.int32)  # Of the previous character.
    before = tf.concat([combining[:1], combining[:-1]], 0)
    is_free = (rows == tf.gather(rows, leader)) & (place > 0) & ((leader == place - 1) | (before < combining))
    pairs = tf.cast(tf.gather(points, leader), tf.int64) * _PAIR + tf.cast(points, tf.int64)
    found = tf.minimum(tf.searchsorted(keys, pairs), tf.size(keys) - 1)
    second = tf.where(is_free & (tf.gather(keys, found) == pairs))[:, 0]
    first = tf.gather(leader, second)
    is_next = tf.concat([tf.ones_like(first[:1], tf.bool), first[1:] != first[:-1]], 0)
    first, second = tf.boolean_mask(first, is_next), tf.boolean_mask(second, is_next)
    composed = tf.gather(composites, tf.gather(found, second))
    points = tf.tensor_scatter_nd_update(points, first[:, tf.newaxis], composed)
    keep = tf.tensor_scatter_nd_update(
        tf.ones_like(points, tf.bool), second[:, tf.newaxis], tf.zeros_like(second, tf.bool)
    )
    points, starts, rows = (tf.boolean_mask(values, keep) for values in (points, starts, rows))
    return tf.size(second) > 0, points, starts, rows


def _combining(points):
    """Returns the combining classes of code points."""
    known = tf.constant(list(map(ord, marks())), tf.int32)
    place = tf.minimum(tf.searchsorted(known, points), tf.size(known) - 1)
    classes = tf.constant(list(map(unicodedata.combining, marks())), tf.int32)
    return tf.where(tf.gather(known, place) == points, tf.gather(classes, place), 0)


def _is_leader(combining, rows):
    """Returns which characters marks may follow: those without a combining class, and the first of each text."""
    is_first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)
    return (combining == 0) | is_first


def _encode(texts, points, starts):
    """Returns code points as strings, and the offsets of their bytes, from those of their characters in `texts`."""
    encoded = tf.strings.unicode_encode(points, "UTF-8")
    origins = tf.repeat(tf.cast(starts.values, tf.int64), utf8_sizes(points.values))
    return encoded, with_end(origins, encoded, texts)


def utf8_sizes(points):
    """Returns the numbers of bytes of code points."""
    limits = tf.constant([0x7F, 0x7FF, 0xFFFF])
    return 1 + tf.reduce_sum(tf.cast(points[:, tf.newaxis] > limits, tf.int32), 1)


def with_end(origins, changed, texts):
    """Returns the offsets of all bytes of the changed texts as ragged rows, and the ends of the original texts."""
    origins = tf.RaggedTensor.from_row_lengths(origins, _lengths(changed))
    return tf.concat([origins, _lengths(texts)[:, tf.newaxis]], 1)


def unchanged(texts):
    """A stage that does nothing."""
    return texts, tf.ragged.range(_lengths(texts) + 1)


def _lengths(texts):
    return tf.cast(tf.strings.length(texts), tf.int64)


class PreTokenizer:
    """Splits normalized texts, strings `(texts,)`, into words: `Parts` without tokens.

    `values` is the pre-tokenizer in `tokenizer.json`.
    """

    def __init__(self, values: dict):
        self._patterns = list(map(_patterns, pre_tokenizer_steps(values)))

    def __call__(self, texts):
        import tensorflow_text

        splits, words = tf.range(tf.size(texts, tf.int64) + 1), texts
        starts, ends = tf.zeros_like(splits[1:]), tf.cast(tf.strings.length(texts), tf.int64)
        for delimiter, kept in self._patterns:
            found, begin, end = tensorflow_text.regex_split_with_offsets(words, delimiter, kept)
            offset = tf.gather(starts, found.value_rowids())
            splits, words = tf.gather(found.row_splits, splits), found.values
            starts, ends = begin.values + offset, end.values + offset
        return Parts(splits, words, tf.zeros_like(words, tf.bool), tf.zeros([0], tf.int32), starts, ends)


def _patterns(step):
    """Returns the regular expressions of what ends a word, and of what is then a word itself."""
    kind = step["type"]
    if kind == "BertPreTokenizer":
        return rf"[{WHITE_SPACE}]+|[{_PUNCTUATION}]", rf"[{_PUNCTUATION}]"
    if kind == "WhitespaceSplit":
        return rf"[{WHITE_SPACE}]+", ""
    if kind == "Whitespace":
        return rf"[{WHITE_SPACE}]+|[^{_WORD}{WHITE_SPACE}]+", rf"[^{_WORD}{WHITE_SPACE}]+"
    if kind == "Digits":
        return (r"\p{N}" if step.get("individual_digits") else r"\p{N}+",) * 2
    behavior = step.get("behavior", "Isolated")
    return (f"[{_PUNCTUATION}]", "") if behavior == "Removed" else (_BEHAVIORS[behavior],) * 2
