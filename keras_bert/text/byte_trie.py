"""Serializes a byte-string map into the flat buffer of tf-text's normalizer, whose builder supports only its own map.

The kernel walks a double-array trie over the bytes of one code point: the child of the unit at `place` for byte `label`
is at `place ^ offset ^ label`, and exists if the unit there has that label.
"""

import itertools

import flatbuffers
import numpy as np

_HAS_VALUE = 1 << 8
_CHANGED = 1 << 30
_VALUE = 1 << 31


def normalizer_model(replacements: dict):
    """Returns the `model_buffer` of a `tensorflow_text.FastBertNormalizer` that replaces each key by its value.

    Keys are the UTF-8 bytes of one code point (or of a malformed one), values are bytes.
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
        codes[value] = _CHANGED | len(pool) << 6 | len(value)
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
