"""The wire format of protocol buffers: messages of TensorFlow and SentencePiece without their libraries."""

import struct

_VARINT, _BYTES, _FIXED = 0, 2, 5  # Wire types.
_SMALL = [bytes([value]) for value in range(128)]


def fields(content):
    """Yields number and value of the fields of a message: integers, or bytes."""
    place = 0
    while place < len(content):
        tag, place = varint(content, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type not in (_VARINT, _BYTES, _FIXED):
            raise ValueError(f"a field of wire type {wire_type}")
        value, place = (4, place) if wire_type == _FIXED else varint(content, place)
        if wire_type != _VARINT:
            begin, place = place, place + value
            value = content[begin:place]
            if place > len(content):
                raise ValueError("a field beyond the end")
        yield number, value


def varint(content, place):
    """Returns the integer at a place, 7 bits per byte, and the place after it."""
    value = shift = 0
    while shift < 70:
        byte = content[place]
        place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, place
    raise ValueError("an integer of more than 64 bits")


def message(values):
    """Returns a message of pairs: the number and value of a field, a natural number, float (of 32 bits) or bytes."""
    return b"".join([_field(number, value) for number, value in values])


def _field(number, value):
    if isinstance(value, float):
        return _to_varint(number << 3 | _FIXED) + struct.pack("<f", value)
    if isinstance(value, bytes):
        return _to_varint(number << 3 | _BYTES) + _to_varint(len(value)) + value
    return _to_varint(number << 3 | _VARINT) + _to_varint(value)


def _to_varint(value):
    if value < 128:
        return _SMALL[value]
    return bytes([value & 127 | 128]) + _to_varint(value >> 7)
