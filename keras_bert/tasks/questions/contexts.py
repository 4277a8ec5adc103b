"""The tokens of contexts, and which bytes of them they cover."""

from typing import NamedTuple

import numpy as np

from keras_bert.text.viewed_texts import tokenized


class TokenSpan(NamedTuple):
    """The smallest span of tokens that covers some bytes of a context."""

    first: int  # Token, counted from the start of the context.
    last: int
    is_exact: bool  # Whether it covers no other bytes.


class Contexts:
    """The tokens of contexts, a list of strings, each of which is tokenized once.

    `ids` are ragged token ids `(contexts, tokens)`. Spans of bytes are the first one and the last + 1.
    """

    def __init__(self, texts, tokenizer):
        self.ids, starts, ends = tokenized(tokenizer.with_offsets, texts)
        self._bytes = [text.encode() for text in texts]
        self._splits = self.ids.row_splits.numpy()
        self._first_byte = starts.values.numpy()
        self._last_byte = ends.values.numpy()

    def tokens(self, context, begin, end):
        """Returns the `TokenSpan` of bytes of a context, `None` if they have no token."""
        here = slice(self._splits[context], self._splits[context + 1])
        starts = self._first_byte[here]
        ends = self._last_byte[here]
        first = int(np.searchsorted(ends, begin, "right"))
        last = int(np.searchsorted(starts, end)) - 1
        if first > last:
            return None
        return TokenSpan(first, last, is_exact=(starts[first], ends[last]) == (begin, end))

    def bytes(self, context, first, last):
        """Returns the bytes of a context that tokens from `first` to `last` cover."""
        before = int(self._splits[context])
        return int(self._first_byte[before + first]), int(self._last_byte[before + last])

    def text(self, context, begin, end):
        """Returns bytes of a context as a string."""
        return self._bytes[context][begin:end].decode("utf-8")
