"""Protocol buffers, beside messages whose bytes the format's documentation gives."""

import struct

import pytest

from keras_bert import wire_format


def test_the_example_of_the_documentation():
    """`Test1 { a: 150 }` is 08 96 01, and `Test2 { b: "testing" }` 12 07 and the string."""
    assert wire_format.message([(1, 150)]) == bytes.fromhex("089601")
    assert wire_format.message([(2, b"testing")]) == bytes.fromhex("120774657374696e67")
    assert list(wire_format.fields(bytes.fromhex("089601120774657374696e67"))) == [(1, 150), (2, b"testing")]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1])
def test_integers(value):
    content = wire_format.message([(5, value)])
    assert list(wire_format.fields(content)) == [(5, value)]
    assert wire_format.varint(content, 1) == (value, len(content))


def test_floats_are_fixed():
    content = wire_format.message([(3, 0.5)])
    assert content == bytes([3 << 3 | 5]) + struct.pack("<f", 0.5)
    assert list(wire_format.fields(content)) == [(3, struct.pack("<f", 0.5))]


def test_fields_with_large_numbers_and_none():
    content = wire_format.message([(1000, b""), (1, 0)])
    assert list(wire_format.fields(content)) == [(1000, b""), (1, 0)]
    assert list(wire_format.fields(b"")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x12\x07test", "a field beyond the end"),
        (b"\x0b", "a field of wire type 3"),
        (b"\x08" + b"\xff" * 10, "an integer of more than 64 bits"),
    ],
)
def test_no_messages(content, message):
    with pytest.raises(ValueError, match=message):
        list(wire_format.fields(content))
