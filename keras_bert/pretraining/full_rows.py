"""Rows that are full of text, for a masked or left-to-right language model without next sentence prediction."""

import numpy as np

from keras_bert.pretraining.packed_examples import PackedExamples, SpecialIds, empty_rows, put_texts
from keras_bert.pretraining.random_keys import make_keys


def pack_rows(tokens, all_stretches, length, special, key, cut=0, special_tokens=True):
    """Fills rows `[CLS] text [SEP]` completely with the text of a shard, with `[SEP]` between documents.

    `special` are the ids of `[CLS]`, `[SEP]` and `[PAD]`; without `special_tokens`, rows contain only text. `key` is
    the random key of run, duplicate and shard. A first row of only `cut` tokens shifts the following rows. Yields
    `PackedExamples`; the last row is padded, and with `cut` also the first.
    """
    special_ids = SpecialIds(*special)
    separator = special_ids.separator if special_tokens else None
    packer = _RowPacker(length, special_ids, key, special_tokens)
    rest = np.zeros(0, np.int32)
    for stretch in all_stretches:
        text = np.concatenate([rest, *_document_texts(tokens, stretch, separator)]).astype(np.int32)
        first_size = cut if cut < len(text) else 0
        rows, rest = _split_text(text, first_size, packer.room)
        cut = 0  # The first row alone is short.
        if rows:
            yield packer.pack(rows)
    if special_tokens and len(rest) and rest[-1] == separator:
        rest = rest[:-1]
    if len(rest):
        yield packer.pack([rest])


def _document_texts(tokens, stretch, separator):
    """Returns the ids of the documents of a stretch, with a separator, if there is one, after each that ends in it."""
    texts = []
    for document, first, last in stretch:
        texts.append(tokens.ids[tokens.segments[first] : tokens.segments[last]])
        is_whole = last == tokens.documents[document + 1]
        if is_whole and separator is not None:
            texts.append([separator])
    return texts


def _split_text(text, first_size, room):
    """Returns the full rows of a text, after a first row of a size of its own, and the rest, which fills no row."""
    full = (len(text) - first_size) // room * room + first_size
    rows = list(text[first_size:full].reshape(-1, room))
    if first_size:
        rows.insert(0, text[:first_size])
    return rows, text[full:]


class _RowPacker:
    """Packs the rows of a shard; each has a random key of its own.

    Attributes:
        room: int, the tokens of text in a row.
    """

    def __init__(self, length, special, key, special_tokens):
        self._length = length
        self._special = special
        self._key = key
        self._border = 1 if special_tokens else 0  # Special tokens at each end of a row.
        self._packed = 0
        self.room = length - 2 * self._border

    def pack(self, rows):
        """Returns the `PackedExamples` of a list of arrays of at most `room` ids."""
        numbers = np.arange(len(rows))
        text_lengths = np.array([len(row) for row in rows])
        lengths = text_lengths + 2 * self._border
        ids = empty_rows(len(rows), self._length, self._special)
        put_texts(ids, np.full_like(numbers, self._border), text_lengths, np.concatenate(rows))
        if self._border:
            ids[numbers, lengths - 1] = self._special.separator
        keys = make_keys(*self._key, self._packed + numbers)
        self._packed += len(rows)
        return PackedExamples(
            token_ids=ids,
            first=lengths,
            lengths=lengths,
            is_random=np.zeros(len(rows), bool),
            keys=keys,
            truncated=0,
        )
