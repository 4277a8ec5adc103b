"""Words that are added to a vocabulary of byte-level BPE: tokens that are found before a text is split into words."""

import re

from keras_bert.text.byte_characters import SPACE
from keras_bert.text.tokenizer import NewPieces, build_tokenizer
from keras_bert.text.tokenizer_json import AddedToken

_LETTER = re.compile(r"\w")


def new_pieces(vocabulary, words):
    """Returns the `NewPieces` of words: tokens with the space before them, where no letter is beside them."""
    _check_words(words, vocabulary)
    ids_of_words = build_tokenizer(vocabulary).of_words(words).to_list()
    split = {}
    before = {}
    for word, ids in zip(words, ids_of_words, strict=True):
        if len(ids) == 1:
            continue
        split[word] = ids
        # What is a piece already, but only without a space before it, keeps its id.
        if word not in vocabulary:
            before[word] = ids
    return NewPieces(
        before=before,
        words={word: word for word in split},
        added_tokens=[AddedToken(word, single_word=True, lstrip=True) for word in split],
    )


def _check_words(words, vocabulary):
    """Raises for strings that are no single words, the same, or what stands for other bytes in the vocabulary."""
    for word in words:
        if word.startswith(SPACE):
            raise ValueError(f"`words` must be as in texts, without {SPACE!r}. Received: {word!r}")
        if not word or word.split() != [word]:
            raise ValueError(f"`words` must be single words, without white space. Received: {word!r}")
        if not _LETTER.match(word[0]) or not _LETTER.match(word[-1]):
            raise ValueError(f"`words` must begin and end with a letter or a digit. Received: {word!r}")
        if word in vocabulary and not word.isascii():
            raise ValueError(f"`words` must not be pieces that stand for other bytes. Received: {word!r}")
    repeated = sorted({word for word in words if words.count(word) > 1})
    if repeated:
        raise ValueError(f"`words` must differ. Received: {repeated[0]!r} twice")
