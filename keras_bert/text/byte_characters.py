"""The characters in which GPT-2's vocabularies write bytes, so that each piece is a string without white space.

Printable characters of Latin-1 stand for their own byte, the others follow from U+0100 on: a space is "Ġ".
"""

_OWN = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
_OTHERS = [byte for byte in range(256) if byte not in _OWN]
CHARACTERS = [chr(byte) if byte in _OWN else chr(256 + _OTHERS.index(byte)) for byte in range(256)]  # By byte.
SPACE = CHARACTERS[ord(" ")]
_BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


def written(content: bytes):
    """Returns the piece that stands for some bytes."""
    return "".join(CHARACTERS[byte] for byte in content)


def content(piece: str):
    """Returns the bytes of a piece; a string with other characters, such as an added token, stands for itself."""
    if not _BYTES.keys() >= set(piece):
        return piece.encode()
    return bytes(_BYTES[character] for character in piece)


def contents(pieces, vocabulary):
    """Returns the bytes of several pieces of a `Vocabulary`, whose added tokens are texts as they stand.

    An added token that is a piece of bytes, too, such as "é", is taken for that piece.
    """
    # Those of ASCII are the same either way.
    added = {token.content for token in vocabulary.added_tokens if not token.content.isascii()}
    if added:
        added -= {*CHARACTERS, *("".join(line.split(" ")) for line in vocabulary.merges)}
    return [piece.encode() if piece in added else content(piece) for piece in pieces]
