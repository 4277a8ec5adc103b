"""Hugging Face's `tokenizer.json`: vocabulary, added tokens and normalization settings. Does not use TensorFlow."""

import itertools
import json

from keras_bert.checks import explaining
from keras_bert.text import unigram_json
from keras_bert.text.added_tokens import (
    AddedToken,
    added_token,
    check_added_ids,
    check_ids,
    check_strips,
    entry,
    no_piece,
    template,
    template_parts,
)
from keras_bert.text.tokenizer_options import FILE_OPTIONS, LOWERCASE
from keras_bert.text.tokenizer_steps import changes_case, normalizer_steps, pre_tokenizer_steps

STANDARD = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Required values; missing keys default to BERT's.
_FIXED = {
    ("model", "type"): "WordPiece",
    ("model", "continuing_subword_prefix"): "##",
    ("model", "unk_token"): "[UNK]",
    ("normalizer", "type"): "BertNormalizer",
    ("normalizer", "clean_text"): True,
    ("pre_tokenizer", "type"): "BertPreTokenizer",
}
_IGNORED = (
    "; transformers 5 ignores it with BertTokenizer: to apply it, write "
    '"tokenizer_class": "PreTrainedTokenizerFast" into tokenizer_config.json'
)
# The sequences of single texts and pairs: parts and segment ids.
_SINGLE = [("[CLS]", 0), ("A", 0), ("[SEP]", 0)]
_PAIR = [*_SINGLE, ("B", 1), ("[SEP]", 1)]


@explaining
def read(path, text: str, bert_defaults: bool = False):
    """Parses the content of a `tokenizer.json` into a dict of the arguments of `Vocabulary`, and `lowercase`.

    With `bert_defaults`, parts that are missing or null are BERT's, as for transformers' `BertTokenizer`. Otherwise
    they are refused: texts would not be normalized, split or given [CLS] and [SEP]. `path` is for errors.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    model = content.get("model") if isinstance(content, dict) else None
    if isinstance(model, dict) and model.get("type") == "Unigram":
        return {**unigram_json.read(path, content), **_side(content)}
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list) or not model["vocab"]:
        raise ValueError(f"{path}: not a tokenizer.json with a `model.vocab` table")
    content = {**content, "normalizer": _normalizer(content.get("normalizer"))}
    steps = {} if bert_defaults else _steps(path, content)
    content |= {name: {} for name in steps}
    _check_fixed(path, content, bert_defaults)
    vocabulary, added = model["vocab"], content.get("added_tokens") or []
    places = _places(path, vocabulary, added)
    check_strips(path, added)
    if not (bert_defaults and content.get("post_processor") is None):
        _check_template(path, content.get("post_processor"), {piece: index for index, piece in places.items()})
    return {
        # An unassigned id is that of the first of two equal lines of a vocab.txt.
        "pieces": [places.get(index, no_piece(index)) for index in range(max(places) + 1)],
        "added_tokens": [added_token(token, vocabulary) for token in added if token["content"] not in STANDARD],
        **{option.name: _stored(content, option) for option in FILE_OPTIONS},
        **_side(content),
        **steps,
        **({LOWERCASE.name: changes_case(steps["normalizer"])} if "normalizer" in steps else {}),
    }


def _stored(content, option):
    section, key = option.file
    return (content[section] or {}).get(key, option.if_missing)


def _places(path, vocabulary, added):
    """Returns the pieces by id."""
    if not isinstance(vocabulary, dict):
        raise ValueError(f"{path}: `model.vocab` must map pieces to ids. Received: a {type(vocabulary).__name__}")
    places = {}
    for piece, index in vocabulary.items():
        if places.setdefault(index, piece) != piece:
            raise ValueError(
                f"{path}: two pieces have the id {index!r}. Expected one for each id. Received: {places[index]!r} and "
                f"{piece!r}"
            )
    tokens = {token["content"]: token["id"] for token in added}
    check_added_ids(path, vocabulary, tokens)
    places.update((index, content) for content, index in tokens.items())
    check_ids(path, places)
    return places


def _normalizer(values):
    """Returns BERT's normalizer, also of a sequence that changes texts to lower case first, as `do_lower_case` does."""
    parts = (values or {}).get("normalizers") or []
    if [part.get("type") for part in parts] != ["Lowercase", "BertNormalizer"] or values.get("type") != "Sequence":
        return values
    strip_accents = parts[1].get("strip_accents")
    # Only the casing of BERT's own normalizer decides about accents.
    kept = bool(parts[1].get("lowercase")) if strip_accents is None else strip_accents
    return {**parts[1], "lowercase": True, "strip_accents": kept}


def _steps(path, content):
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


def _check_template(path, processor, ids):
    """Rejects sequences other than `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]`."""
    processor, ends = processor or {}, ("[CLS]", "[SEP]")
    if processor.get("type") == "BertProcessing":
        is_bert = [processor.get("cls"), processor.get("sep")] == [[name, ids.get(name)] for name in ends]
    else:
        listed = processor.get("special_tokens") or {}
        is_bert = [template_parts(processor.get(name) or []) for name in ("single", "pair")] == [_SINGLE, _PAIR]
        is_bert = is_bert and [listed.get(name, {}).get("ids") for name in ends] == [[ids.get(name)] for name in ends]
    if not is_bert:
        raise ValueError(
            f"{path}: expected the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with the ids of the vocabulary. "
            f"Received: post_processor={json.dumps(processor or None):.300}"
        )


def _side(content):
    """Returns the side of truncation, if it is given; that of padding does not matter."""
    direction = (content.get("truncation") or {}).get("direction")
    return {"truncation_side": str(direction).lower()} if direction else {}


def to_json(vocabulary, lowercase):
    """Returns the content of the `tokenizer.json` of a `Vocabulary`, a string."""
    if vocabulary.unigram is not None:
        return unigram_json.to_json(vocabulary)
    added = {token.content: token for token in vocabulary.added_tokens}
    standard = {name: AddedToken(name, False, True, True) for name in STANDARD if name in vocabulary}
    tokens = sorted((vocabulary.id(name), token) for name, token in {**added, **standard}.items())
    hidden = _numbered_last(vocabulary, added)
    ends = {name: vocabulary.id(name) for name in ("[CLS]", "[SEP]")}
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [entry(index, token) for index, token in tokens],
        "normalizer": normalizer(vocabulary, lowercase),
        "pre_tokenizer": vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template(_SINGLE),
            "pair": template(_PAIR),
            "special_tokens": {name: {"id": name, "ids": [index], "tokens": [name]} for name, index in ends.items()},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            **_options("model", vocabulary, lowercase),
            "vocab": {piece: index for index, piece in enumerate(vocabulary.pieces) if piece not in hidden},
        },
    }
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def normalizer(vocabulary, lowercase):
    """Returns the normalizer of a `Vocabulary`."""
    bert = {"type": "BertNormalizer", "clean_text": True, **_options("normalizer", vocabulary, lowercase)}
    return bert if vocabulary.normalizer is None else vocabulary.normalizer


def _options(section, vocabulary, lowercase):
    """Returns the options in a section of the file, as transformers orders them."""
    return {
        option.file[1]: bool(lowercase) if option is LOWERCASE else getattr(vocabulary, option.name)
        for option in reversed(FILE_OPTIONS)
        if option.file[0] == section
    }


def _numbered_last(vocabulary, added):
    """Returns the added tokens that need no entry in `model.vocab`: those at the end, unless pieces are repeated.

    The tokenizers library ignores the ids of added tokens, and numbers them from the number of entries on. The others
    are read back with `wordpiece`.
    """
    if len(set(vocabulary.pieces)) < len(vocabulary):
        return set()
    last = itertools.takewhile(lambda piece: piece in added and not added[piece].wordpiece, reversed(vocabulary.pieces))
    return set(last)
