"""Byte-level BPE's vocabularies, those of GPT-2 and RoBERTa: `tokenizer.json`, or `vocab.json` with `merges.txt`."""

import json

from keras_bert.checks import explaining
from keras_bert.files import write_json, write_text
from keras_bert.text import byte_characters, merges
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.byte_level_step import PREFIX, STEP, adds_prefix_space, byte_level_step
from keras_bert.text.pieces import check_string, utf8_text
from keras_bert.text.tokenizer_config import TRIM
from keras_bert.text.tokenizer_json import (
    ROBERTA_TEMPLATE,
    AddedToken,
    added_token,
    check_added_ids,
    check_ids,
    no_piece,
    read_template,
    refused_processor,
    roberta_processor,
    special_tokens,
    template_of,
    template_processor,
    trims_offsets,
)
from keras_bert.text.tokenizer_steps import parts

PIECES_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_VERSION = "#version"  # The first line of `merges.txt`.
# Settings of the model in `tokenizer.json`, and the values with which it is GPT-2's, the written one first.
_MODEL = {
    "dropout": (None, 0.0),
    "unk_token": (None,),
    "continuing_subword_prefix": ("", None),
    "end_of_word_suffix": ("", None),
    "fuse_unk": (False,),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}
_ROBERTA = "Roberta"  # A class of transformers.
_SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
_UNKNOWN = "<unk>"
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

    @explaining
    def read_json(self, path, content, bert_defaults):
        _check_model(path, content["model"])
        _check_steps(path, content)
        added = content.get("added_tokens") or []
        pieces = _pieces(path, content["model"].get("vocab"), added)
        processor = content.get("post_processor")
        template, trims = _template(path, processor, pieces)
        return {
            "pieces": pieces,
            "merges": [_merge_line(path, merge) for merge in content["model"].get("merges") or ()],
            "added_tokens": [added_token(token, ()) for token in added],
            "pre_tokenizer": byte_level_step(content["pre_tokenizer"]),
            "trim_offsets": trims,
            "lowercase": False,
            **_values_of(template, pieces),
        }

    def read_file(self, path, class_name):
        pieces_path, merges_path = path.with_name(PIECES_FILE), path.with_name(MERGES_FILE)
        for each in (pieces_path, merges_path):
            if not each.is_file():
                raise FileNotFoundError(f"{each}: expected {PIECES_FILE} and {MERGES_FILE} in one folder")
        try:
            ids = json.loads(utf8_text(pieces_path))
        except ValueError as error:
            raise ValueError(f"{pieces_path}: not a JSON file: {error}") from None
        pieces = _pieces(pieces_path, ids, [])
        names = [name for name in dict.fromkeys(_SPECIAL.values()) if name in ids]
        return {
            "pieces": pieces,
            "merges": _merge_lines(merges_path),
            "added_tokens": [AddedToken(name, normalized=False, special=True) for name in names],
            "pre_tokenizer": dict(STEP),
            "trim_offsets": True,
            "lowercase": False,
            **_values_of(("<s>", "</s>", *ROBERTA_TEMPLATE), pieces),
        }

    def complete(self, values, config):
        special = config.special_tokens(values)
        config.check(special)
        pieces, tokens = config.with_added_tokens(values["pieces"], values["added_tokens"])
        step = values["pre_tokenizer"]
        trims = values["trim_offsets"]
        if config.class_name == _ROBERTA:  # The class decides, whatever the file says.
            step = {**step, PREFIX: bool(config.settings.get(PREFIX, False))}
            trims = bool(config.settings.get(TRIM, True))
        return {
            **values,
            "pieces": pieces,
            "added_tokens": tokens,
            "special_tokens": special,
            "pre_tokenizer": step,
            "trim_offsets": trims,
            "pair_segments": values["pair_segments"] and config.has_segments(False),
        }

    def write_files(self, vocabulary, directory):
        write_json(directory / PIECES_FILE, {piece: index for index, piece in enumerate(vocabulary.pieces)})
        lines = [f"{_VERSION}: 0.2", *vocabulary.merges]
        write_text(directory / MERGES_FILE, "\n".join(lines) + "\n")

    def json_processor(self, vocabulary):
        template = template_of(vocabulary)
        if template[2:] == ROBERTA_TEMPLATE:
            return roberta_processor(vocabulary, adds_prefix_space(vocabulary))
        trimming = {**STEP, "trim_offsets": vocabulary.trim_offsets}
        return {"type": "Sequence", "processors": [trimming, template_processor(vocabulary, template)]}

    def json_pre_tokenizer(self, vocabulary):
        return vocabulary.pre_tokenizer or STEP

    def json_model(self, vocabulary, lowercase):
        vocab = {piece: index for index, piece in enumerate(vocabulary.pieces)}
        settings = {name: values[0] for name, values in _MODEL.items()}
        pairs = [line.split(" ") for line in vocabulary.merges]
        return {
            "decoder": {**STEP, PREFIX: True},
            "model": {"type": self.json_type, **settings, "vocab": vocab, "merges": pairs},
        }

    # Vocabularies

    def check_pieces(self, vocabulary):
        for index, piece in enumerate(vocabulary.pieces):
            check_string(piece, index, vocabulary.source)
        if len(set(vocabulary.pieces)) < len(vocabulary):
            raise ValueError(f"{vocabulary.source}: pieces of byte-level BPE must differ")
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
    if parts(content.get("normalizer"), "normalizers"):
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
    tokens = {token["content"]: token["id"] for token in added}
    check_added_ids(path, ids, tokens)
    places = {}
    for piece, index in {**ids, **tokens}.items():
        if places.setdefault(index, piece) != piece:
            raise ValueError(
                f"{path}: two pieces have the id {index!r}. Expected one for each id. Received: {places[index]!r} and "
                f"{piece!r}"
            )
    check_ids(path, places)
    return [places.get(index, no_piece(index)) for index in range(max(places) + 1)]


def _template(path, processor, pieces):
    """Returns the template of a post-processor, and whether it trims places."""
    trims = trims_offsets(processor)
    steps = parts(processor, "processors")
    if len(steps) == 2 and steps[0].get("type") == STEP["type"]:
        trims = bool(steps[0].get("trim_offsets", True))
        processor = steps[1]
    template = read_template(processor, {piece: index for index, piece in enumerate(pieces)})
    if template is None:
        raise refused_processor(path, _TEMPLATES, processor)
    return template, trims


def _values_of(template, pieces):
    """Returns the arguments of `Vocabulary` that follow from a template."""
    *_, separators, segments = template
    unknown = _UNKNOWN if _UNKNOWN in pieces else "[UNK]"
    return {
        "special_tokens": special_tokens(template, pieces, unknown),
        "pair_separators": separators,
        "pair_segments": segments,
    }


def _merge_line(path, merge):
    """Returns a merge of a `tokenizer.json`, a string or a list of two, as a string."""
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and all(isinstance(piece, str) for piece in merge):
        return " ".join(merge)
    raise ValueError(f"{path}: a merge must be a string or a list of two. Received: {merge!r:.80}")


def _merge_lines(path):
    """Returns the lines of a `merges.txt`."""
    lines = utf8_text(path).split("\n")
    if lines[0].startswith(_VERSION):
        del lines[0]
    stripped = [line.rstrip("\r") for line in lines]
    return [line for line in stripped if line]


def _continues(piece):
    """Returns whether a piece begins with a letter, a digit or a part of a character."""
    start = byte_characters.content(piece)[:4]
    first = start.decode(errors="ignore")[:1]
    return not first or first.isalnum() or (start[0] >= _NOT_ASCII and not first.isspace())


_NOT_ASCII = 0x80
