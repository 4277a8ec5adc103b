"""Words that are added to a vocabulary, so that its tokenizer keeps them whole."""

import logging
from collections.abc import Iterable

from keras_bert.text.tokenizer import build_tokenizer
from keras_bert.text.vocabulary import Vocabulary, extend

_LOG = logging.getLogger("keras_bert")
_KNOWN = "%s of %s words are pieces of the vocabulary already"


def add_words(vocabulary, words, lowercase: bool):
    """Extends a vocabulary with words that its tokenizer will keep whole. Those that it keeps already are skipped.

    Returns the new `Vocabulary`, and a dict by id of each new piece: the ids of the pieces it had before.
    """
    if isinstance(words, Iterable) and not isinstance(words, str):
        words = list(words)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"`words` must be a list of strings. Received: words={words!r:.200}")
    new = vocabulary.algorithm.tokenizer_class().new_pieces(vocabulary, words, lowercase)
    known = len(words) - len(new.before)
    if known:
        _LOG.warning(_KNOWN, f"{known:,}", f"{len(words):,}")
    with_pieces = extend(vocabulary, list(new.before))
    extended = Vocabulary(with_pieces, [*vocabulary.added_tokens, *new.added_tokens])
    _check_whole(new.words, extended, lowercase)
    ids_before = {extended.id(piece): ids for piece, ids in new.before.items()}
    return extended, ids_before


def without_known(words, vocabulary):
    """Returns the words that are no pieces, such as the lines of a vocab.txt that extends the vocabulary."""
    further = [word for word in words if word not in vocabulary]
    known = len(words) - len(further)
    if known:
        _LOG.warning(_KNOWN, f"{known:,}", f"{len(words):,}")
    return further


def _check_whole(words, vocabulary, lowercase):
    """Raises if a word is split nevertheless, such as one that contains an added token; `words` are by their pieces."""
    if not words:
        return
    split = build_tokenizer(vocabulary, lowercase).of_words(list(words.values())).to_list()
    for (piece, word), ids in zip(words.items(), split, strict=True):
        if ids != [vocabulary.id(piece)]:
            received = " ".join(vocabulary.pieces[index] for index in ids)
            raise ValueError(f"`words` must be whole without special tokens in them. Received: {word!r}, {received}")
