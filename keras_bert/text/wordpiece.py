"""WordPiece's vocabularies: `vocab.txt`, `tokenizer.json`, and the classes of transformers that have them."""

import dataclasses
import logging
import re

from keras_bert.files import replacing
from keras_bert.text.algorithm import Algorithm
from keras_bert.text.pieces import CONTINUATION, check_any, check_special_tokens, check_string, place_of, utf8_text
from keras_bert.text.tokenizer_config import SETTINGS
from keras_bert.text.tokenizer_json import (
    BERT_TEMPLATE,
    STANDARD,
    AddedToken,
    added_token,
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
_MPNET_TOKENS = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
_DICTIONARIES = ("mecab", "sudachi", "jumanpp")
# Values that the sections of a `tokenizer.json` must have; missing keys default to BERT's.
_FIXED = {
    "model": {"type": "WordPiece", "continuing_subword_prefix": CONTINUATION, "unk_token": "[UNK]"},
    "normalizer": {"type": "BertNormalizer", "clean_text": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
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
        _check_has_pieces(path, content)
        sections = content | {"normalizer": _bert_normalizer(content.get("normalizer"))}
        other_steps = {} if bert_defaults else _other_steps(path, sections)
        # These are kept as they are: for the rest, their sections have BERT's values.
        sections.update({name: {} for name in other_steps})
        _check_fixed(path, sections, bert_defaults)

        vocabulary = content["model"]["vocab"]
        added = content.get("added_tokens") or []
        processor = content.get("post_processor")
        places = pieces_by_id(path, vocabulary, added)
        _check_strips(path, added)
        template = _template(path, processor, places, bert_defaults)
        if template == BERT_TEMPLATE:  # BERT's special tokens are only recognized in texts on request.
            added = [token for token in added if token["content"] not in STANDARD]

        # An unassigned id is that of the first of two equal lines of a vocab.txt.
        pieces = [places.get(index, no_piece(index)) for index in range(max(places) + 1)]
        values = {
            "pieces": pieces,
            "added_tokens": [added_token(token, vocabulary) for token in added],
            "trim_offsets": trims_offsets(processor),
        }
        values.update(template_values(template, pieces))
        values.update(_stored_options(sections))
        values.update(other_steps)
        if "normalizer" in other_steps:
            values[LOWERCASE.name] = changes_case(other_steps["normalizer"])
        return values

    def read_file(self, path, class_name):
        pieces = read_lines(path)
        check_any(pieces, str(path))
        is_mpnets = class_name == _MPNET
        template = roberta_template() if is_mpnets else BERT_TEMPLATE
        values = template_values(template, pieces)
        berts_names = {name: role for role, name in values["special_tokens"].items()}
        ids = {berts_names.get(piece, piece): index for index, piece in enumerate(pieces)}
        check_special_tokens(ids, pieces, str(path))
        values["pieces"] = pieces
        values["added_tokens"] = _mpnet_tokens(pieces) if is_mpnets else []
        values["trim_offsets"] = is_mpnets
        return values

    def word_class(self, class_name, settings):
        if class_name != _JAPANESE or settings.get("word_tokenizer_type") not in _DICTIONARIES:
            return False
        return settings.get("subword_tokenizer_type", "wordpiece") == "wordpiece"

    def complete(self, values, config):
        options = _options_of_settings(values, config)
        special = config.special_tokens(values)
        pieces, tokens = self._with_added_tokens(values, config)
        config.check(special)
        recognized = {token.content for token in tokens}
        for content in config.kept_special_tokens:
            if content not in recognized:
                tokens.append(_special_token(content))
        completed = values | options
        completed["pieces"] = pieces
        completed["added_tokens"] = tokens
        completed["special_tokens"] = special
        has_segments = config.has_segments(config.class_name in _WITH_SEGMENTS)
        completed["pair_segments"] = values["pair_segments"] and has_segments
        return completed

    def _with_added_tokens(self, values, config):
        """Returns the pieces and the added tokens of a vocabulary's file, `values`, with those of the settings."""
        added = values["added_tokens"]
        if config.class_name in _BERT_CLASSES and config.has_added_tokens:
            added = []  # The settings have them all.
        if config.path.name == VOCABULARY_FILE:
            added = config.with_flags(added)
        has_bert_template = not values["special_tokens"] and values["pair_separators"] == 1
        left_out = STANDARD if has_bert_template else ()
        return config.with_added_tokens(values["pieces"], added, left_out)

    def write_files(self, vocabulary, directory):
        vocabulary.save(directory / VOCABULARY_FILE)

    def json_processor(self, vocabulary):
        template = template_of(vocabulary)
        if dataclasses.replace(template, segments=True) == BERT_TEMPLATE:
            # That a model gets no segments, such as DistilBERT, is a setting of tokenizer_config.json.
            template = BERT_TEMPLATE
        if vocabulary.trim_offsets and template.has_form_of_roberta:
            return roberta_processor(vocabulary)
        return template_processor(vocabulary, template)

    def json_tokens(self, vocabulary):
        tokens = super().json_tokens(vocabulary)
        if vocabulary.has_bert_template:  # All tokens of other files are recognized in texts.
            for name in STANDARD:
                if name in vocabulary:
                    tokens[name] = _special_token(name)
        return tokens

    def json_normalizer(self, vocabulary, lowercase):
        if vocabulary.normalizer is not None:
            return vocabulary.normalizer
        fixed = {"type": "BertNormalizer", "clean_text": True}
        return fixed | _options("normalizer", vocabulary, lowercase)

    def json_model(self, vocabulary, lowercase):
        hidden = self._numbered_last(vocabulary)
        model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": CONTINUATION}
        model.update(_options("model", vocabulary, lowercase))
        model["vocab"] = {piece: index for index, piece in enumerate(vocabulary.pieces) if piece not in hidden}
        return {"decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True}, "model": model}

    def _numbered_last(self, vocabulary):
        """Returns the added tokens that need no entry in `model.vocab`: those at the end, unless pieces are repeated.

        The tokenizers library ignores the ids of added tokens, and numbers them from the number of entries on. The
        others are read back with `wordpiece`.
        """
        if len(set(vocabulary.pieces)) < len(vocabulary):
            return set()
        beside = self.tokens_beside_pieces(vocabulary)
        at_end = set()
        for piece in reversed(vocabulary.pieces):
            if piece not in beside:
                break
            at_end.add(piece)
        return at_end

    def check_pieces(self, vocabulary):
        added = {token.content for token in vocabulary.added_tokens}
        for index, piece in enumerate(vocabulary.pieces):
            check_string(piece, index, vocabulary.source)
            is_stripped = piece == piece.strip(" \t\r\n")
            if piece not in added and (not piece or not is_stripped):
                place = place_of(vocabulary.source, index)
                raise ValueError(f"{place}: a piece must be non-empty and stripped. Received: {piece!r}")

    def check_steps(self, vocabulary):
        if vocabulary.normalizer is not None:
            normalizer_steps(vocabulary.normalizer)
        if vocabulary.pre_tokenizer is not None:
            pre_tokenizer_steps(vocabulary.pre_tokenizer)
        if vocabulary.trim_offsets and not template_of(vocabulary).has_form_of_roberta:
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
            matched.append(f"\1{index}")
        else:
            matched.append(piece)
    return matched


def _special_token(content):
    """Returns the `AddedToken` of a special token that is a piece."""
    return AddedToken(content, normalized=False, special=True, wordpiece=True)


def _mpnet_tokens(pieces):
    """Returns the added tokens of MPNet's tokenizer, those that are pieces."""
    tokens = []
    for name in _MPNET_TOKENS:
        if name in pieces:
            tokens.append(_special_token(name)._replace(lstrip=name == "<mask>"))
    return tokens


def _check_has_pieces(path, content):
    """Raises for a `tokenizer.json` without a vocabulary."""
    model = content.get("model") if isinstance(content, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list) or not vocabulary:
        raise ValueError(f"{path}: not a tokenizer.json with a `model.vocab` table")


def _template(path, processor, places, bert_defaults):
    """Returns the `Template` of a `tokenizer.json`; that of a class with BERT's is no other one."""
    if bert_defaults and processor is None:
        return BERT_TEMPLATE
    template = read_template(processor, {piece: index for index, piece in places.items()})
    if template is None or (bert_defaults and template != BERT_TEMPLATE):
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
    options = {}
    for option in reversed(FILE_OPTIONS):
        option_section, key = option.file
        if option_section != section:
            continue
        if option is LOWERCASE:
            options[key] = bool(lowercase)
        else:
            options[key] = getattr(vocabulary, option.name)
    return options


def _options_of_settings(values, config):
    """Returns the options that `tokenizer_config.json` decides; others are `values`, those of the vocabulary's file.

    `tokenizer_files` has a table of which file decides what.
    """
    if config.class_name == _JAPANESE:
        return _word_options(config.settings)
    if config.path.name == VOCABULARY_FILE:
        return _options_beside_pieces(config)
    if config.class_name in _BERT_CLASSES | {_MPNET}:
        return _options_of_class(values, config)
    # Classes that take everything from `tokenizer.json`: those of any algorithm, such as PreTrainedTokenizerFast, and
    # those of the others. An unknown class is refused before, by `tokenizer_files._supported_class`.
    return {}


def _word_options(settings):
    """Returns the options of a `BertJapaneseTokenizer` for texts that are split into words.

    Its dictionary is one of those that `word_class` knows; the steps are of `tokenizer_steps`.
    """
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


def _options_of_class(values, config):
    """Returns the options of a tokenizer of BERT's classes: those of the settings, or else the class's own.

    Warns if the class's own value is another one than that of `tokenizer.json`, in `values`.
    """
    options = {}
    changes = []
    for option in FILE_OPTIONS:
        # The class always has its own maximum word length, but not in a folder that was not made for transformers.
        if option.name == "max_word_length" and config.longest_word is not None:
            continue
        value = config.settings.get(option.setting, option.of_class)
        options[option.name] = value
        is_said = option.setting in config.settings
        in_file = values[option.name]
        if not is_said and in_file is not None and in_file != value:
            changes.append(f"{option.name} ({in_file!r}, {value!r})")
    if changes:
        _warn_of_changes(config, changes)
    return options


def _warn_of_changes(config, changes):
    _LOG.warning(
        "%s and the tokenizer's class, %sTokenizer, disagree on %s. The class decides, as in transformers; "
        'for the file\'s settings, write "tokenizer_class": "PreTrainedTokenizerFast" into %s',
        config.path,
        config.class_name,
        ", ".join(changes),
        SETTINGS,
    )


def _options_beside_pieces(config):
    """Returns the options of a `vocab.txt`, which has none itself, without those that nothing decides."""
    options = {}
    for option in FILE_OPTIONS:
        value = config.settings.get(option.setting) if option.setting else option.of_class
        if option.name == "max_word_length" and config.longest_word is not None:
            value = config.longest_word
        if value is not None:
            options[option.name] = value
    return options


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
    steps = (values or {}).get("normalizers") or []
    types = [step.get("type") for step in steps]
    if types != ["Lowercase", "BertNormalizer"] or values.get("type") != "Sequence":
        return values
    normalizer = dict(steps[1])
    if normalizer.get("strip_accents") is None:  # Only the casing of BERT's own normalizer decides about accents.
        normalizer["strip_accents"] = bool(normalizer.get("lowercase"))
    normalizer["lowercase"] = True
    return normalizer


def _other_steps(path, content):
    """Returns the normalizer and the pre-tokenizer if they are not BERT's. `None` is a sequence without steps."""
    other_steps = {}
    for name, key, check in (
        ("normalizer", "normalizers", normalizer_steps),
        ("pre_tokenizer", "pretokenizers", pre_tokenizer_steps),
    ):
        values = content.get(name)
        if values is None:
            values = {"type": "Sequence", key: []}
        if _is_berts(name, values):
            continue
        try:
            check(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        other_steps[name] = values
    return other_steps


def _is_berts(section, values):
    """Returns whether a section has BERT's fixed values; those that are missing default to them."""
    if not isinstance(values, dict):
        return False
    return all(values.get(key, expected) == expected for key, expected in _FIXED[section].items())


def _check_fixed(path, content, bert_defaults):
    """Raises for a section that is not BERT's; with `bert_defaults`, one that is missing or null is."""
    for section, fixed in _FIXED.items():
        values = content.get(section)
        ignored = "" if section == "model" else _IGNORED
        for key, expected in fixed.items():
            wrong = f"{path}: not BERT's tokenizer: expected {section}.{key}={expected!r}"
            if values is None and not bert_defaults:
                raise ValueError(f"{wrong}. Received: {section}=null{ignored}")
            if values is not None and values.get(key, expected) != expected:
                raise ValueError(f"{wrong}. Received: {section}.{key}={values[key]!r}{ignored}")
