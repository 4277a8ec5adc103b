"""The tokenizer of WordPiece vocabularies as users create it, from what a vocabulary is made of."""

from collections.abc import Sequence
from typing import Any

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
