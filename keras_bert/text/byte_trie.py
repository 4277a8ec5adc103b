"""A map from byte strings to byte strings as a flat buffer for tf-text's normalizer, which can build only its own map.

The kernel walks a double array over the bytes of one code point: the child of the unit at `place` by byte `label` is at
`place ^ offset ^ label`, and exists if it has that label.
"""

import itertools

import flatbuffers
import numpy as np

_HAS_VALUE = 1 << 8
_CHANGED = 1 << 30
_VALUE = 1 << 31


def normalizer_model(replacements):
    """The `model_buffer` of a `tensorflow_text.FastBertNormalizer` that replaces each key by its value.

    Args:
        replacements: dict of UTF-8 bytes of one code point (or of a broken one) to bytes.
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
    """The concatenated values, and for each key the code of its value: offset and length."""
    pool, codes = bytearray(b"\0"), {}
    for value in sorted(set(replacements.values())):
        codes[value] = _CHANGED | len(pool) << 6 | len(value)
        pool += value
    return bytes(pool), {key: codes[value] for key, value in replacements.items()}


def _double_array(codes):
    """Units of 32 bits. Leaves of equal values share one unit; two inner nodes never share an offset.

    Children are trail bytes, 0x80 to 0xBF, so a block of 256 units takes two inner nodes: their own values at the
    offsets 0 and 64, by label 0, and their children in the upper half.
    """
    root = {}
    for key, code in codes.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = code
    # The root is unit 0, its children are the second block, the leaves' values follow.
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
