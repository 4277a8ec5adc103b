"""Counts the words of a corpus as split by the tokenizer, in several processes and little memory."""

import collections
import functools
import math
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.corpus.lines import check_is_text, check_is_utf8, find, is_packed, lines
from keras_bert.corpus.processes import WORTH_A_PROCESS, Workers
from keras_bert.text import lossless
from keras_bert.text.wordpiece_tokenizer import WordSplitter

_PART = 2**24  # Bytes of a file per job.
_BATCH = 2**18  # Bytes that are split at a time.
_LONGEST_LINE = 2**10  # The splitter copies a line for each of its words, so longer lines are split.


def count_words(
    files: Any,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    held_out_every: int | None = None,
    processes: int | None = None,
    reversible: bool = False,
    progress: Callable | None = None,
) -> Any:
    """Counts the words of text files, plain or `.gz`.

    Memory grows with the number of distinct words, not with the corpus. With several processes a script needs the guard
    `if __name__ == "__main__":`, since each process imports it.

    Args:
        files: a glob pattern, which may contain `**`, or a list of paths.
        lowercase, strip_accents: see `BertTokenizer`.
        held_out_every: int, hold out every n-th line. Defaults to `None`, no held-out lines.
        processes: int, the number of processes. Defaults to one per 64 MB, at most the number of cores.
        reversible: bool, whether to mark the starts of words, see `LosslessTokenizer`. Defaults to `False`.
        progress: function, called with a line of text after each part of a file.

    Returns:
        `(counts, held_out)`: word counts of the corpus and of the held-out lines, by word.
    """
    if held_out_every is not None:
        check_count("held_out_every", held_out_every, 2)
    if processes is not None:
        check_count("processes", processes)
    paths = find(files)
    parts = []
    for path in paths:
        parts.extend(_parts_of_file(path))
    if processes is None:
        processes = _worthwhile_processes(paths)
    splitting = (lowercase, strip_accents, reversible)
    job = functools.partial(_count_part, splitting=splitting, held_out_every=held_out_every)
    counts = collections.Counter()
    held_out = collections.Counter()
    with Workers(min(processes, len(parts))) as workers:
        for number, (part_counts, part_held_out) in enumerate(workers.run(job, parts), 1):
            counts.update(part_counts)
            held_out.update(part_held_out)
            if progress:
                progress(f"counted part {number} of {len(parts)}: {len(counts):,} distinct words")
    if not counts:
        raise ValueError(f"{files}: the files contain no words")
    return counts, held_out


def _worthwhile_processes(paths):
    """Returns how many processes the files are worth, at most one for each core."""
    size = sum(path.stat().st_size for path in paths)
    return min(os.cpu_count(), math.ceil(size / WORTH_A_PROCESS))


def _parts_of_file(path):
    """Returns `(path, start, stop)` of each part: the lines that start in between. A `.gz` file is one part."""
    if is_packed(path):
        return [(path, 0, math.inf)]
    starts = range(0, path.stat().st_size, _PART)
    return [(path, start, start + _PART) for start in starts]


def _count_part(part, splitting, held_out_every):
    """Returns the word counts of a part and of its held-out lines."""
    path, start, stop = part
    splitter = _splitter(*splitting)
    counts = collections.Counter()
    held_out = collections.Counter()
    if not start:
        check_is_text(path)
    number = 0
    for batch in _batches(_checked_lines(path, start, stop)):
        lines_to_count = []
        lines_held_out = []
        for line in batch:
            number += 1
            if held_out_every and number % held_out_every == 0:
                lines_held_out.append(line)
            else:
                lines_to_count.append(line)
        counts.update(_words_of_lines(splitter, lines_to_count))
        held_out.update(_words_of_lines(splitter, lines_held_out))
    # Decoded after counting, since there are far fewer distinct words.
    return _decoded(counts), _decoded(held_out)


def _decoded(counts):
    return {word.decode(): count for word, count in counts.items()}


def _checked_lines(path, start, stop):
    """Yields the lines that start in a range of a file; raises if one is not UTF-8."""
    for place, line in lines(path, start, stop, _LONGEST_LINE):
        check_is_utf8(path, place, line)
        yield line


def _words_of_lines(splitter, lines_of_batch):
    """Returns the words of some lines as bytes."""
    return splitter(tf.constant(lines_of_batch, tf.string)).flat_values.numpy().tolist()


@functools.cache
def _splitter(lowercase, strip_accents, reversible):
    """Returns the function that splits texts into words."""
    splitter = WordSplitter(lowercase, strip_accents)
    if not reversible:
        return splitter

    def split_marked(texts):
        return splitter(lossless.learned_words(texts))

    return split_marked


def _batches(lines_of_part):
    """Yields lists of lines of a limited size in all."""
    batch = []
    size = 0
    for line in lines_of_part:
        batch.append(line)
        size += len(line)
        if size >= _BATCH:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch
