"""Reads messages of protocol buffers without their definitions."""

import struct

_FIXED = {1: "<Q", 5: "<I"}  # Kinds of fields with 8 and 4 bytes.
_VARINT, _BYTES = 0, 2


def fields(content, *wanted):
    """Yields number and value of the fields of a message.

    Raises a `ValueError` or an `IndexError` if the content is no message.

    Args:
        content: bytes.
        *wanted: numbers of the fields to yield. All if none are given.

    Yields:
        Pairs of an integer and an integer or, for fields with a length, a `memoryview`.
    """
    content, place = memoryview(content), 0
    while place < len(content):
        tag, place = varint(content, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = varint(content, place)
        elif kind == _BYTES:
            size, place = varint(content, place)
            value, place = content[place : place + size], place + size
        elif kind in _FIXED:
            value, place = content[place:], place + struct.calcsize(_FIXED[kind])
            value = struct.unpack_from(_FIXED[kind], value)[0] if place <= len(content) else None
        else:
            raise ValueError(f"a field of kind {kind}")
        if place > len(content):
            raise ValueError("a field beyond the end")
        if not wanted or number in wanted:
            yield number, value


def varint(content, place):
    """Returns the integer at a place, 7 bits per byte, and the place after it."""
    value = shift = 0
    while True:
        byte = content[place]
        place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, place
