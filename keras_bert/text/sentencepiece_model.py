"""SentencePiece's model, a protocol buffer: reading the files of Unigram vocabularies, writing what its op takes."""

import base64
import binascii
import struct
from typing import NamedTuple

import numpy as np

from keras_bert.text.tokenizer_steps import unigram_steps
from keras_bert.wire_format import fields, message

# Fields of `ModelProto`.
_PIECES = 1
_TRAINER = 2
_NORMALIZER = 3
# Of `SentencePiece`.
_TEXT = 1
_SCORE = 2
_TYPE = 3
# Of `TrainerSpec`.
_MODEL_TYPE = 3
_BYTE_FALLBACK = 35
_UNKNOWN_ID = 40
_NO_IDS = (41, 42, 43)  # Of tokens at the ends and of padding.
# Of `NormalizerSpec`.
_TABLE = 2
_DUMMY_PREFIX = 3
_REMOVE_SPACES = 4
_ESCAPE = 5
_OF_SPACES = (_DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE)
# Types of pieces.
_NORMAL = 1
_UNKNOWN = 2
_CONTROL = 3
_USER_DEFINED = 4
_WHOLE = (_CONTROL, _USER_DEFINED)  # Those of added tokens.
# Types of models.
_UNIGRAM = 1
_MERGES = 2
_NOBODY = 2**64 - 1  # -1
_NO_CHANGES = struct.pack("<I", 1024) + bytes(1024) + b"\0"  # A table of 256 units and an empty string.
_UNKNOWN_TEXT = "\U0010fffd"
_LARGEST = float(np.finfo(np.float32).max)
# Bits of the units of a table.
_LEAF = 1 << 31
_HAS_STRING = 1 << 8
_LABEL = 0xFF
# Limits of a table: keys that start a text, bytes of a key.
_MOST_PREFIXES = 32
_LONGEST_KEY = 1024
# The special tokens of a class of transformers, and the number of pieces that they replace.
_FIRST = {
    "XLMRoberta": (("<s>", "<pad>", "</s>", "<unk>"), 3),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
_ENDS = ("<s>", "</s>")  # Before and after each text.
_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


class _Piece(NamedTuple):
    """A piece of a model of SentencePiece."""

    text: str
    score: float
    type: int


def read(path):
    """Returns the `_Piece`s of a `.model`, and the table of characters."""
    try:
        return _parsed(path.read_bytes())
    except (ValueError, IndexError, TypeError, struct.error) as error:  # TypeError: a number, no message.
        raise ValueError(f"{path}: not a model of SentencePiece that is supported: {error}") from None


def _parsed(content):
    """Returns the same of the bytes of a `ModelProto`."""
    pieces = []
    trainer = {}
    normalizer = {}
    for number, value in fields(content):
        if number == _PIECES:
            pieces.append(_piece(dict(fields(value))))
        elif number == _TRAINER:
            trainer.update(fields(value))
        elif number == _NORMALIZER:
            normalizer.update(fields(value))
    _check_supported(pieces, trainer, normalizer)
    table = normalizer.get(_TABLE, b"")
    return pieces, base64.b64encode(table).decode()


def _piece(values):
    """Returns the `_Piece` of the fields of a `SentencePiece`."""
    (score,) = struct.unpack("<f", values.get(_SCORE, b"\0\0\0\0"))
    text = values[_TEXT].decode() if _TEXT in values else ""
    return _Piece(text, score, values.get(_TYPE, _NORMAL))


def _check_supported(pieces, trainer, normalizer):
    """Raises for a model that splits texts in another way than Unigram of words; the last two are fields by number."""
    types = [piece.type for piece in pieces]
    if not set(types) <= {_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED} or types.count(_UNKNOWN) != 1:
        raise ValueError("expected normal pieces, one unknown and control ones")
    if trainer.get(_MODEL_TYPE, _UNIGRAM) != _UNIGRAM or trainer.get(_BYTE_FALLBACK):
        raise ValueError("expected model_type UNIGRAM without byte_fallback")
    if not all(normalizer.get(field, 1) for field in _OF_SPACES):
        raise ValueError("expected add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces")


def to_tokenizer_json(path, name: str):
    """Returns the content of the `tokenizer.json` into which transformers converts a `.model`.

    The class `name` of the tokenizer has its own special tokens before the pieces, and a mask after.
    """
    pieces, table = read(path)
    if name not in _FIRST or _UNKNOWN not in [piece.type for piece in pieces[:3]]:
        raise ValueError(
            f"{path}: the ids of {name}Tokenizer are not in this file. Expected a tokenizer.json beside it: save the "
            "tokenizer with transformers, which writes one"
        )
    special, replaced = _FIRST[name]
    kept = pieces[replaced:]

    vocabulary = [[text, 0.0] for text in special]
    vocabulary += [[piece.text, piece.score] for piece in kept]
    vocabulary.append(["<mask>", 0.0])
    ids = {text: index for index, (text, _) in enumerate(vocabulary)}
    missing = [text for text in _ENDS if text not in ids]
    if missing:
        raise ValueError(
            f"{path}: the tokens at the ends of a text are missing: {', '.join(missing)}. Expected a model of "
            f"{name}Tokenizer, whose pieces have them"
        )

    added = [_added_entry(text, ids, special=True) for text in special]
    for piece in kept:
        if piece.type in _WHOLE:
            added.append(_added_entry(piece.text, ids, special=piece.type == _CONTROL))
    added.append(_added_entry("<mask>", ids, special=True))
    start, end = _ENDS

    return {
        "added_tokens": added,
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, dict(_METASPACE)]},
        "post_processor": {"type": "RobertaProcessing", "cls": [start, ids[start]], "sep": [end, ids[end]]},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary},
    }


def _added_entry(content, ids, special):
    """Returns the entry of an added token in a `tokenizer.json`."""
    return {"id": ids[content], "content": content, "normalized": False, "special": special}


def serialized(vocabulary):
    """Returns the model of a Unigram `Vocabulary`, with the same ids, as SentencePiece's op takes it."""
    unknown = vocabulary.id("[UNK]")
    hidden = {token.content for token in vocabulary.added_tokens if not token.wordpiece}
    _, table = unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
    pieces = []
    for index, text in enumerate(vocabulary.pieces):
        # A normalized text has no space, so that these match nothing: pieces are parts of words.
        is_no_part = text in hidden or " " in text or "▁" in text[1:]
        pieces.append(f" {index}" if is_no_part else text)
    normalizer = [(_TABLE, base64.b64decode(table))]
    normalizer += [(field, 1) for field in _OF_SPACES]
    scores = vocabulary.unigram["scores"]
    return _model(pieces, scores, unknown=unknown, model_type=_UNIGRAM, normalizer=normalizer)


def serialized_merges(pieces, scores):
    """Returns a model that joins the two neighbors in a text whose string is the piece with the highest score.

    Texts are not normalized. Nothing has the id after the pieces, which is that of unknown characters.
    """
    normalizer = [(_TABLE, _NO_CHANGES)]  # Without a table, the op writes a line to the standard error.
    normalizer += [(field, 0) for field in _OF_SPACES]
    return _model(
        [*pieces, _UNKNOWN_TEXT],
        [*scores, 0.0],
        unknown=len(pieces),
        model_type=_MERGES,
        normalizer=normalizer,
    )


def _model(pieces, scores, unknown, model_type, normalizer):
    """Returns a `ModelProto`; `normalizer` are the fields of its `NormalizerSpec`."""
    content = []
    for index, (text, score) in enumerate(zip(pieces, scores, strict=True)):
        piece_type = _UNKNOWN if index == unknown else _NORMAL
        piece = [(_TEXT, text.encode()), (_SCORE, score), (_TYPE, piece_type)]
        content.append((_PIECES, message(piece)))
    trainer = [(_MODEL_TYPE, model_type), (_UNKNOWN_ID, unknown)]
    trainer += [(field, _NOBODY) for field in _NO_IDS]
    return message([*content, (_TRAINER, message(trainer)), (_NORMALIZER, message(normalizer))])


def unchanged(vocabulary, characters):
    """Returns those of the characters that the table of a Unigram `Vocabulary` leaves as they are."""
    _, encoded = unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
    table = _CharacterTable(base64.b64decode(encoded))
    if not len(table.units):
        return list(characters)
    return [character for character in characters if not table.has_key(character.encode())]


def check(vocabulary):
    """Raises if a Unigram vocabulary is none that SentencePiece's op takes."""
    _check_scores(vocabulary)
    pieces = vocabulary.pieces
    # BERT's name of a special token must not be another piece.
    is_wrong = any(not piece or "\0" in piece or pieces[vocabulary.id(piece)] != piece for piece in pieces)
    if len(set(pieces)) != len(pieces) or is_wrong:
        raise ValueError(f"{vocabulary.source}: pieces of Unigram must differ, be non-empty and without NUL")
    _, encoded = unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
    try:
        _CharacterTable(base64.b64decode(encoded, validate=True)).check()
    except (binascii.Error, struct.error, ValueError, IndexError) as error:
        raise ValueError(f"{vocabulary.source}: `precompiled_charsmap` is damaged: {error}") from None


def _check_scores(vocabulary):
    """Raises unless `unigram` has a score of each piece, and nothing else."""
    unknown = set(vocabulary.unigram) - {"scores"}
    if unknown:
        raise ValueError(f"{vocabulary.source}: `unigram` has no key {min(unknown)!r}")
    scores = vocabulary.unigram.get("scores")
    is_list = isinstance(scores, list | tuple)
    are_floats = is_list and all(type(score) is float for score in scores)
    are_numbers = are_floats and all(abs(score) <= _LARGEST for score in scores)
    if not are_numbers or len(scores) != len(vocabulary.pieces):
        raise ValueError(
            f"{vocabulary.source}: `scores` of Unigram must be a finite float of 32 bits for each of the "
            f"{len(vocabulary.pieces)} pieces. Received: {scores!r:.60}"
        )


class _CharacterTable:
    """The table in a `NormalizerSpec`: strings by characters, or by a few of them, as a double-array trie.

    The children of a unit are around its base, `place ^ offset`: the one for a byte at `base ^ byte`. At the base of a
    unit with a string is the place of the string, which ends in NUL, among all strings.
    """

    def __init__(self, content):
        """Reads the bytes of a table; no bytes are no table."""
        self.content = content
        size = 0
        if content:
            (size,) = struct.unpack_from("<I", content)
        self.units = np.frombuffer(content[4 : 4 + size], "<u4").astype(np.int64)
        self.offsets = (self.units >> 10) << ((self.units & 512) >> 6)
        self.strings = content[4 + size :]

    def has_key(self, key):
        """Returns whether there is a string for some bytes, at least one."""
        base = self.offsets[0]
        for byte in key:
            place = base ^ byte
            unit = self.units[place]
            if unit & (_LEAF | _LABEL) != byte:
                return False
            base = place ^ self.offsets[place]
        return bool(unit & _HAS_STRING)

    def check(self):
        """Raises if SentencePiece, which follows a table without a check, could read outside of it."""
        units = self.units
        if self.content and (not len(units) or len(units) % 256 or self.strings[-1:] != b"\0"):
            raise ValueError("it has no end")
        bases = np.arange(len(units)) ^ self.offsets
        is_followed = units < _LEAF
        is_followed[:1] = True  # The root, whatever it is.
        has_string = is_followed & (units & _HAS_STRING > 0)
        are_children_outside = (bases[is_followed] | 255 >= len(units)).any()
        if are_children_outside:
            raise ValueError("it points outside of itself")
        places_of_strings = units[bases[has_string]] & (_LEAF - 1)
        if (places_of_strings >= len(self.strings)).any():
            raise ValueError("it points outside of itself")
        self._check_prefixes(bases)

    def _check_prefixes(self, bases):
        """Raises if a text could start with more keys than SentencePiece has room for, such as in a circle."""
        units = self.units
        parents = np.arange(len(units)) ^ units & 255  # The base that has a unit among its children.
        counts = np.full(len(units), -1)  # By base: how many keys are on the way to it, at most.
        counts[bases[:1]] = 0
        for _ in range(_LONGEST_KEY):
            reached = np.flatnonzero((units < _LEAF) & (counts[parents] >= 0))
            before = counts.copy()
            has_key = units[reached] >> 8 & 1
            np.maximum.at(counts, bases[reached], before[parents[reached]] + has_key)
            if counts.max(initial=0) > _MOST_PREFIXES:
                break
            if (counts == before).all():
                return
        raise ValueError("its keys are too long")
