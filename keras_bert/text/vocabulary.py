"""A WordPiece vocabulary: read, checked, written. Free of TensorFlow."""

import json
import pathlib
import re

_SPECIAL = re.compile(r"\[\w+\]|<\w+>")  # [CLS], [unused1]; the Chinese vocabulary has <S> and <T>


class Vocabulary:
    """The pieces of a BERT vocabulary in the order of their ids.

    Args:
        pieces: a path to `vocab.txt` or `tokenizer.json`, a list of strings, or a `Vocabulary`.

    Example:
        vocabulary = Vocabulary("vocab.txt")
        vocabulary.ids(["[CLS]", "hello", "[SEP]"])
    """

    def __init__(self, pieces):
        self.source = "the list of pieces"
        if isinstance(pieces, Vocabulary):
            self.source, pieces = pieces.source, pieces.pieces
        elif isinstance(pieces, str | pathlib.Path):
            self.source, pieces = str(pieces), _read(pathlib.Path(pieces))
        self.pieces = tuple(pieces)
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}
        self._check()

    def _check(self):
        if not self.pieces:
            raise ValueError(f"{self.source}: the vocabulary is empty. Expected one piece a line")
        for index, piece in enumerate(self.pieces):
            if not isinstance(piece, str):
                raise ValueError(f"{self.source}: a piece must be a string. Received: {piece!r} at id {index}")
            if self._ids[piece] != index:
                raise ValueError(
                    f"{self.source}: the piece {piece!r} stands twice, at ids {index} and {self._ids[piece]}"
                )
        missing = [piece for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if piece not in self._ids]
        if missing:
            raise ValueError(
                f"{self.source}: the vocabulary lacks {', '.join(missing)}. Expected a BERT vocabulary with "
                "[PAD], [UNK], [CLS] and [SEP]"
            )

    def __len__(self):
        return len(self.pieces)

    def __contains__(self, piece):
        return piece in self._ids

    def __eq__(self, other):
        return isinstance(other, Vocabulary) and self.pieces == other.pieces

    def __hash__(self):
        return hash(self.pieces)

    def __repr__(self):
        return f"Vocabulary({len(self)} pieces of {self.source})"

    def id(self, piece):
        """The id of one piece; an error when it is not there."""
        if piece not in self._ids:
            raise ValueError(f"{self.source}: the vocabulary has no piece {piece!r}")
        return self._ids[piece]

    def ids(self, pieces):
        """The ids of a list of pieces."""
        return [self.id(piece) for piece in pieces]

    @property
    def cased(self):
        """Whether any piece, special tokens aside, has a capital letter."""
        return any(piece != piece.lower() and not _SPECIAL.fullmatch(piece) for piece in self.pieces)

    def save(self, path):
        """Writes `vocab.txt`: one piece a line, UTF-8."""
        for piece in self.pieces:
            if "\n" in piece:
                raise ValueError(f"a piece with a line break cannot be written to vocab.txt. Received: {piece!r}")
        pathlib.Path(path).write_bytes("".join(f"{piece}\n" for piece in self.pieces).encode())


def _read(path):
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such vocabulary file")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: a vocabulary must be UTF-8: {error}") from None
    if path.suffix == ".json":
        return _read_tokenizer_json(path, text)
    # Not splitlines(): pieces such as U+2028 stand in the multilingual vocabulary.
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    pieces = [line.removesuffix("\r") for line in lines]
    for number, piece in enumerate(pieces, 1):
        if piece == "":
            raise ValueError(f"{path}:{number}: the line is empty. Expected one piece a line")
    return pieces


def _read_tokenizer_json(path, text):
    """The vocabulary of Hugging Face's `tokenizer.json`, added tokens included."""
    try:
        content = json.loads(text)
        model, added = content["model"], content.get("added_tokens", [])
        kind, vocabulary = model.get("type", "WordPiece"), dict(model["vocab"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not a tokenizer.json with a `model.vocab` table") from None
    if kind != "WordPiece":
        raise ValueError(f"{path}: expected a WordPiece tokenizer. Received: model.type={kind}")
    vocabulary.update({token["content"]: token["id"] for token in added})
    pieces = sorted(vocabulary, key=vocabulary.get)
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise ValueError(f"{path}: the ids of the vocabulary have gaps. Expected 0 to {len(pieces) - 1}")
    return pieces
