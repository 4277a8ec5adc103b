"""Counts the words of a corpus as the tokenizer sees them, in several processes and little memory."""

import collections
import concurrent.futures
import functools
import glob
import gzip
import math
import multiprocessing
import os
import pathlib
import zlib

import tensorflow as tf

from keras_bert.text.tokenizer import WordSplitter

_PART = 2**24  # Bytes of a file that are one job.
_BATCH = 2**18  # Bytes that are split at a time.
_LONGEST_LINE = 2**10  # The splitter copies a line for each of its words: longer ones are cut.
_WORTH_A_PROCESS = 2**26  # Bytes that take as long to count as a process takes to start.


def count_words(files, lowercase=True, strip_accents=None, held_out_every=None, processes=None, progress=None):
    """Counts the words of text files; `.gz` is read too.

    Memory grows with the number of distinct words, not with the corpus. The counts depend neither on the order of the
    files nor on the number of processes. With more than one process, a script needs the guard
    `if __name__ == "__main__":`, since each process imports it.

    Args:
        files: a glob pattern, `**` included, or a list of paths.
        lowercase, strip_accents: as of the tokenizer.
        held_out_every: each line whose number is a multiple of it is counted apart; `None` for none.
        processes: how many processes count; `None` is one for each 64 MB, as far as there are cores.
        progress: called with a line of text after each part of a file.

    Returns:
        `(counts, held_out)`: how often each word stands in the corpus, and in the lines held out.

    Example:
        counts, _ = count_words("corpus/*.txt")
    """
    if held_out_every is not None and held_out_every < 2:
        raise ValueError(f"`held_out_every` must be at least 2. Received: held_out_every={held_out_every}")
    if processes is not None and processes < 1:
        raise ValueError(f"`processes` must be at least 1. Received: processes={processes}")
    paths = _find(files)
    parts = [part for path in paths for part in _parts(path)]
    if processes is None:
        size = sum(path.stat().st_size for path in paths)
        processes = min(os.cpu_count(), math.ceil(size / _WORTH_A_PROCESS))
    job = functools.partial(_count_part, splitting=(lowercase, strip_accents), held_out_every=held_out_every)
    counts, held_out = collections.Counter(), collections.Counter()
    for number, (counted, apart) in enumerate(_run(job, parts, processes), 1):
        counts.update(counted)
        held_out.update(apart)
        if progress:
            progress(f"counted part {number} of {len(parts)}: {len(counts):,} distinct words")
    if not counts:
        raise ValueError(f"{files}: there are no words")
    return counts, held_out


def _find(files):
    if not isinstance(files, str | pathlib.Path):
        return [pathlib.Path(path) for path in files]
    paths = [path for path in map(pathlib.Path, sorted(glob.glob(str(files), recursive=True))) if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"{files}: no file matches")
    return paths


def _parts(path):
    """(path, start, stop): the lines that begin in between. A packed file is one part."""
    if path.suffix == ".gz":
        return [(path, 0, math.inf)]
    return [(path, start, start + _PART) for start in range(0, path.stat().st_size, _PART)]


def _run(job, parts, processes):
    if min(processes, len(parts)) <= 1:
        yield from map(job, parts)
        return
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork.
    with concurrent.futures.ProcessPoolExecutor(min(processes, len(parts)), context, _use_one_core) as pool:
        yield from pool.map(job, parts)


def _use_one_core():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")


def _count_part(part, splitting, held_out_every):
    path, start, stop = part
    splitter, every = _splitter(*splitting), held_out_every or math.inf
    counts, held_out = collections.Counter(), collections.Counter()
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            for batch in _batches(enumerate(_lines(file, start, stop), 1)):
                counts.update(_words(splitter, (line for number, line in batch if number % every)))
                held_out.update(_words(splitter, (line for number, line in batch if not number % every)))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole .gz file: {error}") from None
    # Decoded late: there are far fewer distinct words.
    return tuple({word.decode(): count for word, count in counter.items()} for counter in (counts, held_out))


def _words(splitter, lines):
    return splitter(tf.constant(list(lines), tf.string)).flat_values.numpy().tolist()


@functools.cache
def _splitter(lowercase, strip_accents):
    return WordSplitter(lowercase, strip_accents)


def _batches(numbered_lines):
    batch, size = [], 0
    for number, line in numbered_lines:
        batch.append((number, line))
        size += len(line)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lines(file, start, stop):
    """The lines that begin in a part of a file; a long one comes in several."""
    if start:
        file.seek(start - 1)
        while (rest := file.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
    while file.tell() < stop and (line := file.readline(_LONGEST_LINE)):
        while len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            cut = _place_to_cut(line)
            yield line[:cut]
            line = line[cut:] + file.readline(cut)
        yield line


def _place_to_cut(line):
    """After the last space, or else before the last character."""
    if b" " in line:
        return line.rindex(b" ") + 1
    begins = [place for place in range(len(line) - 4, len(line)) if line[place] & 0xC0 != 0x80]
    return begins[-1] if begins else len(line)
