"""The characters in which GPT-2's vocabularies write bytes, so that each piece is a string without white space.

Printable characters of Latin-1 stand for their own byte, the others follow from U+0100 on: a space is "Ġ".
"""

_OWN = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))


def _characters():
    """Returns the character of each byte."""
    characters = []
    others = 0
    for byte in range(256):
        if byte in _OWN:
            characters.append(chr(byte))
        else:
            characters.append(chr(256 + others))
            others += 1
    return characters


CHARACTERS = _characters()  # By byte.
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
        added -= set(CHARACTERS)
        added -= {line.replace(" ", "") for line in vocabulary.merges}
    bytes_of_pieces = []
    for piece in pieces:
        if piece in added:
            bytes_of_pieces.append(piece.encode())
        else:
            bytes_of_pieces.append(content(piece))
    return bytes_of_pieces
