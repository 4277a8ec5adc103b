"""Normalizers and pre-tokenizers other than BERT's, equal to those of Hugging Face's tokenizers, inside the graph.

Normalizers that treat each character alone are merged into tables of tf-text's kernel, see `normalizer_model`. Only the
canonical order and composition of Unicode's normal forms depend on neighbors: they run on code points, where needed.
"""

import functools
import json
import re
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.text import normalization
from keras_bert.text.literals import without_tokens
from keras_bert.text.normalization import normalizer_model, ranges
from keras_bert.text.tokenizer_steps import (
    CHINESE,
    FORMS,
    WHITE_SPACE,
    WIDE_SPACES,
    normalizer_steps,
    pre_tokenizer_steps,
)

_NUL = "\ufdd0"  # In place of the two characters that the kernels treat specially: a noncharacter.
_CLEAN = str.maketrans(dict.fromkeys("\t\n\r \xa0" + WIDE_SPACES, " ") | {"\ufffd": None, _NUL: None})
_CONTROL = {"Cc", "Cf", "Co"}
# Changes that depend on neighbors: the order of marks after a letter, and what composes.
_ORDER = "order"
_COMPOSE = "compose"
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
        changes = []
        for step in normalizer_steps(values):
            changes.extend(_changes(step))
        self._stages = _stages(changes)

    def normalize(self, texts):
        return self.normalize_with_offsets(texts)[0]

    def normalize_with_offsets(self, texts):
        """Returns the texts, and for each byte, and the end, the offset where its character starts in the original."""
        return _in_turn(self._stages, texts)


def sequence_normalizer(values):
    """Returns the `SequenceNormalizer` of a dict; the last ones are kept, since their tables take a second."""
    return _kept(json.dumps(values, allow_nan=False))


@functools.lru_cache(maxsize=8)
def _kept(values):
    return SequenceNormalizer(json.loads(values))


def _in_turn(stages, texts):
    """Applies stages, at least one, see `_stages`; the offsets are those in the given texts."""
    changed, origins = stages[0](texts)
    for stage in stages[1:]:
        changed, offsets = stage(changed)
        origins = _through(origins, offsets)
    return changed, origins


def _through(origins, offsets):
    """Maps offsets in texts to those of the original, `origins`; both ragged int64 `(texts, bytes)`."""
    places = offsets.values + tf.gather(origins.row_starts(), offsets.value_rowids())
    return offsets.with_values(tf.gather(origins.values, places))


class _Replacement(NamedTuple):
    """A change: a string of several characters that is replaced by another."""

    pattern: str
    content: str


def _changes(step):
    """Returns the changes of a step: functions of each character alone, `_ORDER`, `_COMPOSE` or a `_Replacement`."""
    step_type = step["type"]
    if step_type in FORMS:
        of_neighbors = _ORDER if step_type in ("NFD", "NFKD") else _COMPOSE
        return [functools.partial(unicodedata.normalize, step_type), of_neighbors]
    if step_type == "Replace":
        pattern = step["pattern"]["String"]
        content = step["content"]
        if len(pattern) > 1:
            return [_Replacement(pattern, content)]
        return [lambda text: text.replace(pattern, content)]
    if step_type == "BertNormalizer":
        settings = {name: value for name, value in step.items() if name != "type"}
        return _bert_changes(**settings)
    if step_type == "Lowercase":
        return [str.lower]
    if step_type == "StripAccents":
        return [functools.partial(_without, "M")]
    raise NotImplementedError(step_type)  # A row of `tokenizer_steps` without a case here.


def _bert_changes(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True):
    """Returns the changes of a BertNormalizer with these settings."""
    if strip_accents is None:
        strip_accents = lowercase
    changes = []
    if clean_text:
        changes.append(_clean)
    if handle_chinese_chars:
        changes.append(functools.partial(re.compile(CHINESE).sub, r" \1 "))
    if strip_accents:
        changes += [functools.partial(unicodedata.normalize, "NFD"), _ORDER, functools.partial(_without, "Mn")]
    if lowercase:
        changes.append(str.lower)
    return changes


def _clean(text):
    """Unlike Google's program, the library removes private characters too."""
    text = text.translate(_CLEAN)
    if _CONTROL.isdisjoint(map(unicodedata.category, text)):  # Quick, for blocks of characters.
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _CONTROL)


def _without(category, text):
    """Removes the characters of a category, or of those that begin with it."""
    return "".join(char for char in text if not unicodedata.category(char).startswith(category))


def _protect(text):
    """Replaces two characters by one that is in no piece either, and neither white space nor punctuation."""
    return text.replace("\0", _NUL).replace("\1", _NUL)


def _stages(changes):
    """Returns the stages of a normalizer.

    A stage takes strings `(texts,)` and returns them changed, with ragged offsets `(texts, bytes + 1)`: where the
    character of each byte starts in the given text, and its end.
    """
    stages = []
    functions = [_protect]  # Of each character alone, since the last stage.
    for place, change in enumerate(changes):
        if callable(change):
            functions.append(change)
            continue
        if change == _ORDER and _are_marks_removed(changes[place + 1 :]):
            continue
        if functions:
            stages.append(_table(functions))
            functions = []
        stages.append(_stage_of_neighbors(change))
    if functions:
        stages.append(_table(functions))
    return stages


def _are_marks_removed(changes):
    """Returns whether the next changes, those of each character alone, leave nothing of any mark."""
    functions = []
    for change in changes:
        if not callable(change):
            break
        functions.append(change)
    return not any(_apply(functions, mark) for mark in marks())


def _apply(functions, text):
    for function in functions:
        text = function(text)
    return text


def _table(functions):
    """Returns a stage that applies functions to each character alone."""
    import tensorflow_text

    table = {}
    for block in normalization.blocks():
        changed_block = _apply(functions, block)
        if changed_block == block:
            continue
        for char in block:
            # If nothing is left of a block, as of private characters, nothing is left of any.
            changed = _apply(functions, char) if changed_block else ""
            if changed != char:
                table[char.encode()] = changed.encode()
    for sequence in normalization.broken_sequences():
        table[sequence] = b""
    model = normalizer_model(table)
    with tf.init_scope(), tf.device("cpu"):
        kernel = tensorflow_text.FastBertNormalizer(model_buffer=tf.constant(model, tf.uint8))
    return kernel.normalize_with_offsets


def _stage_of_neighbors(change):
    """Returns the stage of a change that is no function of each character."""
    if change == _ORDER:
        return sort_marks
    if change == _COMPOSE:
        return _composition()
    if isinstance(change, _Replacement):
        return functools.partial(_replace, change.pattern, change.content)
    raise NotImplementedError(change)  # A kind of change of `_changes` without a stage here.


def _replace(pattern, content, texts):
    """A stage that replaces a string by another."""
    import tensorflow_text

    escaped = re.escape(pattern)
    parts, starts, _ = tensorflow_text.regex_split_with_offsets(texts, escaped, escaped)
    is_match = parts.values == pattern
    replaced = tf.where(is_match, content, parts.values)
    # All bytes of a replacement have the place where the pattern starts, the others their own.
    places = tf.ragged.range(tf.cast(tf.strings.length(replaced), tf.int64))
    part = places.value_rowids()
    within = tf.where(tf.gather(is_match, part), tf.zeros_like(part), places.values)
    origins = tf.gather(starts.values, part) + within
    changed = tf.strings.reduce_join(parts.with_values(replaced), axis=-1)
    return changed, with_end(origins, changed, texts)


def _composition():
    """Returns a stage that composes texts whose characters are composed."""
    decompose = _table([functools.partial(unicodedata.normalize, "NFD")])
    stages = [decompose, sort_marks, compose]

    def compose_where_needed(texts):
        is_needed = needs_composition(texts)
        return tf.cond(is_needed, lambda: _in_turn(stages, texts), lambda: unchanged(texts))

    return compose_where_needed


@functools.cache
def marks():
    """Returns the characters with a combining class other than 0."""
    return [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char)]


@functools.cache
def _pairs():
    """Returns the pairs of characters that compose, as sorted numbers, and the code points of their composites."""
    composites = {}
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        decomposed = unicodedata.normalize("NFD", char)
        if len(decomposed) > 1 and unicodedata.normalize("NFC", decomposed) == char:
            first = unicodedata.normalize("NFC", decomposed[:-1])
            second = decomposed[-1]
            composites[ord(first) * _PAIR + ord(second)] = point
    keys = sorted(composites)
    return np.array(keys, np.int64), np.array([composites[key] for key in keys], np.int32)


def sort_marks(texts):
    """A stage that sorts the marks after each letter by their combining class."""
    mark = f"[{ranges(map(ord, marks()))}]"
    letter = mark.replace("[", "[^", 1)
    sorted_already = tf.reduce_all(tf.strings.regex_full_match(texts, f"(?:{mark}?{letter})*{mark}?"))
    return tf.cond(sorted_already, lambda: unchanged(texts), lambda: _sort(texts))


def _sort(texts):
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    combining = _combining(points.values)
    letter = tf.cumsum(tf.cast(_is_letter(combining, points.value_rowids()), tf.int64))
    order = tf.argsort(letter * 256 + tf.cast(combining, tf.int64), stable=True)
    # Offsets stay in order, as in the library: marks that change places change their ranges too.
    return _encode(texts, points.with_values(tf.gather(points.values, order)), starts)


def needs_composition(texts):
    """Returns whether any text may have characters that compose."""
    keys, _ = _pairs()
    seconds = {int(key % _PAIR) for key in keys}
    seconds.update(map(ord, marks()))
    return ~tf.reduce_all(tf.strings.regex_full_match(texts, f"[^{ranges(sorted(seconds))}]*"))


class _Characters(NamedTuple):
    """The characters of texts in one line. All fields are `(characters,)`."""

    points: tf.Tensor  # Code points, int32.
    starts: tf.Tensor  # Where each of them starts in its text, int64.
    rows: tf.Tensor  # The text of each, int64.


def compose(texts):
    """A stage that composes decomposed, sorted texts."""
    points, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    decomposed = _Characters(points.values, tf.cast(starts.values, tf.int64), points.value_rowids())
    any_number = tf.TensorShape([None])
    _, composed = tf.while_loop(
        lambda is_changed, _: is_changed,
        lambda _, characters: _compose_once(characters),
        [True, decomposed],
        shape_invariants=[tf.TensorShape([]), _Characters(any_number, any_number, any_number)],
    )
    ragged = tf.RaggedTensor.from_value_rowids(composed.points, composed.rows, points.nrows())
    return _encode(texts, ragged, ragged.with_values(composed.starts))


def _compose_once(characters):
    """Composes the first pair of each letter. Returns whether there was any, and the `_Characters` then.

    The plain form, for one text; its first character counts as a letter, see `_is_letter`:

        changed = set()
        for place in range(1, len(text)):
            letter = max(each for each in letters if each < place)
            is_free = letter == place - 1 or combining[place - 1] < combining[place]
            pair = text[letter], text[place]
            if is_free and pair in composites and letter not in changed:
                text[letter] = composites[pair]
                text[place] = None  # Left out.
                changed.add(letter)

    A mark is free unless another one stands between that is not lower: it would have to change places with it.
    """
    points = characters.points
    rows = characters.rows
    keys, composites = map(tf.constant, _pairs())
    combining = _combining(points)
    letter = _letter_before(combining, rows)
    is_free = _is_free(combining, letter, rows)
    pair = tf.cast(tf.gather(points, letter), tf.int64) * _PAIR + tf.cast(points, tf.int64)
    entry = tf.minimum(tf.searchsorted(keys, pair), tf.size(keys) - 1)
    is_pair = tf.gather(keys, entry) == pair

    candidates = tf.where(is_free & is_pair)[:, 0]
    letters = tf.gather(letter, candidates)
    is_first_of_letter = _is_first(letters)
    first = tf.boolean_mask(letters, is_first_of_letter)
    second = tf.boolean_mask(candidates, is_first_of_letter)

    composed = tf.gather(composites, tf.gather(entry, second))
    new_points = tf.tensor_scatter_nd_update(points, first[:, tf.newaxis], composed)
    none = tf.zeros_like(second, tf.bool)
    is_kept = tf.tensor_scatter_nd_update(tf.ones_like(points, tf.bool), second[:, tf.newaxis], none)
    kept = _Characters(
        points=tf.boolean_mask(new_points, is_kept),
        starts=tf.boolean_mask(characters.starts, is_kept),
        rows=tf.boolean_mask(rows, is_kept),
    )
    return tf.size(second) > 0, kept


def _letter_before(combining, rows):
    """Returns for each character the place of the last letter before it, that of another text for the first ones."""
    is_letter = _is_letter(combining, rows)
    letters = tf.where(is_letter)[:, 0]
    letter_or_itself = tf.gather(letters, tf.cumsum(tf.cast(is_letter, tf.int32)) - 1)
    of_previous = tf.concat([letter_or_itself[:1], letter_or_itself[:-1]], 0)
    return tf.cast(of_previous, tf.int32)


def _is_free(combining, letter, rows):
    """Returns which characters may compose with the letter before them, given its place."""
    place = tf.range(tf.size(combining))
    before = tf.concat([combining[:1], combining[:-1]], 0)
    is_same_text = rows == tf.gather(rows, letter)
    return is_same_text & (place > 0) & ((letter == place - 1) | (before < combining))


def _combining(points):
    """Returns the combining classes of code points."""
    known = tf.constant(list(map(ord, marks())), tf.int32)
    place = tf.minimum(tf.searchsorted(known, points), tf.size(known) - 1)
    classes = tf.constant(list(map(unicodedata.combining, marks())), tf.int32)
    return tf.where(tf.gather(known, place) == points, tf.gather(classes, place), 0)


def _is_letter(combining, rows):
    """Returns which characters marks may follow: those without a combining class, and the first of each text."""
    return (combining == 0) | _is_first(rows)


def _is_first(values):
    """Returns which of some sorted values are another one than that before."""
    return tf.concat([tf.ones_like(values[:1], tf.bool), values[1:] != values[:-1]], 0)


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
    of_bytes = tf.RaggedTensor.from_row_lengths(origins, _lengths(changed))
    return tf.concat([of_bytes, _lengths(texts)[:, tf.newaxis]], 1)


def unchanged(texts):
    """A stage that does nothing."""
    return texts, tf.ragged.range(_lengths(texts) + 1)


def _lengths(texts):
    return tf.cast(tf.strings.length(texts), tf.int64)


class PreTokenizer:
    """Splits normalized texts, strings `(texts,)`, into words: `TextParts` without tokens.

    `values` is the pre-tokenizer in `tokenizer.json`.
    """

    def __init__(self, values: dict):
        self._patterns = [_patterns(step) for step in pre_tokenizer_steps(values)]

    def __call__(self, texts):
        import tensorflow_text

        row_splits = tf.range(tf.size(texts, tf.int64) + 1)
        words = texts
        starts = tf.zeros_like(row_splits[1:])
        ends = tf.cast(tf.strings.length(texts), tf.int64)
        for delimiter, kept in self._patterns:
            split, begin, end = tensorflow_text.regex_split_with_offsets(words, delimiter, kept)
            offset = tf.gather(starts, split.value_rowids())
            row_splits = tf.gather(split.row_splits, row_splits)
            words = split.values
            starts = begin.values + offset
            ends = end.values + offset
        return without_tokens(row_splits, words, starts, ends)


def _patterns(step):
    """Returns the regular expressions of what ends a word, and of what is then a word itself."""
    step_type = step["type"]
    if step_type == "BertPreTokenizer":
        return rf"[{WHITE_SPACE}]+|[{_PUNCTUATION}]", rf"[{_PUNCTUATION}]"
    if step_type == "WhitespaceSplit":
        return rf"[{WHITE_SPACE}]+", ""
    if step_type == "Whitespace":
        return rf"[{WHITE_SPACE}]+|[^{_WORD}{WHITE_SPACE}]+", rf"[^{_WORD}{WHITE_SPACE}]+"
    if step_type == "Digits":
        digits = r"\p{N}" if step.get("individual_digits") else r"\p{N}+"
        return digits, digits
    if step_type == "Punctuation":
        behavior = step.get("behavior", "Isolated")
        if behavior == "Removed":
            return f"[{_PUNCTUATION}]", ""
        return _BEHAVIORS[behavior], _BEHAVIORS[behavior]
    raise NotImplementedError(step_type)  # A row of `tokenizer_steps` without a case here.
