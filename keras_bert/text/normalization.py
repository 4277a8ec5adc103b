"""The normalization of Google's tokenizer as a map from code points to strings.

Clean-up, lower-casing and accent stripping process one code point at a time, except for a capital sigma at the end of
a word. tf-text's kernel applies such a table at the speed of a copy and tracks offsets, but its default table applies
NFKC, unlike Google's program. Character properties come from Python's `unicodedata`, as in Google's program.
"""

import functools
import itertools
import sys
import unicodedata

import flatbuffers
import numpy as np
import tensorflow as tf

_CHANGED = {"Zs", "Zl", "Zp", "Cc", "Cf", "Mn"}
# Bits of the units and codes of tf-text's tables.
_HAS_VALUE = 1 << 8
_HAS_STRING = 1 << 30
_VALUE = 1 << 31


def normalize_character(char, lowercase, strip_accents):
    """Returns the normal form of one character (a capital sigma counts as inside a word)."""
    category = unicodedata.category(char)
    if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
        return " "
    if char == "\ufffd" or category in ("Cc", "Cf"):
        return ""
    if lowercase:
        char = char.lower()
    if strip_accents:
        # Differs from BERT: marks are not sorted canonically. This matters only where two of the 25 spacing marks meet.
        char = "".join(part for part in unicodedata.normalize("NFD", char) if unicodedata.category(part) != "Mn")
    return char


@functools.cache
def model(lowercase, strip_accents):
    """Returns the `normalizer_model` for one type of vocabulary."""
    changed = {}
    for char in itertools.chain.from_iterable(itertools.filterfalse(_is_normal, blocks())):
        normal = normalize_character(char, lowercase, strip_accents)
        if normal != char:
            changed[char.encode()] = normal.encode()
    return normalizer_model(changed | dict.fromkeys(broken_sequences(), b""))


def blocks():
    """Yields all code points except surrogates, in blocks of 256."""
    every = np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    return (every[start : start + 256] for start in range(0, len(every), 256) if not 0xD800 <= start < 0xE000)


def _is_normal(block):
    """Checks quickly that no character of a block can change; testing every character takes seconds."""
    plain = block == block.lower() == unicodedata.normalize("NFD", block)
    return plain and _CHANGED.isdisjoint(map(unicodedata.category, block))


def broken_sequences():
    """Yields what the kernel treats as a code point in malformed UTF-8: a stray byte or a truncated code point."""
    trail = range(0x80, 0xC0)
    for byte in range(0x80, 0x100):
        yield bytes([byte])
    for lead, second in itertools.product(range(0xE0, 0xF0), trail):
        if not (lead == 0xE0 and second < 0xA0) and not (lead == 0xED and second >= 0xA0):
            yield bytes([lead, second])
    for lead, second in itertools.product(range(0xF0, 0xF5), trail):
        if not (lead == 0xF0 and second < 0x90) and not (lead == 0xF4 and second >= 0x90):
            yield bytes([lead, second])
            yield from (bytes([lead, second, third]) for third in trail)


def replace_final_sigma(texts):
    """Lower-cases every capital sigma at the end of a word, without changing the number of bytes."""
    return tf.strings.regex_replace(texts, _final_sigma(), "\\1ς\\2")


@functools.cache
def _final_sigma():
    """Returns a regular expression for a capital sigma at the end of a word.

    It follows a cased letter and does not precede one; accents, apostrophes and characters removed by the clean-up are
    ignored. Python exposes these properties only through `lower()`.
    """
    cased, ignored = [], []
    # Beyond the first two planes, only the tags and variation selectors are not letters.
    for code in itertools.chain(range(0x20000), range(0xE0000, 0xE0200)):
        char = chr(code)
        if normalize_character(char, False, False) == "":
            ignored.append(code)
        elif not 0xD800 <= code < 0xE000 and f"A{char}Σ".lower()[-1] == "ς":
            (cased if f"{char}Σ".lower()[-1] == "ς" else ignored).append(code)
    cased, ignored = ranges(cased), ranges(ignored)
    return f"([{cased}][{ignored}]*)Σ([{ignored}]*(?:[^{cased}{ignored}]|$))"


def ranges(codes):
    """Formats sorted code points as a regular expression character class, without brackets."""
    runs = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in runs)


def normalizer_model(replacements: dict):
    """Returns the `model_buffer` of a `tensorflow_text.FastBertNormalizer` that replaces each key by its value.

    Keys are the UTF-8 bytes of one code point (or of a malformed one), values are bytes. tf-text's builder supports
    only its own table. The kernel walks a double-array trie over the bytes of one code point: the child of the unit at
    `place` for byte `label` is at `place ^ offset ^ label`, and exists if the unit there has that label.
    """
    pool, codes = _pool(replacements)
    zero = codes.pop(b"\0", 0)
    builder = flatbuffers.Builder(len(pool))
    units = builder.CreateNumpyVector(_double_array(codes))
    strings = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, units, 0)
    builder.PrependInt32Slot(2, zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, strings, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def _pool(replacements):
    """Returns the concatenated values, and the code of each key's value: offset and length."""
    pool, codes = bytearray(b"\0"), {}
    for value in sorted(set(replacements.values())):
        codes[value] = _HAS_STRING | len(pool) << 6 | len(value)
        pool += value
    return bytes(pool), {key: codes[value] for key, value in replacements.items()}


def _double_array(codes):
    """Returns the trie as 32-bit units. Leaves with equal values share a unit; inner nodes never share an offset.

    Children are trail bytes, 0x80 to 0xBF, so a block of 256 units has room for two inner nodes: their own values at
    offsets 0 and 64, under label 0, and their children in the upper half.
    """
    root = {}
    for key, code in codes.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = code
    # The root is unit 0, its children are the second block, followed by the values of the leaves.
    leaves = {code: 512 + index for index, code in enumerate(dict.fromkeys(codes.values()))}
    units = {0: 256 << 10, **{place: _VALUE | code for code, place in leaves.items()}}
    free_blocks = itertools.count(512 + len(leaves) + -len(leaves) % 256, 256)
    offsets = (block + half for block in free_blocks for half in (0, 64))

    def fill(place, label, node):
        code = node.pop(None, None)
        offset = next(offsets) if node else leaves[code]
        if code is not None:
            units[offset] = _VALUE | code
        units[place] = (place ^ offset) << 10 | (_HAS_VALUE if code is not None else 0) | label
        for byte, child in node.items():
            fill(offset ^ byte, byte, child)

    for byte, child in root.items():
        fill(256 ^ byte, byte, child)
    array = np.zeros(max(units) + 256 & ~255, np.uint32)
    array[list(units)] = list(units.values())
    return array
