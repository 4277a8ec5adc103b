"""WordPiece's vocabularies: `vocab.txt`, `tokenizer.json`, and the classes of transformers that have them."""

import itertools
import logging
import re

from keras_bert.files import replacing
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.pieces import CONTINUATION, check_any, check_special_tokens, check_string, place_of, utf8_text
from keras_bert.text.tokenizer_config import SETTINGS
from keras_bert.text.tokenizer_json import (
    ROBERTA_TEMPLATE,
    STANDARD,
    TEMPLATE,
    AddedToken,
    added_token,
    no_piece,
    pieces_by_id,
    read_template,
    refused_processor,
    roberta_processor,
    template_of,
    template_processor,
    template_values,
    trims_offsets,
)
from keras_bert.text.tokenizer_options import FILE_OPTIONS, LOWERCASE
from keras_bert.text.tokenizer_steps import changes_case, normalizer_steps, pre_tokenizer_steps

VOCABULARY_FILE = "vocab.txt"
WORDS = {"type": "WhitespaceSplit"}  # The pre-tokenizer of texts whose words are separated by white space.
_LOG = logging.getLogger("keras_bert")
_UNMATCHED = re.compile(r"[\s\0\1]")  # Never in a normalized word. `\1` starts the placeholders.
# Classes of transformers with BERT's algorithm. All but DistilBERT's give segment ids to the model.
_BERT_CLASSES = frozenset({"Bert", "DistilBert", "Electra", "MobileBert"})
_JAPANESE = "BertJapanese"  # Splits texts by a dictionary, and each word into pieces.
_WITH_SEGMENTS = (_BERT_CLASSES - {"DistilBert"}) | {_JAPANESE}
_MPNET = "MPNet"  # Has the special tokens of RoBERTa.
_MPNET_TEMPLATE = ("<s>", "</s>", *ROBERTA_TEMPLATE)
_MPNET_TOKENS = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
_DICTIONARIES = ("mecab", "sudachi", "jumanpp")
# Values that a `tokenizer.json` must have; missing keys default to BERT's.
_FIXED = {
    ("model", "type"): "WordPiece",
    ("model", "continuing_subword_prefix"): CONTINUATION,
    ("model", "unk_token"): "[UNK]",
    ("normalizer", "type"): "BertNormalizer",
    ("normalizer", "clean_text"): True,
    ("pre_tokenizer", "type"): "BertPreTokenizer",
}
_IGNORED = (
    "; transformers 5 ignores it with BertTokenizer: to apply it, write "
    '"tokenizer_class": "PreTrainedTokenizerFast" into tokenizer_config.json'
)
_TEMPLATES = (
    "the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or [SEP] [SEP] between A and B, with the ids of the "
    "vocabulary"
)


class WordPiece(Algorithm):
    """WordPiece: pieces that continue a word begin with `##`; the longest one that fits comes first."""

    name = "WordPiece"
    described = "one of WordPiece"
    json_type = "WordPiece"
    files = (VOCABULARY_FILE,)
    written = (VOCABULARY_FILE,)
    classes = _BERT_CLASSES | {_MPNET}
    bert_classes = _BERT_CLASSES
    class_of_model = (("mpnet", f"{_MPNET}Tokenizer"),)
    bert_steps = True

    def read_json(self, path, content, bert_defaults):
        model = content.get("model") if isinstance(content, dict) else None
        if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list) or not model["vocab"]:
            raise ValueError(f"{path}: not a tokenizer.json with a `model.vocab` table")
        content = {**content, "normalizer": _bert_normalizer(content.get("normalizer"))}
        steps = {} if bert_defaults else _other_steps(path, content)
        content |= {name: {} for name in steps}
        _check_fixed(path, content, bert_defaults)
        vocabulary, added = model["vocab"], content.get("added_tokens") or []
        places = pieces_by_id(path, vocabulary, added)
        _check_strips(path, added)
        template = _template(path, content.get("post_processor"), places, bert_defaults)
        # An unassigned id is that of the first of two equal lines of a vocab.txt.
        pieces = [places.get(index, no_piece(index)) for index in range(max(places) + 1)]
        if template == TEMPLATE:  # BERT's special tokens are only recognized in texts on request.
            added = [token for token in added if token["content"] not in STANDARD]
        values = {
            "pieces": pieces,
            "added_tokens": [added_token(token, vocabulary) for token in added],
            **template_values(template, pieces),
            "trim_offsets": trims_offsets(content.get("post_processor")),
            **_stored_options(content),
            **steps,
        }
        if "normalizer" in steps:
            values[LOWERCASE.name] = changes_case(steps["normalizer"])
        return values

    def read_file(self, path, class_name):
        pieces = read_lines(path)
        check_any(pieces, str(path))
        template = TEMPLATE
        tokens = []
        if class_name == _MPNET:
            template = _MPNET_TEMPLATE
            tokens = [AddedToken(name, False, True, True, lstrip=name == "<mask>") for name in _MPNET_TOKENS]
        values = template_values(template, pieces)
        names = {role: name for name, role in values["special_tokens"].items()}
        ids = {names.get(piece, piece): index for index, piece in enumerate(pieces)}
        check_special_tokens(ids, pieces, str(path))
        known = [token for token in tokens if token.content in pieces]
        return {"pieces": pieces, "added_tokens": known, "trim_offsets": class_name == _MPNET, **values}

    def word_class(self, class_name, settings):
        by_dictionary = class_name == _JAPANESE and settings.get("word_tokenizer_type") in _DICTIONARIES
        return by_dictionary and settings.get("subword_tokenizer_type", "wordpiece") == "wordpiece"

    def complete(self, values, config):
        options = _options_of_settings(values, config)
        has_tokens_of_settings = config.class_name in _BERT_CLASSES and config.has_added_tokens
        added = [] if has_tokens_of_settings else values["added_tokens"]
        special = config.special_tokens(values)
        if config.path.name == VOCABULARY_FILE:
            added = config.with_flags(added)
        has_bert_template = not values["special_tokens"] and values["pair_separators"] == 1
        left_out = STANDARD if has_bert_template else ()
        pieces, tokens = config.with_added_tokens(values["pieces"], added, left_out)
        config.check(special)
        recognized = {token.content for token in tokens}
        kept = [content for content in config.kept_special_tokens if content not in recognized]
        tokens += [AddedToken(content, False, True, True) for content in kept]
        has_segments = values["pair_segments"] and config.has_segments(config.class_name in _WITH_SEGMENTS)
        return {
            **values,
            **options,
            "pieces": pieces,
            "added_tokens": tokens,
            "special_tokens": special,
            "pair_segments": has_segments,
        }

    def write_files(self, vocabulary, directory):
        vocabulary.save(directory / VOCABULARY_FILE)

    def json_processor(self, vocabulary):
        template = template_of(vocabulary)
        if template[:3] == TEMPLATE[:3]:
            # That a model gets no segments, such as DistilBERT, is a setting of tokenizer_config.json.
            template = TEMPLATE
        if vocabulary.trim_offsets and template[2:] == ROBERTA_TEMPLATE:
            return roberta_processor(vocabulary)
        return template_processor(vocabulary, template)

    def json_tokens(self, vocabulary):
        tokens = super().json_tokens(vocabulary)
        if not vocabulary.has_bert_template:  # All tokens of such a file are recognized in texts.
            return tokens
        standard = {name: AddedToken(name, False, True, True) for name in STANDARD if name in vocabulary}
        return {**tokens, **standard}

    def json_normalizer(self, vocabulary, lowercase):
        if vocabulary.normalizer is not None:
            return vocabulary.normalizer
        return {"type": "BertNormalizer", "clean_text": True, **_options("normalizer", vocabulary, lowercase)}

    def json_model(self, vocabulary, lowercase):
        hidden = self._numbered_last(vocabulary)
        return {
            "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": CONTINUATION,
                **_options("model", vocabulary, lowercase),
                "vocab": {piece: index for index, piece in enumerate(vocabulary.pieces) if piece not in hidden},
            },
        }

    def _numbered_last(self, vocabulary):
        """Returns the added tokens that need no entry in `model.vocab`: those at the end, unless pieces are repeated.

        The tokenizers library ignores the ids of added tokens, and numbers them from the number of entries on. The
        others are read back with `wordpiece`.
        """
        if len(set(vocabulary.pieces)) < len(vocabulary):
            return set()
        beside = self.tokens_beside_pieces(vocabulary)
        return set(itertools.takewhile(beside.__contains__, reversed(vocabulary.pieces)))

    def check_pieces(self, vocabulary):
        added = {token.content for token in vocabulary.added_tokens}
        for index, piece in enumerate(vocabulary.pieces):
            check_string(piece, index, vocabulary.source)
            if piece not in added and (piece.strip(" \t\r\n") != piece or not piece):
                place = place_of(vocabulary.source, index)
                raise ValueError(f"{place}: a piece must be non-empty and stripped. Received: {piece!r}")

    def check_steps(self, vocabulary):
        if vocabulary.normalizer is not None:
            normalizer_steps(vocabulary.normalizer)
        if vocabulary.pre_tokenizer is not None:
            pre_tokenizer_steps(vocabulary.pre_tokenizer)
        if vocabulary.trim_offsets and template_of(vocabulary)[2:] != ROBERTA_TEMPLATE:
            raise ValueError(
                f"{vocabulary.source}: `trim_offsets` of WordPiece needs pair_separators=2 and pair_segments=False, as "
                "in RoBERTa's post-processor"
            )

    def check_extendable(self, vocabulary):
        pass

    def is_continuation(self, vocabulary):
        return [piece.startswith(CONTINUATION) for piece in vocabulary.pieces]

    def text(self, vocabulary, pieces):
        return " ".join(pieces).replace(f" {CONTINUATION}", "")

    def tokenizer_class(self):
        from keras_bert.text.wordpiece_tokenizer import WordPieceTokenizer

        return WordPieceTokenizer


def read_lines(path):
    """Returns the pieces of a `vocab.txt`."""
    text = utf8_text(path)
    # Not splitlines(): the multilingual vocabulary contains pieces such as U+2028.
    pieces = [line.strip(" \t\r") for line in text.removeprefix("\ufeff").split("\n")]
    while pieces and not pieces[-1]:  # A newline at the end, and blank lines after it.
        pieces.pop()
    if "" in pieces:
        raise ValueError(f"{path}:{pieces.index('') + 1}: the line is empty. Expected one piece per line")
    return pieces


def write_lines(pieces, path):
    """Writes a `vocab.txt`, as a whole or not at all: one piece per line, UTF-8."""
    lines = [f"{piece}\n" for piece in pieces]
    with replacing(path) as temporary:
        temporary.write_bytes("".join(lines).encode())


def matched_pieces(vocabulary):
    """Returns the pieces by id for the kernel, with placeholders for those that it must not match.

    These are the first of two duplicates, added tokens, and pieces with white space, which never match; in the kernel
    they would break words that start like them. A NUL would end a piece there.
    """
    hidden = {token.content for token in vocabulary.added_tokens if not token.wordpiece}
    matched = []
    for index, piece in enumerate(vocabulary.pieces):
        is_first_of_two = vocabulary.id(piece) != index
        if is_first_of_two or piece in hidden or _UNMATCHED.search(piece):
            piece = f"\1{index}"
        matched.append(piece)
    return matched


def _template(path, processor, places, bert_defaults):
    """Returns the template of a `tokenizer.json`; that of a class with BERT's is no other one."""
    if bert_defaults and processor is None:
        return TEMPLATE
    template = read_template(processor, {piece: index for index, piece in places.items()})
    if template is None or (bert_defaults and template != TEMPLATE):
        raise refused_processor(path, _TEMPLATES, processor)
    return template


def _stored_options(content):
    """Returns the options in a `tokenizer.json`."""
    values = {}
    for option in FILE_OPTIONS:
        section, key = option.file
        values[option.name] = (content[section] or {}).get(key, option.if_missing)
    return values


def _options(section, vocabulary, lowercase):
    """Returns the options in a section of the file, as transformers orders them."""
    return {
        option.file[1]: bool(lowercase) if option is LOWERCASE else getattr(vocabulary, option.name)
        for option in reversed(FILE_OPTIONS)
        if option.file[0] == section
    }


def _options_of_settings(values, config):
    """Returns the options that the settings decide, and not the vocabulary's file, `values`."""
    if config.class_name == _JAPANESE:
        return _word_options(config.settings)
    return _applied_options(values, config)


def _word_options(settings):
    """Returns the options of a `BertJapaneseTokenizer` for texts that are split into words."""
    dictionary = settings["word_tokenizer_type"]
    lowercase = bool(settings.get(LOWERCASE.setting))
    composes = (settings.get(f"{dictionary}_kwargs") or {}).get("normalize_text", True)
    steps = []
    if composes:
        steps.append({"type": "NFKC"})
    if lowercase:
        steps.append({"type": "Lowercase"})
    return {
        LOWERCASE.name: lowercase,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": WORDS,
        "max_word_length": 100,
    }


def _applied_options(values, config):
    """Returns the options that replace those of the vocabulary's file, `values`; `tokenizer_files` has a table of them.

    Warns if a value of `tokenizer.json` changes that `tokenizer_config.json` does not name.
    """
    settings = config.settings
    if config.path.name == VOCABULARY_FILE:
        applied = {}
        for option in FILE_OPTIONS:
            applied[option.name] = settings.get(option.setting) if option.setting else option.of_class
        if config.longest_word is not None:
            applied["max_word_length"] = config.longest_word
        return {name: value for name, value in applied.items() if value is not None}
    if config.class_name not in _BERT_CLASSES | {_MPNET}:
        return {}
    # The class always has its own maximum word length, but not in a folder that was not made for transformers.
    options = [option for option in FILE_OPTIONS if config.longest_word is None or option.name != "max_word_length"]
    applied = {option.name: settings.get(option.setting, option.of_class) for option in options}
    unnamed = [option.name for option in options if option.setting not in settings]
    changed = [name for name in unnamed if values[name] not in (applied[name], None)]
    if changed:
        _LOG.warning(
            "%s and the tokenizer's class, %sTokenizer, disagree on %s. The class decides, as in transformers; "
            'for the file\'s settings, write "tokenizer_class": "PreTrainedTokenizerFast" into %s',
            config.path,
            config.class_name,
            ", ".join(f"{name} ({values[name]!r}, {applied[name]!r})" for name in changed),
            SETTINGS,
        )
    return applied


def _check_strips(path, tokens):
    """Stripping white space has no effect, unless another token starts or ends with white space."""
    strips = [token["content"] for token in tokens if token.get("lstrip") or token.get("rstrip")]
    spaced = [token["content"] for token in tokens if token["content"].strip() != token["content"]]
    if strips and spaced:
        raise ValueError(
            f"{path}: added tokens with `lstrip` or `rstrip` are not supported together with tokens that start or end "
            f"with white space. Received: {strips[0]!r} and {spaced[0]!r}"
        )


def _bert_normalizer(values):
    """Returns BERT's normalizer, also of a sequence that changes texts to lower case first, as `do_lower_case` does."""
    parts = (values or {}).get("normalizers") or []
    if [part.get("type") for part in parts] != ["Lowercase", "BertNormalizer"] or values.get("type") != "Sequence":
        return values
    strip_accents = parts[1].get("strip_accents")
    # Only the casing of BERT's own normalizer decides about accents.
    kept = bool(parts[1].get("lowercase")) if strip_accents is None else strip_accents
    return {**parts[1], "lowercase": True, "strip_accents": kept}


def _other_steps(path, content):
    """Returns the normalizer and the pre-tokenizer if they are not BERT's. `None` is a sequence without steps."""
    steps = {}
    for name, key, check in (
        ("normalizer", "normalizers", normalizer_steps),
        ("pre_tokenizer", "pretokenizers", pre_tokenizer_steps),
    ):
        values = {"type": "Sequence", key: []} if content.get(name) is None else content[name]
        bert = {key: value for (part, key), value in _FIXED.items() if part == name}
        if isinstance(values, dict) and bert.items() <= (bert | values).items():
            continue
        try:
            check(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        steps[name] = values
    return steps


def _check_fixed(path, content, bert_defaults):
    for (part, key), expected in _FIXED.items():
        values = content.get(part)
        default = expected if bert_defaults else None
        received = default if values is None else values.get(key, expected)
        if received != expected:
            raise ValueError(
                f"{path}: not BERT's tokenizer: expected {part}.{key}={expected!r}. Received: "
                + (f"{part}=null" if values is None else f"{part}.{key}={received!r}")
                + ("" if part == "model" else _IGNORED)
            )
