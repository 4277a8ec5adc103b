"""Stores a tokenized corpus on disk, in constant memory, for reading in blocks and at random positions.

A sentence longer than half an example is split between words into several segments, so that no text is lost.
"""

import contextlib
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.files import read_json, write_json

BATCH = 2**18  # Bytes to tokenize at a time.
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
    for batch, ends in _batches(sentences):
        pieces = tokenizer(tf.constant(batch, tf.string))
        ids = pieces.values.numpy()
        sentence_lengths = pieces.row_lengths().numpy()
        lengths, segment_counts = _segments(sentence_lengths, ids, longest, is_continuation)
        segments_before = np.cumsum([0, *segment_counts])
        yield ids, lengths, segments_before[ends]


def _batches(sentences):
    """Yields lists of sentences, and the numbers of sentences in the list after which a document ends."""
    batch = []
    ends = []
    size = 0
    for sentence in sentences:
        if sentence is None:
            ends.append(len(batch))
            continue
        batch.append(sentence)
        size += len(sentence)
        if size >= BATCH:
            yield batch, ends
            batch = []
            ends = []
            size = 0
    yield batch, ends


def _segments(lengths, ids, longest, is_continuation):
    """Returns the lengths of the segments of sentences, and the number of segments of each sentence."""
    if lengths.max(initial=0) <= longest:
        return lengths[lengths > 0], (lengths > 0).astype(int)
    segments = []
    counts = []
    end = 0
    for length in lengths.tolist():
        begin = end
        end = begin + length
        own = []
        # Differs from BERT: no part of a long sentence is lost.
        while end - begin > longest:
            # The last word that starts within the next segment starts the one after it.
            words = np.flatnonzero(~is_continuation[ids[begin + 1 : begin + longest + 1]])
            step = int(words[-1]) + 1 if words.size else longest
            own.append(step)
            begin += step
        if end > begin:
            own.append(end - begin)
        segments.extend(own)
        counts.append(len(own))
    return np.array(segments), counts


def collect(blocks):
    """Collects all blocks of `tokenize` into `Tokens`, in memory."""
    parts = list(_placed(blocks))
    return Tokens(
        ids=np.concatenate([part.ids for part in parts]),
        segments=np.concatenate([part.segments for part in parts]),
        documents=np.concatenate([part.documents for part in parts]),
    )


def _placed(blocks):
    """Yields the part of `Tokens` that each block of `tokenize` adds, without empty documents."""
    first_end = np.zeros(1, np.int64)
    yield Tokens(ids=np.zeros(0, np.int32), segments=first_end, documents=first_end)
    piece_count = 0
    segment_count = 0
    last_end = 0  # Of a document.
    for ids, lengths, ends in blocks:
        document_ends = np.unique(segment_count + np.asarray(ends, np.int64))
        document_ends = document_ends[document_ends > last_end]
        segment_ends = piece_count + np.cumsum(lengths, dtype=np.int64)
        yield Tokens(ids=ids, segments=segment_ends, documents=document_ends)
        piece_count += len(ids)
        segment_count += len(lengths)
        if len(document_ends):
            last_end = int(document_ends[-1])


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
            files = {}
            for name in Tokens._fields:
                files[name] = stack.enter_context(open(self._file(name), "wb"))
            for part in _placed(blocks):
                files["ids"].write(part.ids.astype(self._dtype).tobytes())
                files["segments"].write(part.segments.tobytes())
                files["documents"].write(part.documents.tobytes())
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
        return Tokens(
            ids=_mapped(self._file("ids"), self._dtype),
            segments=_mapped(self._file("segments"), np.int64),
            documents=_mapped(self._file("documents"), np.int64),
        )


def _mapped(path, dtype):
    """Returns the memory-mapped array of a file."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)  # NumPy cannot map empty files.
    # Indexing a `memmap` is slower than indexing an array that wraps it.
    return np.asarray(np.memmap(path, dtype, "r"))


def stretches(tokens):
    """Yields the parts of `Tokens` to plan at a time: lists of `(document, first segment, last segment + 1)`."""
    # Only documents of more than `BLOCK` tokens are split, at positions that depend only on the document.
    stretch = []
    size = 0
    first = 0  # The first segment of the document that is not in a stretch yet, and where it starts in the ids.
    begin = 0
    for document, last in enumerate(tokens.documents[1:].tolist()):
        end = int(tokens.segments[last])
        while end - begin > BLOCK:
            cut = int(np.searchsorted(tokens.segments, begin + BLOCK))
            if cut >= last:
                break
            yield [*stretch, (document, first, cut)]
            stretch = []
            size = 0
            first = cut
            begin = int(tokens.segments[cut])
        stretch.append((document, first, last))
        size += end - begin
        if size >= BLOCK:
            yield stretch
            stretch = []
            size = 0
        first = last
        begin = end
    if stretch:
        yield stretch


def following(tokens, documents, draws, pieces):
    """Returns whole consecutive segments of documents, starting at a random one: all ids, and the length of each text.

    For each text: the index of its document; a number in [0, 1), the relative position of its first segment; the
    minimum number of tokens, `pieces`, fewer at the end of a document.
    """
    document_start = tokens.documents[documents]
    document_end = tokens.documents[documents + 1]
    first = document_start + (draws * (document_end - document_start)).astype(np.int64)
    begin = tokens.segments[first]
    last = np.searchsorted(tokens.segments, begin + np.maximum(pieces, 1))
    end = tokens.segments[np.minimum(last, document_end)]
    lengths = end - begin
    return tokens.ids[spans(begin, lengths)], lengths


def spans(begins, lengths):
    """Returns the concatenated ranges of `lengths` integers starting at `begins`."""
    ends = np.cumsum(lengths)
    count = ends[-1] if len(ends) else 0
    return np.arange(count) + np.repeat(begins - ends + lengths, lengths)
