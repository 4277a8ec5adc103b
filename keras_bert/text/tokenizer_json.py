"""Hugging Face's `tokenizer.json`: the sections that the files of all subword algorithms share. No TensorFlow.

`registry.read_json` reads a file; the algorithm of a vocabulary reads and writes the other sections.
"""

import dataclasses
import json
from typing import NamedTuple

FILE = "tokenizer.json"
STANDARD = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Types of post-processors with a fixed template. Of others, it stands in the file.
_BERTS = "BertProcessing"
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


@dataclasses.dataclass(frozen=True)
class Template:
    """The sequences of one text and of two: `start A end` and `start A end B end`, with one `end` or more before B.

    Args:
        start: str, the piece in the place of `[CLS]`.
        end: str, the piece in the place of `[SEP]`.
        separators: int, the number of pieces between the two texts. Defaults to 1.
        segments: bool, whether the second text and the end after it have the segment id 1. Defaults to `True`.
    """

    start: str
    end: str
    separators: int = 1
    segments: bool = True

    @property
    def has_form_of_roberta(self):
        """Whether the texts of a pair are apart as in RoBERTa: by two separators, and without segments."""
        return self.separators == 2 and not self.segments

    def parts_of_single(self):
        """Returns names and segment ids of the parts of a single text."""
        return [(self.start, 0), ("A", 0), (self.end, 0)]

    def parts_of_pair(self):
        """Returns names and segment ids of the parts of a pair. All separators but the first are B's."""
        segment = int(self.segments)
        further = [(self.end, segment)] * (self.separators - 1)
        return [*self.parts_of_single(), *further, ("B", segment), (self.end, segment)]


BERT_TEMPLATE = Template("[CLS]", "[SEP]")


def roberta_template(start="<s>", end="</s>"):
    """Returns the template of RoBERTa, or one of its form."""
    return Template(start, end, separators=2, segments=False)


def check_added_ids(path, ids: dict, added: dict):
    """Raises if an added token has the id of another piece, or one that is a piece has another id than there.

    transformers then gives it a new id: the model may have been trained with either. `ids` are by piece, `path` is the
    file for errors.
    """
    known_ids = dict(ids)
    pieces = {index: piece for piece, index in ids.items()}
    for content, index in added.items():
        piece_there = pieces.setdefault(index, content)
        known_id = known_ids.setdefault(content, index)
        if piece_there != content or known_id != index:
            raise ValueError(
                f"{path}: an added token and another piece must not share an id, nor may a token have two. "
                f"Received: the added token {content!r} with the id {index!r}, beside {piece_there!r} with the id "
                f"{known_id!r}"
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
    return {
        "special_tokens": _special_tokens(template, pieces, unknown),
        "pair_separators": template.separators,
        "pair_segments": template.segments,
    }


def _special_tokens(template, pieces, unknown):
    """Returns the pieces in the place of BERT's special tokens, a dict of those with other names."""
    names = {"[UNK]": unknown, "[CLS]": template.start, "[SEP]": template.end}
    for role, other in _NAMES.items():
        # A vocabulary may have both, such as MPNet's, which has all pieces of BERT's.
        is_berts = role in pieces and (template.start == BERT_TEMPLATE.start or other not in pieces)
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
    for content, index in tokens.items():
        places[index] = content
    check_ids(path, places)
    return places


def read_template(processor, ids):
    """Returns the `Template` of a post-processor, `None` for other sequences, or with ids that no piece has.

    `processor` is its dict in the file, or `None`; `ids` are by piece.
    """
    processor = processor or {}
    if processor.get("type") in (_ROBERTAS, _BERTS):
        template, stored_ids = _template_of_class(processor)
    else:
        template, stored_ids = _template_of_sequences(processor)
    if template is None:
        return None
    for name in (template.start, template.end):
        if name not in ids or stored_ids.get(name) != [ids[name]]:
            return None
    return template


def _template_of_class(processor):
    """Returns the template of a post-processor with a fixed one, `None` if it names no tokens, and their ids by name.

    The ids are lists, as in the other kind of post-processor.
    """
    start = processor.get("cls")
    end = processor.get("sep")
    for token in (start, end):
        if not isinstance(token, list) or len(token) != 2:
            return None, {}
    ids = {name: [index] for name, index in (start, end)}
    if processor["type"] == _ROBERTAS:
        return roberta_template(start[0], end[0]), ids
    return Template(start[0], end[0]), ids


def _template_of_sequences(processor):
    """Returns the template with the sequences of a post-processor, `None` if none has them, and lists of ids by name.

    The template that their ends and their lengths tell is written out again, and compared.
    """
    single = _named_parts(processor.get("single"))
    pair = _named_parts(processor.get("pair"))
    if not single or not pair:
        return None, {}
    start, _ = single[0]
    end, _ = single[-1]
    _, last_segment = pair[-1]
    separators = len(pair) - len([start, "A", "B", end])
    template = Template(start, end, separators, segments=last_segment == 1)
    is_known = separators in (1, 2)
    if not is_known or template.parts_of_single() != single or template.parts_of_pair() != pair:
        return None, {}
    tokens = processor.get("special_tokens") or {}
    return template, {name: values.get("ids") for name, values in tokens.items()}


def _named_parts(sequence):
    """Returns names and segment ids of the parts of a sequence in the file."""
    named = []
    for part in sequence or ():
        for values in part.values():
            named.append((values.get("id"), values.get("type_id", 0)))
    return named


def refused_processor(path, expected, processor):
    """Returns the error for a post-processor with another template than those expected."""
    return ValueError(f"{path}: expected {expected}. Received: post_processor={json.dumps(processor or None):.300}")


def truncation_side(content):
    """Returns the side of truncation, `None` if it is not given; that of padding does not matter."""
    direction = (content.get("truncation") or {}).get("direction")
    if not direction:
        return None
    return str(direction).lower()


def to_json(vocabulary, lowercase):
    """Returns the content of the `tokenizer.json` of a `Vocabulary`, a string."""
    algorithm = vocabulary.algorithm
    tokens = algorithm.json_tokens(vocabulary)
    numbered = sorted((vocabulary.id(name), token) for name, token in tokens.items())
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_entry(index, token) for index, token in numbered],
        "normalizer": algorithm.json_normalizer(vocabulary, lowercase),
        "pre_tokenizer": algorithm.json_pre_tokenizer(vocabulary),
        "post_processor": algorithm.json_processor(vocabulary),
    }
    values.update(algorithm.json_model(vocabulary, lowercase))
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def template_of(vocabulary):
    """Returns the `Template` of a `Vocabulary`."""
    return Template(
        start=vocabulary.pieces[vocabulary.id("[CLS]")],
        end=vocabulary.pieces[vocabulary.id("[SEP]")],
        separators=vocabulary.pair_separators,
        segments=vocabulary.pair_segments,
    )


def trims_offsets(processor):
    """Returns whether a post-processor trims the places of tokens, see `Vocabulary`."""
    if not processor or processor.get("type") != _ROBERTAS:
        return False
    return bool(processor.get("trim_offsets", True))


def roberta_processor(vocabulary, add_prefix_space=False):
    """Returns RoBERTa's post-processor for a vocabulary without segments and with two separators."""
    template = template_of(vocabulary)
    return {
        "type": _ROBERTAS,
        "sep": [template.end, vocabulary.id(template.end)],
        "cls": [template.start, vocabulary.id(template.start)],
        "trim_offsets": vocabulary.trim_offsets,
        "add_prefix_space": add_prefix_space,
    }


def template_processor(vocabulary, template):
    """Returns the post-processor with a `Template`, as it stands in the file."""
    tokens = {}
    for name in (template.start, template.end):
        tokens[name] = {"id": name, "ids": [vocabulary.id(name)], "tokens": [name]}
    return {
        "type": "TemplateProcessing",
        "single": _written_parts(template.parts_of_single()),
        "pair": _written_parts(template.parts_of_pair()),
        "special_tokens": tokens,
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


def _written_parts(sequence):
    """Returns the parts of a sequence, given their names and segment ids, as they stand in the file."""
    written = []
    for name, segment in sequence:
        part_type = "Sequence" if name in ("A", "B") else "SpecialToken"
        written.append({part_type: {"id": name, "type_id": segment}})
    return written
