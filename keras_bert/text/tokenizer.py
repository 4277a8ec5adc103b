"""The tokenizer of a vocabulary, inside the graph: from strings to ids and byte offsets."""

import functools
from collections.abc import Sequence
from typing import Any

from keras_bert.text.base_tokenizer import check_kept
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece_tokenizer import WordPieceTokenizer


class BertTokenizer(WordPieceTokenizer):
    """Splits texts into WordPiece tokens.

    Args:
        vocabulary: a path, a list of pieces, a `TextPreprocessor` or a `Vocabulary`, whose added tokens are kept whole.
        lowercase: bool, whether the vocabulary is uncased. Defaults to that of a `TextPreprocessor`, or else to `True`.
        strip_accents: bool, whether to remove accents. Defaults to the setting of the vocabulary, or else `lowercase`.
        keep_special_tokens: list of tokens such as `"[MASK]"` to keep whole. By default they are split at the brackets.

    Call arguments:
        texts: strings of any shape, or lists of them.

    Returns:
        Ragged int32 ids with the shape of the texts plus one axis; a vector for a single string. `with_offsets` returns
        `(ids, starts, ends)`; the byte offsets of a token include the accents after it.

    Example:
        BertTokenizer("vocab.txt")(["Hello there!"])
    """

    def __init__(
        self,
        vocabulary: Any,
        lowercase: bool | None = None,
        *,
        strip_accents: bool | None = None,
        keep_special_tokens: Sequence[str] = (),
    ):
        if lowercase is None:  # Of a `TextPreprocessor`.
            lowercase = getattr(vocabulary, "lowercase", None)
        vocabulary = Vocabulary(vocabulary)
        if not issubclass(BertTokenizer, vocabulary.algorithm.tokenizer_class()):
            received = vocabulary.algorithm.described
            raise ValueError(f"{vocabulary.source}: expected a vocabulary of WordPiece. Received: {received}")
        super().__init__(vocabulary, lowercase, strip_accents=strip_accents, keep_special_tokens=keep_special_tokens)


def build_tokenizer(vocabulary, lowercase=None, *, strip_accents=None, keep_special_tokens=()):
    """Returns the tokenizer of a vocabulary's algorithm, with the arguments of `BertTokenizer`.

    Equal arguments give the same tokenizer: tracing and optimizing its graphs takes up to a second.
    """
    vocabulary = Vocabulary(vocabulary)
    check_kept(keep_special_tokens, vocabulary)
    return _shared(vocabulary, lowercase, strip_accents, tuple(keep_special_tokens))


@functools.lru_cache(maxsize=4)
def _shared(vocabulary, lowercase, strip_accents, kept):
    tokenizer_class = vocabulary.algorithm.tokenizer_class()
    return tokenizer_class(vocabulary, lowercase, strip_accents=strip_accents, keep_special_tokens=kept)
