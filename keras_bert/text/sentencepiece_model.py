"""SentencePiece's model, a protocol buffer: reading the files of Unigram vocabularies, writing what its op takes."""

import base64
import binascii
import struct

import numpy as np

from keras_bert.text.tokenizer_steps import unigram_steps
from keras_bert.wire_format import fields, message

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # Fields of `ModelProto`.
_TEXT, _SCORE, _TYPE = 1, 2, 3  # Of `SentencePiece`.
_MODEL_TYPE, _BYTE_FALLBACK = 3, 35  # Of `TrainerSpec`.
_UNKNOWN_ID, _NO_IDS = 40, (41, 42, 43)
_TABLE, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE = 2, 3, 4, 5  # Of `NormalizerSpec`.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_WHOLE = _CONTROL, _USER_DEFINED  # Types of added tokens.
_UNIGRAM, _MERGES = 1, 2  # Types of models.
_NOBODY = 2**64 - 1  # -1
_NO_CHANGES = struct.pack("<I", 1024) + bytes(1024) + b"\0"  # A table of 256 units and an empty string.
_UNKNOWN_TEXT = "\U0010fffd"
_LEAF = 1 << 31
_LARGEST = float(np.finfo(np.float32).max)
_MOST_PREFIXES, _LONGEST_KEY = 32, 1024  # Of a table: keys that start a text, bytes.
# The special tokens of a class of transformers, and the number of pieces that they replace.
_FIRST = {
    "XLMRoberta": (("<s>", "<pad>", "</s>", "<unk>"), 3),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
_METASPACE = {"replacement": "▁", "prepend_scheme": "always", "split": True}


def read(path):
    """Returns the pieces of a `.model`, tuples of text, score and type, and the table of characters."""
    try:
        return _parsed(path.read_bytes())
    except (ValueError, IndexError, TypeError, struct.error) as error:  # TypeError: a number, no message.
        raise ValueError(f"{path}: not a model of SentencePiece that is supported: {error}") from None


def _parsed(content):
    pieces, trainer, normalizer = [], {}, {}
    for number, value in fields(content):
        if number == _PIECES:
            pieces.append(_piece(dict(fields(value))))
        elif number in (_TRAINER, _NORMALIZER):
            (trainer if number == _TRAINER else normalizer).update(fields(value))
    _check(pieces, trainer, normalizer)
    return pieces, base64.b64encode(normalizer.get(_TABLE, b"")).decode()


def _piece(values):
    (score,) = struct.unpack("<f", values.get(_SCORE, b"\0\0\0\0"))
    return values[_TEXT].decode() if _TEXT in values else "", score, values.get(_TYPE, _NORMAL)


def _check(pieces, trainer, normalizer):
    kinds = [kind for _, _, kind in pieces]
    if not set(kinds) <= {_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED} or kinds.count(_UNKNOWN) != 1:
        raise ValueError("expected normal pieces, one unknown and control ones")
    if trainer.get(_MODEL_TYPE, _UNIGRAM) != _UNIGRAM or trainer.get(_BYTE_FALLBACK):
        raise ValueError("expected model_type UNIGRAM without byte_fallback")
    if not all(normalizer.get(field, 1) for field in (_DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE)):
        raise ValueError("expected add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces")


def to_tokenizer_json(path, name: str):
    """Returns the content of the `tokenizer.json` into which transformers converts a `.model`.

    The class `name` of the tokenizer has its own special tokens before the pieces, and a mask after.
    """
    pieces, table = read(path)
    if name not in _FIRST or _UNKNOWN not in [kind for _, _, kind in pieces[:3]]:
        raise ValueError(
            f"{path}: the ids of {name}Tokenizer are not in this file. Expected a tokenizer.json beside it: save the "
            "tokenizer with transformers, which writes one"
        )
    special, replaced = _FIRST[name]
    kept = pieces[replaced:]
    vocabulary = [*((text, 0.0) for text in special), *((text, score) for text, score, _ in kept), ("<mask>", 0.0)]
    places = {text: index for index, (text, _) in enumerate(vocabulary)}
    words = [{"type": "WhitespaceSplit"}, {"type": "Metaspace", **_METASPACE}]
    added = [(text, kind == _CONTROL) for text, _, kind in kept if kind in _WHOLE]
    added = [*((text, True) for text in special), *added, ("<mask>", True)]
    return {
        "added_tokens": [
            {"id": places[text], "content": text, "normalized": False, "special": special} for text, special in added
        ],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "post_processor": {"type": "RobertaProcessing", "cls": ["<s>", places["<s>"]], "sep": ["</s>", places["</s>"]]},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": list(map(list, vocabulary))},
    }


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
    normalizer += [(field, 1) for field in (_DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE)]
    return _model(pieces, vocabulary.unigram["scores"], unknown, _UNIGRAM, normalizer)


def serialized_merges(pieces, scores):
    """Returns a model that joins the two neighbors in a text whose string is the piece with the highest score.

    Texts are not normalized. Nothing has the id after the pieces, which is that of unknown characters.
    """
    normalizer = [(_TABLE, _NO_CHANGES)]  # Without a table, the op writes a line to the standard error.
    normalizer += [(field, 0) for field in (_DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE)]
    return _model([*pieces, _UNKNOWN_TEXT], [*scores, 0.0], len(pieces), _MERGES, normalizer)


def _model(pieces, scores, unknown, model_type, normalizer):
    """Returns a `ModelProto`; `normalizer` are the fields of its `NormalizerSpec`."""
    content = []
    for index, (text, score) in enumerate(zip(pieces, scores, strict=True)):
        kind = _UNKNOWN if index == unknown else _NORMAL
        content.append((_PIECES, message([(_TEXT, text.encode()), (_SCORE, score), (_TYPE, kind)])))
    trainer = [(_MODEL_TYPE, model_type), (_UNKNOWN_ID, unknown)]
    trainer += [(field, _NOBODY) for field in _NO_IDS]
    return message([*content, (_TRAINER, message(trainer)), (_NORMALIZER, message(normalizer))])


def unchanged(vocabulary, characters):
    """Returns those of the characters that the table of a Unigram `Vocabulary` leaves as they are."""
    _, table = unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
    units, offsets, _ = _table(base64.b64decode(table))
    return [char for char in characters if not len(units) or not _has_key(units, offsets, char.encode())]


def _has_key(units, offsets, key):
    place = offsets[0]
    for byte in key:
        place ^= byte
        if units[place] & (_LEAF | 255) != byte:
            return False
        is_key, place = units[place] & 256, place ^ offsets[place]
    return bool(is_key)


def check(vocabulary):
    """Raises if a Unigram vocabulary is none that SentencePiece's op takes."""
    scores, pieces = vocabulary.unigram.get("scores"), vocabulary.pieces
    if unknown := set(vocabulary.unigram) - {"scores"}:
        raise ValueError(f"{vocabulary.source}: `unigram` has no key {min(unknown)!r}")
    numbers = isinstance(scores, list | tuple) and all(
        type(score) is float and abs(score) <= _LARGEST for score in scores
    )
    if not numbers or len(scores) != len(pieces):
        raise ValueError(
            f"{vocabulary.source}: `scores` of Unigram must be a finite float of 32 bits for each of the "
            f"{len(pieces)} pieces. Received: {scores!r:.60}"
        )
    # BERT's name of a special token must not be another piece.
    is_wrong = any(not piece or "\0" in piece or pieces[vocabulary.id(piece)] != piece for piece in pieces)
    if len(set(pieces)) != len(pieces) or is_wrong:
        raise ValueError(f"{vocabulary.source}: pieces of Unigram must differ, be non-empty and without NUL")
    _, table = unigram_steps(vocabulary.normalizer, vocabulary.pre_tokenizer)
    try:
        _check_table(base64.b64decode(table, validate=True))
    except (binascii.Error, struct.error, ValueError, IndexError) as error:
        raise ValueError(f"{vocabulary.source}: `precompiled_charsmap` is damaged: {error}") from None


def _table(content):
    """Returns the units of a table, the offsets in them, and its strings.

    The table is a double-array trie and strings that end in NUL. The children of a unit are around its base,
    `place ^ offset`: the one for a byte at `base ^ byte`. At the base of a unit with a string is the string's place.
    """
    (size,) = struct.unpack_from("<I", content) if content else (0,)
    units = np.frombuffer(content[4 : 4 + size], "<u4").astype(np.int64)
    return units, (units >> 10) << ((units & 512) >> 6), content[4 + size :]


def _check_table(content):
    """Raises if SentencePiece, which follows a table without a check, could read outside of it."""
    units, offsets, strings = _table(content)
    if content and (not len(units) or len(units) % 256 or strings[-1:] != b"\0"):
        raise ValueError("it has no end")
    bases = np.arange(len(units)) ^ offsets
    followed = units < _LEAF
    followed[:1] = True  # The root, whatever it is.
    with_string = followed & (units & 256 > 0)
    outside = (bases[followed] | 255 >= len(units)).any()
    if outside or ((units[bases[with_string]] & _LEAF - 1) >= len(strings)).any():
        raise ValueError("it points outside of itself")
    _check_prefixes(units, bases)


def _check_prefixes(units, bases):
    """Raises if a text could start with more keys of a table than SentencePiece has room for, such as in a circle."""
    parents = np.arange(len(units)) ^ units & 255  # The base that has a unit among its children.
    counts = np.full(len(units), -1)  # By base: how many keys are on the way to it, at most.
    counts[bases[:1]] = 0
    for _ in range(_LONGEST_KEY):
        reached = np.flatnonzero((units < _LEAF) & (counts[parents] >= 0))
        before = counts.copy()
        np.maximum.at(counts, bases[reached], before[parents[reached]] + (units[reached] >> 8 & 1))
        if counts.max(initial=0) > _MOST_PREFIXES:
            break
        if (counts == before).all():
            return
    raise ValueError("its keys are too long")
