"""What the pieces of every vocabulary must be, and those with a meaning of their own. No TensorFlow."""

import re

# Of reversible vocabularies, see `lossless`: the start of a word, and a piece for each byte.
WORD_START = "▁"
BYTES = [chr(0x2800 + byte) for byte in range(256)]
REVERSIBLE = ("[PAD]", "[UNK]", "[START]", "[END]")
CONTINUATION = "##"  # Of WordPiece, at the start of a piece that continues a word.
NEEDED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_SPECIAL = re.compile(r"\[\w+\]|<\w+>")  # [CLS], [unused1]; <S> and <T> in the Chinese vocabulary


def is_special(piece):
    """Returns whether a piece is special, such as `[CLS]` or `[unused1]`."""
    return bool(_SPECIAL.fullmatch(piece))


def place_of(source, index):
    """Returns where a piece stands, for errors."""
    if source.endswith(".txt"):
        return f"{source}:{index + 1}"
    return f"{source}, id {index}"


def check_any(pieces, source):
    """Raises for a vocabulary without pieces."""
    if not pieces:
        raise ValueError(f"{source}: the vocabulary is empty. Expected one piece per line")


def check_string(piece, index, source):
    """Raises for a piece that is no string."""
    if not isinstance(piece, str):
        raise ValueError(f"{place_of(source, index)}: a piece must be a string. Received: {piece!r}")


def check_special_tokens(ids, pieces, source):
    """Raises if a special token has no piece; `ids` are by piece and by name."""
    if ids.keys() >= set(REVERSIBLE):
        return
    missing = [name for name in NEEDED if name not in ids]
    if not missing:
        return
    name = missing[0]
    similar = next((piece for piece in pieces if piece.lower() == name.lower()), None)
    hint = ""
    if similar is not None:
        hint = f"; {place_of(source, ids[similar])} has {similar!r} instead: use an unmodified copy"
    raise ValueError(
        f"{source}: the vocabulary lacks {name}{hint}. Expected a BERT vocabulary with [PAD], [UNK], [CLS] and [SEP]"
    )


def utf8_text(path):
    """Returns the text of a vocabulary's file."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: a vocabulary must be UTF-8. Received: {error.object[error.start :][:8]!r}"
        ) from None
