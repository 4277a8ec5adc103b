"""The wire format of protocol buffers: messages of TensorFlow and SentencePiece without their libraries."""

import struct

# Wire types.
_VARINT = 0
_BYTES = 2
_FIXED = 5
_SMALL = [bytes([value]) for value in range(128)]


def fields(content):
    """Yields number and value of the fields of a message: integers, or bytes."""
    place = 0
    while place < len(content):
        tag, place = varint(content, place)
        number = tag >> 3
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, place = varint(content, place)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, place = varint(content, place)
        elif wire_type == _FIXED:
            size = 4
        else:
            raise ValueError(f"a field of wire type {wire_type}")
        end = place + size
        if end > len(content):
            raise ValueError("a field beyond the end")
        yield number, content[place:end]
        place = end


def varint(content, place):
    """Returns the integer at a place, 7 bits per byte, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("an integer of more than 64 bits")


def message(values):
    """Returns a message of pairs: the number and value of a field, a natural number, float (of 32 bits) or bytes."""
    return b"".join(_field(number, value) for number, value in values)


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
