"""Normalizers and pre-tokenizers other than BERT's, equal to those of Hugging Face's tokenizers, inside the graph.

Normalizers that treat each character alone are merged into tables of tf-text's kernel, see `normalizer_model`. Only the
canonical order and composition of Unicode's normal forms depend on neighbors: they run on code points, where needed.
"""

import functools
import itertools
import json
import re
import unicodedata

import tensorflow as tf

from keras_bert.text import normalization
from keras_bert.text.code_points import compose, marks, needs_composition, sort_marks, unchanged, with_end
from keras_bert.text.literals import Parts
from keras_bert.text.normalization import normalizer_model
from keras_bert.text.tokenizer_steps import CHINESE, FORMS, normalizer_steps, pre_tokenizer_steps

_WHITE = "\t\n\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_NUL = "\ufdd0"  # In place of the two characters that the kernels treat specially: a noncharacter.
_CLEAN = str.maketrans(dict.fromkeys(_WHITE, " ") | dict.fromkeys(("\ufffd", _NUL)))
_CONTROL = {"Cc", "Cf", "Co"}
_ORDER, _COMPOSE = "order", "compose"

# Of pre-tokenizers: character classes without brackets.
_SPACE = r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
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
    return _kept(json.dumps(values))


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
    """Returns functions of texts that return texts and offsets."""
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
        return rf"[{_SPACE}]+|[{_PUNCTUATION}]", rf"[{_PUNCTUATION}]"
    if kind == "WhitespaceSplit":
        return rf"[{_SPACE}]+", ""
    if kind == "Whitespace":
        return rf"[{_SPACE}]+|[^{_WORD}{_SPACE}]+", rf"[^{_WORD}{_SPACE}]+"
    if kind == "Digits":
        return (r"\p{N}" if step.get("individual_digits") else r"\p{N}+",) * 2
    behavior = step.get("behavior", "Isolated")
    return (f"[{_PUNCTUATION}]", "") if behavior == "Removed" else (_BEHAVIORS[behavior],) * 2
