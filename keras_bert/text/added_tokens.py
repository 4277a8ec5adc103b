"""Parts of `tokenizer.json` of any vocabulary: added tokens, ids, templates of sequences. Does not use TensorFlow."""

from typing import NamedTuple


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


def no_piece(index):
    """Returns the placeholder of an id that no piece has."""
    return f"[no piece {index}]"


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


def added_token(values, vocabulary):
    """Creates the `AddedToken` of an entry in the file."""
    special = bool(values.get("special", False))
    normalized = bool(values.get("normalized", not special))
    content, single_word = values["content"], bool(values.get("single_word", False))
    return AddedToken(content, normalized, special, content in vocabulary, single_word)


def check_strips(path, tokens):
    """Stripping white space has no effect, unless another token starts or ends with white space."""
    strips = [token["content"] for token in tokens if token.get("lstrip") or token.get("rstrip")]
    spaced = [token["content"] for token in tokens if token["content"].strip() != token["content"]]
    if strips and spaced:
        raise ValueError(
            f"{path}: added tokens with `lstrip` or `rstrip` are not supported together with tokens that start or end "
            f"with white space. Received: {strips[0]!r} and {spaced[0]!r}"
        )


def template_parts(template):
    """Returns names and segment ids of the parts of a template, `single` or `pair` of a post-processor."""
    return [(values.get("id"), values.get("type_id", 0)) for part in template for values in part.values()]


def template(parts):
    """Returns the template of names and segment ids, where the texts are A and B."""
    return [{"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": id}} for name, id in parts]


def entry(index, token):
    """Returns the entry of an `AddedToken` in the file."""
    flags = {"single_word": token.single_word, "lstrip": False, "rstrip": False}
    return {"id": index, "content": token.content, **flags, "normalized": token.normalized, "special": token.special}
