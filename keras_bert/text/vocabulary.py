"""A WordPiece vocabulary: read, checked, written. Free of TensorFlow."""

import json
import pathlib
import re

LONGEST_WORD = 200  # In characters after normalization; a longer word is [UNK].
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
        self._ids = {}
        self._check()

    def _check(self):
        if not self.pieces:
            raise ValueError(f"{self.source}: the vocabulary is empty. Expected one piece a line")
        for index, piece in enumerate(self.pieces):
            if not isinstance(piece, str):
                raise ValueError(f"{self._place(index)}: a piece must be a string. Received: {piece!r}")
            if piece.strip(" \t\r\n") != piece or not piece:
                raise ValueError(f"{self._place(index)}: a piece has no white space around it. Received: {piece!r}")
            if "\0" in piece:
                # The kernel's trie ends a piece there. Other control characters can stand in no text, but do no harm.
                raise ValueError(
                    f"{self._place(index)}: a piece must have no NUL character, which no text has after clean-up. "
                    f"Received: {piece!r}. Put [unused...] in its place to keep all ids"
                )
            if self._ids.setdefault(piece, index) != index:
                raise ValueError(
                    f"{self._place(index)}: the piece {piece!r} stands twice, first at {self._place(self._ids[piece])}"
                )
        for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]"):
            self._check_special(piece)
        if self._ids["[PAD]"] != 0:
            raise ValueError(
                f"{self._place(self._ids['[PAD]'])}: [PAD] must be the first piece, since BERT pads with id 0. "
                "The pieces are out of order: take the file as it came with the checkpoint"
            )

    def _check_special(self, piece):
        if piece in self._ids:
            return
        found = next((other for other in self.pieces if other.lower() == piece.lower()), None)
        hint = f"; {self._place(self._ids[found])} has {found!r} instead: take an unaltered copy" if found else ""
        raise ValueError(
            f"{self.source}: the vocabulary lacks {piece}{hint}. Expected a BERT vocabulary with [PAD], [UNK], [CLS] "
            "and [SEP]"
        )

    def _place(self, index):
        return f"{self.source}:{index + 1}" if self.source.endswith(".txt") else f"{self.source}, id {index}"

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
    def goes_on(self):
        """Whether each piece goes on a word, `##ing`: a list of bools by id."""
        return [piece.startswith("##") for piece in self.pieces]

    @property
    def cased(self):
        """Whether any piece, special tokens aside, has a capital letter."""
        return any(piece != piece.lower() and not is_special(piece) for piece in self.pieces)

    def save(self, path):
        """Writes `vocab.txt`: one piece a line, UTF-8."""
        pathlib.Path(path).write_bytes("".join(f"{piece}\n" for piece in self.pieces).encode())


def _read(path):
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such vocabulary file")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: a vocabulary must be UTF-8. Received: {error.object[error.start :][:8]!r}"
        ) from None
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


def is_special(piece):
    """Whether a piece is no text: `[CLS]`, `[unused1]` and the like."""
    return bool(_SPECIAL.fullmatch(piece))
