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
    table = {}
    for block in blocks():
        if _is_normal(block):
            continue
        for char in block:
            normal = normalize_character(char, lowercase, strip_accents)
            if normal != char:
                table[char.encode()] = normal.encode()
    for sequence in broken_sequences():
        table[sequence] = b""
    return normalizer_model(table)


def blocks():
    """Yields all code points except surrogates, in blocks of 256."""
    every = np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    for start in range(0, len(every), 256):
        if not 0xD800 <= start < 0xE000:
            yield every[start : start + 256]


def _is_normal(block):
    """Checks quickly that no character of a block can change; testing every character takes seconds."""
    if block != block.lower() or block != unicodedata.normalize("NFD", block):
        return False
    return _CHANGED.isdisjoint(map(unicodedata.category, block))


def broken_sequences():
    """Yields what the kernel treats as a code point in malformed UTF-8: a stray byte or a truncated code point."""
    trail = range(0x80, 0xC0)
    for byte in range(0x80, 0x100):
        yield bytes([byte])
    for lead, second in itertools.product(range(0xE0, 0xF0), trail):
        is_overlong = lead == 0xE0 and second < 0xA0
        is_surrogate = lead == 0xED and second >= 0xA0
        if not is_overlong and not is_surrogate:
            yield bytes([lead, second])
    for lead, second in itertools.product(range(0xF0, 0xF5), trail):
        is_overlong = lead == 0xF0 and second < 0x90
        is_too_large = lead == 0xF4 and second >= 0x90
        if not is_overlong and not is_too_large:
            yield bytes([lead, second])
            for third in trail:
                yield bytes([lead, second, third])


def replace_final_sigma(texts):
    """Lower-cases every capital sigma at the end of a word, without changing the number of bytes."""
    return tf.strings.regex_replace(texts, _final_sigma(), "\\1ς\\2")


@functools.cache
def _final_sigma():
    """Returns a regular expression for a capital sigma at the end of a word.

    It follows a cased letter and does not precede one; accents, apostrophes and characters removed by the clean-up are
    ignored. Python exposes these properties only through `lower()`.
    """
    cased_codes = []
    ignored_codes = []
    # Beyond the first two planes, only the tags and variation selectors are not letters.
    for code in itertools.chain(range(0x20000), range(0xE0000, 0xE0200)):
        char = chr(code)
        if normalize_character(char, False, False) == "":
            ignored_codes.append(code)
            continue
        is_surrogate = 0xD800 <= code < 0xE000
        if is_surrogate or not _is_sigma_final(f"A{char}Σ"):
            continue
        if _is_sigma_final(f"{char}Σ"):
            cased_codes.append(code)
        else:
            ignored_codes.append(code)
    cased = ranges(cased_codes)
    ignored = ranges(ignored_codes)
    return f"([{cased}][{ignored}]*)Σ([{ignored}]*(?:[^{cased}{ignored}]|$))"


def _is_sigma_final(text):
    """Returns whether the capital sigma at the end of a text becomes that of the end of a word."""
    return text.lower().endswith("ς")


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
    pool, codes = _values_and_codes(replacements)
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


def _values_and_codes(replacements):
    """Returns the concatenated values, and the code of each key's value: offset and length."""
    values = bytearray(b"\0")
    code_of_value = {}
    for value in sorted(set(replacements.values())):
        code_of_value[value] = _HAS_STRING | len(values) << 6 | len(value)
        values += value
    return bytes(values), {key: code_of_value[value] for key, value in replacements.items()}


def _double_array(codes):
    """Returns the trie as 32-bit units. Leaves with equal values share a unit; inner nodes never share an offset.

    Children are trail bytes, 0x80 to 0xBF, so a block of 256 units has room for two inner nodes: their own values at
    offsets 0 and 64, under label 0, and their children in the upper half.
    """
    root = _trie(codes)
    # The root is unit 0, its children are the second block, followed by the values of the leaves.
    leaves = {code: 512 + index for index, code in enumerate(dict.fromkeys(codes.values()))}
    units = {0: 256 << 10}
    for code, place in leaves.items():
        units[place] = _VALUE | code
    blocks_of_leaves = -(-len(leaves) // 256)  # Rounded up.
    offsets = _offsets_of_nodes(512 + 256 * blocks_of_leaves)

    def fill(place, label, node):
        code = node.pop(None, None)
        offset = next(offsets) if node else leaves[code]
        unit = (place ^ offset) << 10 | label
        if code is not None:
            units[offset] = _VALUE | code
            unit |= _HAS_VALUE
        units[place] = unit
        for byte, child in node.items():
            fill(offset ^ byte, byte, child)

    for byte, child in root.items():
        fill(256 ^ byte, byte, child)
    array = np.zeros(max(units) + 256 & ~255, np.uint32)
    array[list(units)] = list(units.values())
    return array


def _offsets_of_nodes(first_block):
    """Yields the offsets of inner nodes, two in each block."""
    for block in itertools.count(first_block, 256):
        yield block
        yield block + 64


def _trie(codes):
    """Returns the keys as nested dicts by byte; a node has the code of its key as the value of `None`."""
    root = {}
    for key, code in codes.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = code
    return root
