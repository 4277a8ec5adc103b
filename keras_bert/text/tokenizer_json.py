"""Hugging Face's `tokenizer.json`, of WordPiece and of Unigram: vocabulary, added tokens, steps. No TensorFlow."""

import itertools
import json
from typing import NamedTuple

from keras_bert.checks import explaining
from keras_bert.text.tokenizer_options import FILE_OPTIONS, LOWERCASE
from keras_bert.text.tokenizer_steps import changes_case, normalizer_steps, pre_tokenizer_steps, unigram_steps

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
# A template: the tokens at both ends, the number of those between two texts, and whether pairs have segments.
_BERT = ("[CLS]", "[SEP]", 1, True)
# Of tokens that no template has, as the files of transformers and of SentencePiece call them.
_NAMES = {"[PAD]": ("<pad>", "[PAD]"), "[MASK]": ("<mask>", "[MASK]")}


class AddedToken(NamedTuple):
    """A token that was added to a vocabulary. It is kept whole everywhere, also within words.

    Args:
        content: str, one of the pieces of the vocabulary.
        normalized: bool, whether to match it in the normalized text instead of the original one. Defaults to `True`.
        special: bool, whether Hugging Face's tokenizers skip it when decoding. Defaults to `False`.
        wordpiece: bool, whether it is also a WordPiece piece. Defaults to `False`.
        single_word: bool, whether to match it only between characters that are no letters, digits or `_`. Defaults to
            `False`.
    """

    content: str
    normalized: bool = True
    special: bool = False
    wordpiece: bool = False
    single_word: bool = False


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
        return {**read_unigram(path, content), **_side(content)}
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list) or not model["vocab"]:
        raise ValueError(f"{path}: not a tokenizer.json with a `model.vocab` table")
    content = {**content, "normalizer": _bert_normalizer(content.get("normalizer"))}
    steps = {} if bert_defaults else _steps(path, content)
    content |= {name: {} for name in steps}
    _check_fixed(path, content, bert_defaults)
    vocabulary, added = model["vocab"], content.get("added_tokens") or []
    places = _places(path, vocabulary, added)
    _check_strips(path, added)
    processor = content.get("post_processor")
    ids = {piece: index for index, piece in places.items()}
    if not (bert_defaults and processor is None) and _template(processor or {}, ids) != _BERT:
        raise ValueError(
            f"{path}: expected the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with the ids of the vocabulary. "
            f"Received: post_processor={json.dumps(processor or None):.300}"
        )
    return {
        # An unassigned id is that of the first of two equal lines of a vocab.txt.
        "pieces": [places.get(index, no_piece(index)) for index in range(max(places) + 1)],
        "added_tokens": [added_token(token, vocabulary) for token in added if token["content"] not in STANDARD],
        **_stored(content),
        **_side(content),
        **steps,
        **({LOWERCASE.name: changes_case(steps["normalizer"])} if "normalizer" in steps else {}),
    }


def _stored(content):
    options = {option: content[option.file[0]] or {} for option in FILE_OPTIONS}
    return {option.name: values.get(option.file[1], option.if_missing) for option, values in options.items()}


def read_unigram(path, content):
    """Returns the arguments of `Vocabulary` from the parsed content of the file of a Unigram vocabulary."""
    model, added = content["model"], content.get("added_tokens") or []
    pieces, scores = _scored_pieces(path, model.get("vocab"))
    if model.get("byte_fallback"):
        raise ValueError(f"{path}: expected model.byte_fallback=false. Received: model.byte_fallback=true")
    try:
        unigram_steps(content.get("normalizer"), content.get("pre_tokenizer"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    unknown = model.get("unk_id")
    if type(unknown) is not int or not 0 <= unknown < len(pieces):
        raise ValueError(f"{path}: expected the id of a piece. Received: model.unk_id={unknown!r}")
    known, tokens = set(pieces), {token["content"]: token["id"] for token in added}
    check_added_ids(path, {piece: index for index, piece in enumerate(pieces)}, tokens)
    places = {index: token for token, index in tokens.items()}
    check_ids(path, dict(enumerate(pieces)) | places)
    further = [places.get(index, no_piece(index)) for index in range(len(pieces), max(places, default=0) + 1)]
    pieces, scores = [*pieces, *further], scores + [0.0] * len(further)
    processor = content.get("post_processor")
    template = _template(processor or {}, {piece: index for index, piece in enumerate(pieces)})
    if not template:
        raise ValueError(
            f"{path}: expected the sequences [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or [SEP] [SEP] between A and B, "
            f"with the ids of the vocabulary. Received: post_processor={json.dumps(processor or None):.300}"
        )
    start, end, separators, segments = template
    named = {"[UNK]": pieces[unknown], "[CLS]": start, "[SEP]": end}
    named |= {role: next((name for name in names if name in pieces), role) for role, names in _NAMES.items()}
    return {
        "pieces": pieces,
        "unigram": {
            "scores": scores,
            "special_tokens": {role: name for role, name in named.items() if role != name},
            "pair_separators": separators,
        },
        "added_tokens": [added_token(token, known) for token in added],
        "normalizer": content["normalizer"],
        "pre_tokenizer": content["pre_tokenizer"],
        "pair_segments": segments,
        "lowercase": changes_case(content["normalizer"]),
    }


def _scored_pieces(path, entries):
    """Returns the pieces and their scores, two lists."""
    pairs = isinstance(entries, list) and all(isinstance(each, list) and len(each) == 2 for each in entries)
    if not pairs or not all(isinstance(piece, str) and type(score) in (int, float) for piece, score in entries):
        raise ValueError(f"{path}: `model.vocab` of a Unigram must be a list of pairs: pieces and scores")
    return [piece for piece, _ in entries], [float(score) for _, score in entries]


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


def check_added_ids(path, ids: dict, added: dict):
    """Raises if an added token has the id of another piece, or one that is a piece has another id than there.

    transformers then gives it a new id: the model may have been trained with either. `ids` are by piece, `path` is the
    file for errors.
    """
    ids, pieces = dict(ids), {index: piece for piece, index in ids.items()}
    for content, index in added.items():
        taken = pieces.setdefault(index, content), ids.setdefault(content, index)
        if taken != (content, index):
            raise ValueError(
                f"{path}: an added token and another piece must not share an id, nor may a token have two. "
                f"Received: the added token {content!r} with the id {index!r}, beside {taken[0]!r} with the id "
                f"{taken[1]!r}"
            )


def check_ids(path, places):
    """Raises if ids, the keys of a dict of pieces, are none, or so large that the pieces between are missing."""
    for index, piece in places.items():
        if type(index) is not int or not 0 <= index < 2 * len(places) + 2**10:
            raise ValueError(
                f"{path}: ids must be integers that count from 0, with few gaps. Received: {piece!r} with the id "
                f"{index!r} among {len(places)} pieces"
            )


def no_piece(index):
    """Returns the placeholder of an id that no piece has."""
    return f"[no piece {index}]"


def added_token(values, vocabulary):
    """Creates the `AddedToken` of an entry in the file."""
    special = bool(values.get("special", False))
    normalized = bool(values.get("normalized", not special))
    content, single_word = values["content"], bool(values.get("single_word", False))
    return AddedToken(content, normalized, special, content in vocabulary, single_word)


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


def _template(processor, ids):
    """Returns the template of a post-processor, `None` for sequences of other parts, or with ids that no piece has."""
    if processor.get("type") in ("RobertaProcessing", "BertProcessing"):
        is_roberta, ends = processor["type"] == "RobertaProcessing", (processor.get("cls"), processor.get("sep"))
        if None in ends:
            return None
        template = ends[0][0], ends[1][0], 1 + is_roberta, not is_roberta
        given = {name: [index] for name, index in ends}
    else:
        single, pair = (
            [
                (values.get("id"), values.get("type_id", 0))
                for part in processor.get(name) or ()
                for values in part.values()
            ]
            for name in ("single", "pair")
        )
        names = [name for name, _ in single]
        variants = itertools.product(names[:1], names[-1:], (1, 2), (False, True))
        template = next((each for each in variants if [single, pair] == _sequences(each)), None)
        given = {name: values.get("ids") for name, values in (processor.get("special_tokens") or {}).items()}
    fits = template and all(name in ids and given.get(name) == [ids[name]] for name in template[:2])
    return template if fits else None


def _sequences(template):
    """Returns names and segment ids of the parts of a single text, and of a pair."""
    start, end, separators, segments = template
    single = [(start, 0), ("A", 0), (end, 0)]
    return [single, [*single, *[(end, int(segments))] * (separators - 1), ("B", int(segments)), (end, int(segments))]]


def _side(content):
    """Returns the side of truncation, if it is given; that of padding does not matter."""
    direction = (content.get("truncation") or {}).get("direction")
    return {"truncation_side": str(direction).lower()} if direction else {}


def to_json(vocabulary, lowercase):
    """Returns the content of the `tokenizer.json` of a `Vocabulary`, a string."""
    added = {token.content: token for token in vocabulary.added_tokens}
    if vocabulary.unigram is None:
        standard = {name: AddedToken(name, False, True, True) for name in STANDARD if name in vocabulary}
        template, tokens, write = _BERT, {**added, **standard}, _wordpiece
    else:
        start, end = (vocabulary.pieces[vocabulary.id(name)] for name in ("[CLS]", "[SEP]"))
        template = start, end, vocabulary.pair_separators, vocabulary.pair_segments
        tokens, write = added, _unigram
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _entry(*each) for each in sorted((vocabulary.id(name), token) for name, token in tokens.items())
        ],
        "normalizer": normalizer(vocabulary, lowercase),
        "pre_tokenizer": vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            **dict(zip(("single", "pair"), map(_parts, _sequences(template)), strict=True)),
            "special_tokens": {
                name: {"id": name, "ids": [vocabulary.id(name)], "tokens": [name]} for name in template[:2]
            },
        },
        **write(vocabulary, lowercase, added),
    }
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(index, token):
    """Returns the entry of an `AddedToken` in the file."""
    flags = {"single_word": token.single_word, "lstrip": False, "rstrip": False}
    return {"id": index, "content": token.content, **flags, "normalized": token.normalized, "special": token.special}


def _parts(sequence):
    return [{"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": id}} for name, id in sequence]


def _wordpiece(vocabulary, lowercase, added):
    hidden = _numbered_last(vocabulary, added)
    return {
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            **_options("model", vocabulary, lowercase),
            "vocab": {piece: index for index, piece in enumerate(vocabulary.pieces) if piece not in hidden},
        },
    }


def _unigram(vocabulary, lowercase, added):
    vocab = [list(pair) for pair in zip(vocabulary.pieces, vocabulary.unigram["scores"], strict=True)]
    while vocab[-1][0] in added and not added[vocab[-1][0]].wordpiece:  # Tokens after the pieces are no parts of words.
        vocab.pop()
    return {
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": vocabulary.id("[UNK]"), "vocab": vocab, "byte_fallback": False},
    }


def normalizer(vocabulary, lowercase):
    """Returns the normalizer of a `Vocabulary`."""
    if vocabulary.normalizer is not None or vocabulary.unigram is not None:
        return vocabulary.normalizer
    return {"type": "BertNormalizer", "clean_text": True, **_options("normalizer", vocabulary, lowercase)}


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
