"""Hugging Face's `tokenizer.json`: the sections that the files of all subword algorithms share. No TensorFlow.

`registry.read_json` reads a file; the algorithm of a vocabulary reads and writes the other sections.
"""

import itertools
import json
from typing import NamedTuple

FILE = "tokenizer.json"
STANDARD = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEMPLATE = ("[CLS]", "[SEP]", 1, True)  # BERT's, see `read_template`.
ROBERTA_TEMPLATE = (2, False)  # The last two of `TEMPLATE`, of a processor of this type.
_ROBERTAS = "RobertaProcessing"
# Of tokens that no template has, as the files of transformers and of SentencePiece call them.
_NAMES = {"[PAD]": "<pad>", "[MASK]": "<mask>"}


class AddedToken(NamedTuple):
    """A token that was added to a vocabulary. It is kept whole everywhere, also within words.

    Args:
        content: str, one of the pieces of the vocabulary.
        normalized: bool, whether to match it in the normalized text instead of the original one. Defaults to `True`.
        special: bool, whether Hugging Face's tokenizers skip it when decoding. Defaults to `False`.
        wordpiece: bool, whether it is also a WordPiece piece. Defaults to `False`.
        single_word: bool, whether to match it only between characters that are no letters, digits or `_`. Defaults to
            `False`.
        lstrip: bool, whether the white space before it belongs to it. Defaults to `False`.
        rstrip: bool, whether the white space after it belongs to it. Defaults to `False`.
    """

    content: str
    normalized: bool = True
    special: bool = False
    wordpiece: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


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
    content = values["content"]
    return AddedToken(
        content,
        normalized,
        special,
        wordpiece=content in vocabulary,
        single_word=bool(values.get("single_word", False)),
        lstrip=bool(values.get("lstrip", False)),
        rstrip=bool(values.get("rstrip", False)),
    )


def template_values(template, pieces, unknown="[UNK]"):
    """Returns the arguments of `Vocabulary` that follow from a template; `unknown` is the piece of unknown words."""
    *_, separators, segments = template
    return {
        "special_tokens": _special_tokens(template, pieces, unknown),
        "pair_separators": separators,
        "pair_segments": segments,
    }


def _special_tokens(template, pieces, unknown):
    """Returns the pieces in the place of BERT's special tokens, a dict of those with other names."""
    start, end, *_ = template
    names = {"[UNK]": unknown, "[CLS]": start, "[SEP]": end}
    for role, other in _NAMES.items():
        # A vocabulary may have both, such as MPNet's, which has all pieces of BERT's.
        is_berts = role in pieces and (start == TEMPLATE[0] or other not in pieces)
        if other in pieces and not is_berts:
            names[role] = other
    return {role: name for role, name in names.items() if role != name}


def pieces_by_id(path, vocabulary, added):
    """Returns the pieces of a `model.vocab` and the added tokens by id; raises if two have the same one."""
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


def read_template(processor, ids):
    """Returns the template of a post-processor, `None` for sequences of other parts, or with ids that no piece has.

    A template is a tuple: the tokens at both ends, the number of those between two texts, and whether pairs have
    segments. `processor` may be `None`, `ids` are by piece.
    """
    processor = processor or {}
    if processor.get("type") in (_ROBERTAS, "BertProcessing"):
        template, given = _template_of_class(processor)
    else:
        template, given = _template_of_sequences(processor)
    if template is None:
        return None
    for name in template[:2]:
        if name not in ids or given.get(name) != [ids[name]]:
            return None
    return template


def _template_of_class(processor):
    """Returns the template of a processor with a fixed one, and the ids of its tokens by name."""
    ends = (processor.get("cls"), processor.get("sep"))
    if not all(isinstance(end, list) and len(end) == 2 for end in ends):
        return None, {}
    is_roberta = processor["type"] == _ROBERTAS
    template = ends[0][0], ends[1][0], 1 + is_roberta, not is_roberta
    return template, {name: [index] for name, index in ends}


def _template_of_sequences(processor):
    """Returns the template that has the sequences of a processor, and the ids of its tokens by name."""
    single = _named_parts(processor.get("single"))
    pair = _named_parts(processor.get("pair"))
    names = [name for name, _ in single]
    variants = itertools.product(names[:1], names[-1:], (1, 2), (False, True))
    template = next((each for each in variants if [single, pair] == sequences(each)), None)
    tokens = processor.get("special_tokens") or {}
    return template, {name: values.get("ids") for name, values in tokens.items()}


def _named_parts(sequence):
    """Returns names and segment ids of the parts of a sequence."""
    named = []
    for part in sequence or ():
        named += [(values.get("id"), values.get("type_id", 0)) for values in part.values()]
    return named


def sequences(template):
    """Returns names and segment ids of the parts of a single text, and of a pair."""
    start, end, separators, segments = template
    single = [(start, 0), ("A", 0), (end, 0)]
    return [single, [*single, *[(end, int(segments))] * (separators - 1), ("B", int(segments)), (end, int(segments))]]


def refused_processor(path, expected, processor):
    """Returns the error for a post-processor with another template than those expected."""
    return ValueError(f"{path}: expected {expected}. Received: post_processor={json.dumps(processor or None):.300}")


def truncation_side(content):
    """Returns the side of truncation, if it is given; that of padding does not matter."""
    direction = (content.get("truncation") or {}).get("direction")
    return {"truncation_side": str(direction).lower()} if direction else {}


def to_json(vocabulary, lowercase):
    """Returns the content of the `tokenizer.json` of a `Vocabulary`, a string."""
    algorithm = vocabulary.algorithm
    tokens = algorithm.json_tokens(vocabulary)
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _entry(*each) for each in sorted((vocabulary.id(name), token) for name, token in tokens.items())
        ],
        "normalizer": algorithm.json_normalizer(vocabulary, lowercase),
        "pre_tokenizer": algorithm.json_pre_tokenizer(vocabulary),
        "post_processor": algorithm.json_processor(vocabulary),
        **algorithm.json_model(vocabulary, lowercase),
    }
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def template_of(vocabulary):
    """Returns the template of a `Vocabulary`, see `read_template`."""
    start = vocabulary.pieces[vocabulary.id("[CLS]")]
    end = vocabulary.pieces[vocabulary.id("[SEP]")]
    return start, end, vocabulary.pair_separators, vocabulary.pair_segments


def trims_offsets(processor):
    """Returns whether a post-processor trims the places of tokens, see `Vocabulary`."""
    is_robertas = bool(processor) and processor.get("type") == _ROBERTAS
    return is_robertas and bool(processor.get("trim_offsets", True))


def roberta_processor(vocabulary, add_prefix_space=False):
    """Returns RoBERTa's post-processor for a vocabulary without segments and with two separators."""
    start, end, *_ = template_of(vocabulary)
    return {
        "type": _ROBERTAS,
        "sep": [end, vocabulary.id(end)],
        "cls": [start, vocabulary.id(start)],
        "trim_offsets": vocabulary.trim_offsets,
        "add_prefix_space": add_prefix_space,
    }


def template_processor(vocabulary, template):
    """Returns the post-processor with a template, as it stands in the file."""
    single, pair = sequences(template)
    return {
        "type": "TemplateProcessing",
        "single": _parts(single),
        "pair": _parts(pair),
        "special_tokens": {name: {"id": name, "ids": [vocabulary.id(name)], "tokens": [name]} for name in template[:2]},
    }


def _entry(index, token):
    """Returns the entry of an `AddedToken` in the file."""
    return {
        "id": index,
        "content": token.content,
        "single_word": token.single_word,
        "lstrip": token.lstrip,
        "rstrip": token.rstrip,
        "normalized": token.normalized,
        "special": token.special,
    }


def _parts(sequence):
    return [{"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": id}} for name, id in sequence]
