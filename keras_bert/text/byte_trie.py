"""A map from byte strings to byte strings as a flat buffer for tf-text's normalizer, which can build only its own map.

The kernel walks a double array over the bytes of one code point: the child of the unit at `place` by byte `label` is at
`place ^ offset ^ label`, and exists if it has that label.
"""

import flatbuffers
import numpy as np

_HAS_VALUE = 1 << 8
_CHANGED = 1 << 30
_VALUE = 1 << 31
_LONGEST = 63


def normalizer_model(replacements):
    """The `model_buffer` of a `tensorflow_text.FastBertNormalizer` that replaces each key by its value.

    Args:
        replacements: dict of UTF-8 bytes of one code point (or of a broken one) to bytes.
    """
    pool, codes = _pool(replacements)
    zero = codes.pop(b"\0", 0)
    builder = flatbuffers.Builder(len(pool))
    units = builder.CreateNumpyVector(_DoubleArray(codes).units)
    strings = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, units, 0)
    builder.PrependInt32Slot(2, zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, strings, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def _pool(replacements):
    """The concatenated values, and for each key the code of its value: offset and length."""
    pool, places = bytearray(b"\0"), {}
    for value in sorted(set(replacements.values()), key=lambda value: (-len(value), value)):
        if len(value) > _LONGEST:
            raise ValueError(f"a replacement has {_LONGEST} bytes at most. Received: {value!r}")
        place = pool.find(value) if len(value) <= 1 else -1
        places[value] = place if place >= 0 else len(pool)
        if place < 0:
            pool += value
    return bytes(pool), {key: _CHANGED | places[value] << 6 | len(value) for key, value in replacements.items()}


class _DoubleArray:
    """Units of 32 bits. Nodes of equal contents share one place; two of different contents never share an offset.

    Children are trail bytes, 0x80 to 0xBF, so a block of 256 units takes the children of two nodes, in its upper half.
    The lower half holds values: label 0, at the offset itself.
    """

    def __init__(self, codes):
        self._values = {}
        self._spare = []
        self._blocks = 2  # The root is unit 0, its children are the second block.
        self._open = None
        self._units = {}
        root = {}
        for key, code in codes.items():
            node = root
            for byte in key:
                node = node.setdefault(byte, {})
            node[None] = code
        self._units[0] = 256 << 10
        for byte, child in root.items():
            self._fill(256 ^ byte, byte, child)
        self.units = np.zeros(256 * self._blocks, np.uint32)
        self.units[list(self._units)] = list(self._units.values())

    def _fill(self, place, label, node):
        code = node.pop(None, None)
        base = self._base() if node else self._value(code)
        if node and code is not None:
            self._units[base] = _VALUE | code
        self._units[place] = (place ^ base) << 10 | (_HAS_VALUE if code is not None else 0) | label
        for byte, child in node.items():
            self._fill(base ^ byte, byte, child)

    def _base(self):
        """An offset whose units for the labels 0 and 0x80 to 0xBF are free."""
        if self._open is not None:
            base, self._open = self._open, None
            return base
        base = 256 * self._blocks
        self._blocks += 1
        self._open = base + 64
        self._spare += [base + unit for unit in range(128) if unit % 64]
        return base

    def _value(self, code):
        """The offset of a node that has this value and no children."""
        if code not in self._values:
            if not self._spare:
                self._spare += range(256 * self._blocks, 256 * self._blocks + 256)
                self._blocks += 1
            self._values[code] = self._spare.pop()
            self._units[self._values[code]] = _VALUE | code
        return self._values[code]
