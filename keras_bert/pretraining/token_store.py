"""Stores a tokenized corpus on disk, in constant memory, for reading in blocks and at random positions.

A sentence longer than half an example is split between words into several segments, so that no text is lost.
"""

import contextlib
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.files import read_json, write_json

_BATCH = 2**18  # Bytes to tokenize at a time.
BLOCK = 2**18  # Tokens to plan at a time; longer documents are planned in parts.


class Tokens(NamedTuple):
    """Documents as ids."""

    ids: np.ndarray  # Of all segments.
    segments: np.ndarray  # Index in `ids` of the start of each, and the end of the last one.
    documents: np.ndarray  # Index of the first segment of each, and the number of segments.


def tokenize(sentences, tokenizer, longest: int):
    """Tokenizes sentences, an iterable of bytes with `None` at the end of each document.

    A segment has at most `longest` tokens. Yields `(ids, lengths, ends)` for blocks of sentences: the ids, the lengths
    of the segments, and the numbers of segments in the block after which a document ends.
    """
    is_continuation = np.array(tokenizer.vocabulary.is_continuation)
    batch, ends, size = [], [], 0
    for sentence in sentences:
        if sentence is None:
            ends.append(len(batch))
            continue
        batch.append(sentence)
        size += len(sentence)
        if size >= _BATCH:
            yield _encoded(batch, ends, tokenizer, longest, is_continuation)
            batch, ends, size = [], [], 0
    yield _encoded(batch, ends, tokenizer, longest, is_continuation)


def _encoded(batch, ends, tokenizer, longest, is_continuation):
    pieces = tokenizer(tf.constant(batch, tf.string))
    ids, lengths = pieces.values.numpy(), pieces.row_lengths().numpy()
    lengths, parts = _cut(lengths, ids, longest, is_continuation)
    return ids, lengths, np.cumsum([0, *parts])[ends]


def _cut(lengths, ids, longest, is_continuation):
    """Returns the lengths of the segments, and the number of segments of each sentence."""
    if lengths.max(initial=0) <= longest:
        return lengths[lengths > 0], (lengths > 0).astype(int)
    segments, parts, begin = [], [], 0
    for length in lengths.tolist():
        before, end = len(segments), begin + length
        # Differs from BERT: no part of a long sentence is lost.
        while end - begin > longest:
            words = np.flatnonzero(~is_continuation[ids[begin + 1 : begin + longest + 1]])
            step = int(words[-1]) + 1 if words.size else longest
            segments.append(step)
            begin += step
        if end > begin:
            segments.append(end - begin)
        parts.append(len(segments) - before)
        begin = end
    return np.array(segments), parts


def collect(blocks):
    """Collects all blocks of `tokenize` into `Tokens`, in memory."""
    return Tokens(*map(np.concatenate, zip(*_placed(blocks), strict=True)))


def _placed(blocks):
    """Yields the part of `Tokens` that each block of `tokenize` adds, without empty documents."""
    pieces = segments = last = 0  # `last` is the end of the last document.
    yield Tokens(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    for ids, lengths, ends in blocks:
        documents = np.unique(segments + np.asarray(ends, np.int64))
        part = Tokens(ids, pieces + np.cumsum(lengths, dtype=np.int64), documents[documents > last])
        yield part
        pieces, segments, last = pieces + len(ids), segments + len(lengths), max([last, *part.documents.tolist()])


class Shard:
    """The `Tokens` of one shard in a folder. `vocab_size` sets the integer type."""

    def __init__(self, folder, index, vocab_size):
        self._stem = pathlib.Path(folder) / f"tokens-{index:05}"
        self._dtype = np.min_scalar_type(vocab_size)

    def _file(self, name):
        return self._stem.with_suffix(f".{name}")

    def write(self, blocks):
        """Writes the blocks of `tokenize`. The counts are written last and mark the shard as complete."""
        counts = {"documents": -1, "segments": -1, "pieces": 0}  # The first two files begin with a 0.
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(self._file(name), "wb")) for name in Tokens._fields]
            for part in _placed(blocks):
                for file, values in zip(files, part._replace(ids=part.ids.astype(self._dtype)), strict=True):
                    file.write(values.tobytes())
                counts["documents"] += len(part.documents)
                counts["segments"] += len(part.segments)
                counts["pieces"] += len(part.ids)
        write_json(self._file("json"), counts)

    def counts(self):
        """Returns the number of `documents`, `segments` and `pieces`; `None` for an incomplete shard."""
        path = self._file("json")
        return read_json(path) if path.exists() else None

    def read(self):
        """Returns the memory-mapped `Tokens`."""
        names = {"ids": self._dtype, "segments": np.int64, "documents": np.int64}
        return Tokens(*(_mapped(self._file(name), dtype) for name, dtype in names.items()))


def _mapped(path, dtype):
    # NumPy cannot map empty files. Indexing a `memmap` is slower than indexing an array that wraps it.
    return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.zeros(0, dtype)


def stretches(tokens):
    """Yields the parts of `Tokens` to plan at a time: lists of `(document, first segment, last segment + 1)`."""
    # Only documents of more than `BLOCK` tokens are split, at positions that depend only on the document.
    stretch, size, first, begin = [], 0, 0, 0
    for document, last in enumerate(tokens.documents[1:].tolist()):
        end = int(tokens.segments[last])
        while end - begin > BLOCK:
            cut = int(np.searchsorted(tokens.segments, begin + BLOCK))
            if cut >= last:
                break
            yield [*stretch, (document, first, cut)]
            stretch, size = [], 0
            first, begin = cut, int(tokens.segments[cut])
        stretch.append((document, first, last))
        size += end - begin
        if size >= BLOCK:
            yield stretch
            stretch, size = [], 0
        first, begin = last, end
    if stretch:
        yield stretch


def following(tokens, documents, draws, pieces):
    """Returns whole consecutive segments of documents, starting at a random one: all ids, and the length of each text.

    For each text: the index of its document; a number in [0, 1), the relative position of its first segment; the
    minimum number of tokens, `pieces`, fewer at the end of a document.
    """
    first, last = tokens.documents[documents], tokens.documents[documents + 1]
    first = first + (draws * (last - first)).astype(np.int64)
    begin = tokens.segments[first]
    end = np.searchsorted(tokens.segments, begin + np.maximum(pieces, 1))
    lengths = tokens.segments[np.minimum(end, last)] - begin
    return tokens.ids[spans(begin, lengths)], lengths


def spans(begins, lengths):
    """Returns the concatenated ranges of `lengths` integers starting at `begins`."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - ends + lengths, lengths)
