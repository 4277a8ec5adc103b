"""Byte-level BPE's vocabularies, those of GPT-2 and RoBERTa: `tokenizer.json`, or `vocab.json` with `merges.txt`."""

import json

from keras_bert.files import write_json, write_text
from keras_bert.text import byte_characters, merges
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.byte_level_step import PREFIX, STEP, adds_prefix_space, byte_level_step
from keras_bert.text.pieces import check_string, utf8_text
from keras_bert.text.tokenizer_json import (
    AddedToken,
    added_token,
    check_ids,
    no_piece,
    pieces_by_id,
    read_template,
    refused_processor,
    roberta_processor,
    roberta_template,
    template_of,
    template_processor,
    template_values,
    trims_offsets,
)
from keras_bert.text.tokenizer_steps import flat_steps

PIECES_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
_VERSION = "#version"  # The first line of `merges.txt`.
_TRIM = "trim_offsets"  # A setting of `tokenizer_config.json`.
# Settings of the model in `tokenizer.json`, and the values with which it is GPT-2's, the written one first.
_MODEL = {
    "dropout": (None, 0.0),
    "continuing_subword_prefix": ("", None),
    "end_of_word_suffix": ("", None),
    "ignore_merges": (False,),
}
# Those of unknown bytes, of which there are none.
_OF_UNKNOWN = {"unk_token": None, "fuse_unk": False, "byte_fallback": False}
_ROBERTA = "Roberta"  # A class of transformers.
_UNKNOWN = "<unk>"
_NAMES = ("<s>", "<pad>", "</s>", _UNKNOWN, "<mask>")  # Of the class.
_NOT_ASCII = 0x80  # The first byte that starts no ASCII character.
_TEMPLATES = (
    "the sequences <s> A </s> and <s> A </s> B </s>, or </s> </s> between A and B, with the ids of the vocabulary"
)


class ByteLevelBPE(Algorithm):
    """Byte-pair encoding of the bytes of texts, after GPT-2's split into words: every text has pieces, none is unknown.

    `Vocabulary.merges` has the merges in the order of their ranks, such as "Ġ t", and `pre_tokenizer` whether a text
    gets a space before it. Pieces and merges write bytes as `byte_characters`.
    """

    name = "byte-level BPE"
    described = "one of byte-level BPE"
    json_type = "BPE"
    option = "merges"
    files = (PIECES_FILE, MERGES_FILE)
    written = (PIECES_FILE, MERGES_FILE)
    classes = frozenset({_ROBERTA})
    class_of_model = (("roberta", f"{_ROBERTA}Tokenizer"),)

    # Files

    def read_json(self, path, content, bert_defaults):
        model = content["model"]
        _check_model(path, model)
        _check_steps(path, content)
        added = content.get("added_tokens") or []
        pieces = _pieces(path, model.get("vocab"), added)
        processor = content.get("post_processor")
        template, trims = _template(path, processor, pieces)
        step = byte_level_step(content["pre_tokenizer"])
        _check_prefix(path, processor, step)
        values = {
            "pieces": pieces,
            "merges": [_merge_line(path, merge) for merge in model.get("merges") or ()],
            "added_tokens": [added_token(token, ()) for token in added],
            "pre_tokenizer": step,
            "trim_offsets": trims,
            "lowercase": False,
        }
        unknown = model.get("unk_token") or _unknown(pieces)
        values.update(template_values(template, pieces, unknown))
        return values

    def read_file(self, path, class_name):
        pieces_path = path.with_name(PIECES_FILE)
        merges_path = path.with_name(MERGES_FILE)
        for each in (pieces_path, merges_path):
            if not each.is_file():
                raise FileNotFoundError(f"{each}: expected {PIECES_FILE} and {MERGES_FILE} in one folder")
        try:
            ids = json.loads(utf8_text(pieces_path))
        except ValueError as error:
            raise ValueError(f"{pieces_path}: not a JSON file: {error}") from None
        pieces = _pieces(pieces_path, ids, [])
        names = [name for name in _NAMES if name in ids]
        values = {
            "pieces": pieces,
            "merges": _merge_lines(merges_path),
            "added_tokens": [AddedToken(name, normalized=False, special=True) for name in names],
            "pre_tokenizer": dict(STEP),
            "trim_offsets": True,
            "lowercase": False,
        }
        values.update(template_values(roberta_template(), pieces, _unknown(pieces)))
        return values

    def complete(self, values, config):
        special = config.special_tokens(values)
        config.check(special)
        added = values["added_tokens"]
        if config.path.name == PIECES_FILE:
            added = config.with_flags(added)
        pieces, tokens = config.with_added_tokens(values["pieces"], added, left_out=())
        completed = dict(values)
        completed["pieces"] = pieces
        completed["added_tokens"] = tokens
        completed["special_tokens"] = special
        completed["pair_segments"] = values["pair_segments"] and config.has_segments(False)
        if config.class_name == _ROBERTA:  # The class decides, whatever the file says.
            adds_space = bool(config.settings.get(PREFIX, False))
            completed["pre_tokenizer"] = values["pre_tokenizer"] | {PREFIX: adds_space}
            completed["trim_offsets"] = bool(config.settings.get(_TRIM, True))
        return completed

    def write_files(self, vocabulary, directory):
        ids = {piece: index for index, piece in enumerate(vocabulary.pieces)}
        write_json(directory / PIECES_FILE, ids)
        lines = [f"{_VERSION}: 0.2", *vocabulary.merges]
        write_text(directory / MERGES_FILE, "\n".join(lines) + "\n")

    def json_processor(self, vocabulary):
        template = template_of(vocabulary)
        if template.has_form_of_roberta:
            return roberta_processor(vocabulary, adds_prefix_space(vocabulary))
        trimming = STEP | {"trim_offsets": vocabulary.trim_offsets}
        return {"type": "Sequence", "processors": [trimming, template_processor(vocabulary, template)]}

    def json_pre_tokenizer(self, vocabulary):
        return vocabulary.pre_tokenizer or STEP

    def json_model(self, vocabulary, lowercase):
        model = {"type": self.json_type}
        for name, accepted in _MODEL.items():
            model[name] = accepted[0]
        model.update(_OF_UNKNOWN)
        model["vocab"] = {piece: index for index, piece in enumerate(vocabulary.pieces)}
        model["merges"] = [line.split(" ") for line in vocabulary.merges]
        return {"decoder": STEP | {PREFIX: True}, "model": model}

    # Vocabularies

    def check_pieces(self, vocabulary):
        for index, piece in enumerate(vocabulary.pieces):
            check_string(piece, index, vocabulary.source)
        if len(set(vocabulary.pieces)) < len(vocabulary):
            raise ValueError(f"{vocabulary.source}: pieces of byte-level BPE must differ")
        _check_names(vocabulary)
        merges.check(vocabulary.merges, vocabulary)

    def check_steps(self, vocabulary):
        if vocabulary.normalizer is not None:
            raise ValueError(
                f"{vocabulary.source}: byte-level BPE has no `normalizer`. Received: {vocabulary.normalizer!r:.200}"
            )
        if vocabulary.pre_tokenizer is not None:
            byte_level_step(vocabulary.pre_tokenizer)

    def decided_case(self, vocabulary):
        return False

    def is_continuation(self, vocabulary):
        """Returns by id whether a piece begins with a letter, a digit or a part of a character, not with a space."""
        whole = {token.content for token in vocabulary.added_tokens}
        return [piece not in whole and _continues(piece) for piece in vocabulary.pieces]

    def shown_pieces(self, vocabulary):
        """Returns the texts of pieces, of which words start with a space; parts of characters are U+FFFD."""
        contents = byte_characters.contents(vocabulary.pieces, vocabulary)
        return [content.decode(errors="replace") for content in contents]

    def text(self, vocabulary, pieces):
        return b"".join(byte_characters.contents(pieces, vocabulary)).decode(errors="replace")

    def tokenizer_class(self):
        from keras_bert.text.byte_level_tokenizer import ByteLevelTokenizer

        return ByteLevelTokenizer


def _check_model(path, model):
    """Raises for settings of the model that GPT-2's does not have."""
    for name, expected in _MODEL.items():
        value = model.get(name, expected[0])
        if value not in expected:
            raise ValueError(f"{path}: expected model.{name}={expected[0]!r}. Received: model.{name}={value!r}")


def _check_steps(path, content):
    """Raises for a normalizer, and for other pre-tokenizers than GPT-2's."""
    if flat_steps(content.get("normalizer"), "normalizers"):
        raise ValueError(
            f"{path}: byte-level BPE with a normalizer is not supported. Received: {content['normalizer']!r:.200}"
        )
    try:
        byte_level_step(content.get("pre_tokenizer"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _pieces(path, ids, added):
    """Returns the pieces by id, with placeholders between them: those of the model and the added tokens."""
    if not isinstance(ids, dict) or not ids:
        raise ValueError(f"{path}: expected a table of pieces with their ids. Received: {ids!r:.80}")
    check_ids(path, {index: piece for piece, index in ids.items()})
    places = pieces_by_id(path, ids, added)
    return [places.get(index, no_piece(index)) for index in range(max(places) + 1)]


def _unknown(pieces):
    """Returns the name of the unknown token, which no text has."""
    if _UNKNOWN in pieces:
        return _UNKNOWN
    return "[UNK]"


def _template(path, processor, pieces):
    """Returns the template of a post-processor, and whether it trims places."""
    steps = flat_steps(processor, "processors")
    if len(steps) == 2 and steps[0].get("type") == STEP["type"]:
        trims = bool(steps[0].get("trim_offsets", True))
        template_step = steps[1]
    else:
        template_step = steps[0] if len(steps) == 1 else processor
        trims = trims_offsets(template_step)
    template = read_template(template_step, {piece: index for index, piece in enumerate(pieces)})
    if template is None:
        raise refused_processor(path, _TEMPLATES, template_step)
    return template, trims


def _check_prefix(path, processor, step):
    """Raises for a post-processor of texts with a space before them, if they get none, or the other way round."""
    for part in flat_steps(processor, "processors"):
        adds = part.get(PREFIX, step[PREFIX])
        if trims_offsets(part) and adds != step[PREFIX]:
            raise ValueError(
                f"{path}: {PREFIX} must be that of the pre-tokenizer, {step[PREFIX]}. "
                f"Received: post_processor.{PREFIX}={adds!r}"
            )


def _check_names(vocabulary):
    """Raises for a piece with BERT's name of another special token, and for added tokens that texts cannot have."""
    for name, piece in vocabulary.special_tokens.items():
        if name in vocabulary.pieces and name != piece:
            raise ValueError(
                f"{vocabulary.source}: {name} stands for {piece!r} here, and cannot be another piece. Expected another "
                f"name for it. Received: {name!r} among the pieces"
            )
    for token in vocabulary.added_tokens:
        if not token.content or {"\0", "\1"} & set(token.content):
            raise ValueError(
                f"{vocabulary.source}: an added token must have characters, but neither NUL nor U+0001. "
                f"Received: {token.content!r}"
            )


def _merge_line(path, merge):
    """Returns a merge of a `tokenizer.json`, a string or a list of two, as a string."""
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and all(isinstance(piece, str) for piece in merge):
        return " ".join(merge)
    raise ValueError(f"{path}: a merge must be a string or a list of two. Received: {merge!r:.80}")


def _merge_lines(path):
    """Returns the lines of a `merges.txt`."""
    lines = []
    for number, line in enumerate(utf8_text(path).split("\n")):
        is_version = number == 0 and line.startswith(_VERSION)
        stripped = line.rstrip("\r")
        if stripped and not is_version:
            lines.append(stripped)
    return lines


def _continues(piece):
    """Returns whether a piece begins with a letter, a digit or a part of a character."""
    start = byte_characters.content(piece)[:4]
    first = start.decode(errors="ignore")[:1]
    if not first:  # A part of a character, which is nothing by itself.
        return True
    return first.isalnum() or (start[0] >= _NOT_ASCII and not first.isspace())
