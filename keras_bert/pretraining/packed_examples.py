"""Examples as arrays of ids: rows that begin with `[CLS]`, texts that are written into them, and padding."""

from typing import NamedTuple

import numpy as np

from keras_bert.pretraining.token_store import spans


class PackedExamples(NamedTuple):
    """Examples as arrays, `(examples,)` unless noted."""

    token_ids: np.ndarray  # `(examples, length)`.
    first: np.ndarray  # Where B starts: the length of `[CLS] A [SEP]`. Without a B, it is that of the row.
    lengths: np.ndarray  # Number of tokens, with the `[SEP]` after a B.
    is_random: np.ndarray  # Whether B is random.
    keys: np.ndarray  # Random keys.
    truncated: int  # Number of truncated tokens.


class SpecialIds(NamedTuple):
    """The ids of the special tokens of examples."""

    start: int  # `[CLS]`
    separator: int  # `[SEP]`
    pad: int  # `[PAD]`


def empty_rows(count, length, special):
    """Returns rows of `[CLS]` and padding, `(count, length)`; `special` are the `SpecialIds`."""
    ids = np.full((count, length), special.pad, np.int32)
    ids[:, 0] = special.start
    return ids


def put_texts(ids, columns, lengths, texts):
    """Writes the concatenated `texts`, `lengths` of them per row, into rows of ids, starting at each row's column."""
    rows = np.repeat(np.arange(len(ids)), lengths)
    ids[rows, spans(columns, lengths)] = texts
