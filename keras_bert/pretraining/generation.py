"""Generates pre-training data on one machine: from text to shards of ids to shards of records.

Both passes run in any number of processes, in memory independent of the corpus size, and resume interrupted runs.
"""

import collections
import dataclasses
import errno
import functools
import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.corpus import documents, lines, processes
from keras_bert.files import json_text, read_json, write_json
from keras_bert.pretraining import sentence_pairs, token_store
from keras_bert.pretraining.example_builder import LENGTH_BINS, ExampleBuilder, Settings
from keras_bert.pretraining.record_files import MANIFEST, content_hash
from keras_bert.text.vocabulary import Vocabulary

_WORK = "unfinished"  # Folder for temporary files.
_SHARD = 2**26  # Bytes of text per shard by default.
_FEWEST_SHARDS = 16


def generate(files, output, vocabulary, settings, *, shards=None, workers=None, compress=False, progress=None):
    """Writes records, `vocab.txt` and `manifest.json` to a folder, and returns the manifest as a dict.

    The examples do not depend on the number of workers. They depend on the number of shards only without next sentence
    prediction, where rows span documents. With several workers a script needs the guard `if __name__ == "__main__":`.

    Args:
        files: a glob pattern or a list of paths, plain or `.gz`.
        output: the folder. An interrupted run with the same settings resumes.
        vocabulary: a path, a list of pieces or a `Vocabulary`.
        settings: a `Settings`.
        shards: int, the number of record files. Defaults to one per 64 MB of text, at least 16.
        workers: int, the number of processes. Defaults to one per 64 MB of text, at most the number of cores.
        compress: bool, whether to write `.gz` files. Defaults to `False`.
        progress: function, called with a line of text after each shard.

    Example:
        generate("corpus/*.txt", "data/128", "vocab.txt", Settings(sequence_length=128))
    """
    output = pathlib.Path(output)
    vocabulary = Vocabulary(vocabulary)
    paths, header = find_corpus(files, vocabulary, settings, shards, compress)
    process_count = _process_count(workers, header)
    if header.shards < 1 or process_count < 1:
        raise ValueError(
            f"`shards` and `workers` must be at least 1. Received: shards={header.shards}, workers={process_count}"
        )
    work = output / _WORK
    finished = _begin(output, header)
    if finished:
        shutil.rmtree(work, ignore_errors=True)  # Left by a run interrupted at its last step.
        return finished
    vocabulary.save(output / "vocab.txt")
    run = _GenerationRun(output, vocabulary, settings, header, progress or _no_progress)
    try:
        with processes.Workers(process_count) as pool:
            sizes = run.tokenize(pool, paths)
            before = documents_before(sizes)
            check_corpus(files, before[-1], settings)
            run.write(pool, before)
        manifest = _manifest(output, header, sizes, settings)
    except ValueError:
        shutil.rmtree(work)  # Not usable for another corpus or other settings.
        raise
    write_json(output / MANIFEST, manifest)
    shutil.rmtree(work)
    return manifest


def _process_count(workers, header):
    """Returns the number of processes: the given one, or one for each 64 MB of text up to the number of cores."""
    if workers:
        return workers
    worth_it = -(-header.input_size // processes.WORTH_A_PROCESS)
    return min(os.cpu_count(), header.shards, worth_it)


def _no_progress(line):
    """Shows nothing."""


@dataclasses.dataclass(frozen=True)
class RunHeader:
    """What identifies a run; the manifest begins with it."""

    input: list  # `[path, size]` of each file of the corpus.
    content: str  # A hash of the files.
    vocabulary: str  # A hash of the pieces.
    recipe: dict  # The settings.
    shards: int
    compressed: bool

    @property
    def input_size(self):
        """The bytes of the corpus."""
        return sum(size for _, size in self.input)

    def to_json(self):
        """Returns the header as a dict."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class _GenerationRun:
    """The two passes over the shards of a corpus, those that are left of an interrupted run."""

    output: pathlib.Path
    vocabulary: Vocabulary
    settings: Settings
    header: RunHeader
    progress: Callable

    @property
    def _work(self):
        return self.output / _WORK

    def tokenize(self, pool, paths):
        """Writes the tokens of each shard; returns their counts."""
        shards = []
        for index in range(self.header.shards):
            shards.append(token_store.Shard(self._work, index, len(self.vocabulary)))
        todo = []
        for index, ranges in enumerate(documents.cut_corpus(paths, len(shards))):
            if shards[index].counts() is None:
                todo.append((index, ranges))
        job = self._job(_tokenize, work=self._work)
        self._run_all(pool, job, todo, "tokenized")
        return [shard.counts() for shard in shards]

    def write(self, pool, before):
        """Writes the records of each shard; `before` are the documents before each, see `documents_before`."""
        todo = []
        for index, name in enumerate(record_names(self.header)):
            if not _counts_file(self._work, index).exists():
                todo.append((index, name))
        job = self._job(_write, output=self.output, before=before)
        self._run_all(pool, job, todo, "wrote")

    def _job(self, task, **options):
        """Returns the function of a worker, which runs a task for an item."""
        return functools.partial(_run_task, task, vocabulary=self.vocabulary, settings=self.settings, **options)

    def _run_all(self, pool, job, todo, done):
        """Runs a job for the remaining shards."""
        for number, _ in enumerate(pool.run(job, todo), 1):
            self.progress(f"{done} {number} of {len(todo)} shards")


def documents_before(sizes):
    """Returns the number of documents before each shard, and the total; `sizes` are the counts of the shards."""
    return np.cumsum([0, *(size["documents"] for size in sizes)])


def find_corpus(files, vocabulary, settings, shards, compress):
    """Returns the paths, and the `RunHeader`."""
    paths = lines.find(files)
    sizes = [path.stat().st_size for path in paths]
    total = sum(sizes)
    if not total:
        raise ValueError(f"{files}: the corpus is empty")
    header = RunHeader(
        input=[[str(path), size] for path, size in zip(paths, sizes, strict=True)],
        content=content_hash(paths),
        vocabulary=vocabulary.sha256,
        recipe=dataclasses.asdict(settings),
        shards=shards or max(-(-total // _SHARD), _FEWEST_SHARDS),
        compressed=compress,
    )
    return paths, header


def check_corpus(files, count, settings):
    """Checks that there are enough documents."""
    if not count:
        raise ValueError(f"{files}: the corpus contains no text")
    if count == 1 and settings.next_sentence:
        raise ValueError(
            f"{files}: the corpus is one document, so random B's have no other source. Separate documents by blank "
            "lines, set `format` to jsonl, or turn off `next_sentence`"
        )


def _begin(output, header):
    """Creates the folder, or raises an error if it is from another run. Returns the manifest of a finished run."""
    work = output / _WORK
    for path in (output / MANIFEST, work / "settings.json"):
        if path.exists():
            stored = read_json(path)
            check_settings(output, stored, header)
            is_finished = path.name == MANIFEST
            return stored if is_finished else None
    work.mkdir(parents=True, exist_ok=True)
    _check_room(output, header)
    write_json(work / "settings.json", header.to_json())
    return None


def check_settings(output, stored, header):
    """Raises an error if the folder is from another run."""
    expected = json.loads(json_text(header.to_json()))
    differing = [name for name in expected if stored.get(name) != expected[name]]
    if differing:
        raise ValueError(
            f"{output} contains data from different settings or input files: {', '.join(differing)}. Expected the same "
            "ones to resume, or another folder for the output; or delete this one"
        )


def _check_room(output, header):
    """Raises if the disk has too little space: half of the text for tokens, and each duplicate for records."""
    free = shutil.disk_usage(output).free
    needed = header.input_size // 2
    if not header.compressed:
        needed += header.input_size * header.recipe["duplicates"]
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f"not enough disk space in {output}: {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free",
        )


def _run_task(task, item, vocabulary, settings, **options):
    """Runs one job of a worker."""
    index, value = item
    try:
        task(builder_of_process(vocabulary, settings), index, value, **options)
    except (OSError, tf.errors.OpError) as error:
        is_full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        if not is_full:
            raise
        raise OSError(errno.ENOSPC, "the disk is full; run again to resume, finished shards are kept") from None


builder_of_process = functools.lru_cache(maxsize=4)(ExampleBuilder)  # Those of this process.


def _tokenize(builder, shard, ranges, work):
    """Writes the tokens of a shard."""
    token_store.Shard(work, shard, len(builder.vocabulary)).write(builder.tokenize(ranges))


def _write(builder, shard, name, output, before):
    """Writes the records of a shard, and their counts."""
    work = output / _WORK
    tokens = token_store.Shard(work, shard, len(builder.vocabulary)).read()
    temporary = work / name
    compression = "GZIP" if temporary.suffix == ".gz" else ""
    counts = collections.Counter()
    with tf.io.TFRecordWriter(str(temporary), compression) as writer:
        for examples, dropped in _examples(builder, tokens, shard, work, before):
            records, counted = builder.serialize(examples)
            counts.update(counted, dropped=dropped)
            for record in records:
                writer.write(record)
    temporary.rename(output / name)
    write_json(_counts_file(work, shard), counts)


def _examples(builder, tokens, shard, work, before):
    """Yields `PackedExamples` of a shard, and the number of texts without an example."""
    for duplicate in range(builder.settings.duplicates):
        if not builder.settings.next_sentence:
            for examples in builder.rows(tokens, shard, duplicate):
                yield examples, 0
            continue
        for plan in builder.plans(tokens, before[shard], duplicate):
            others, lengths = _fetch_others(builder, plan, work, before)
            yield builder.pairs(tokens, plan, others, lengths), plan.dropped


def _fetch_others(builder, plan, work, before):
    """Reads the texts of the random B's of a plan: their concatenated ids, and their lengths."""
    texts = []
    for request in find_others(plan, before):
        tokens = token_store.Shard(work, request.shard, len(builder.vocabulary)).read()
        texts.append(request.answer(tokens))
    return sort_others(texts)


class OtherTexts(NamedTuple):
    """Texts of random B's."""

    rows: np.ndarray  # Their indices in the plan.
    ids: np.ndarray  # Those of all texts, one after another.
    lengths: np.ndarray


class OthersRequest(NamedTuple):
    """The random B's of a plan that are in one shard; arrays with a value for each."""

    shard: int
    rows: np.ndarray  # Their indices in the plan.
    documents: np.ndarray  # Those of the shard to draw from.
    draws: np.ndarray  # Random numbers.
    pieces: np.ndarray  # The wanted numbers of tokens.

    def answer(self, tokens):
        """Returns the `OtherTexts`, given the tokens of the shard."""
        ids, lengths = token_store.following(tokens, self.documents, self.draws, self.pieces)
        return OtherTexts(self.rows, ids, lengths)


def find_others(plan, before):
    """Yields an `OthersRequest` for each shard that has random B's of a plan."""
    numbers, draws = sentence_pairs.choose_others(plan, before[-1])
    wanted = plan.wanted[plan.wanted > 0]
    shards = np.searchsorted(before, numbers, "right") - 1
    for shard in np.unique(shards).tolist():
        rows = np.flatnonzero(shards == shard)
        yield OthersRequest(shard, rows, numbers[rows] - before[shard], draws[rows], wanted[rows])


def sort_others(texts):
    """Sorts a list of `OtherTexts` by row; returns the concatenated ids and the lengths."""
    nothing = OtherTexts(np.zeros(0, int), np.zeros(0, np.uint8), np.zeros(0, int))
    parts = [nothing, *texts]
    rows = np.concatenate([part.rows for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    order = np.argsort(rows)
    begins = np.cumsum(lengths) - lengths
    return ids[token_store.spans(begins[order], lengths[order])], lengths[order]


def record_names(header):
    """Returns the names of the record files."""
    shards = header.shards
    suffix = ".gz" if header.compressed else ""
    return [f"examples-{shard:05}-of-{shards:05}.tfrecord{suffix}" for shard in range(shards)]


def _counts_file(work, shard):
    """Returns the path of the counts of a shard, which is written last."""
    return work / f"counts-{shard:05}.json"


def _manifest(output, header, sizes, settings):
    """Returns the manifest of the shards in a folder."""
    files = []
    counts = collections.Counter()
    for shard, name in enumerate(record_names(header)):
        of_shard = read_json(_counts_file(output / _WORK, shard))
        size = (output / name).stat().st_size
        files.append(manifest_file(name, of_shard.get("examples", 0), size))
        counts.update(of_shard)
    return make_manifest(header, sizes, files, counts, settings)


def manifest_file(name, examples, size):
    """Returns what the manifest says about a file of records; `size` is in bytes."""
    return {"name": name, "examples": examples, "bytes": size}


def make_manifest(header, sizes, files, counts, settings):
    """Returns the manifest, from the sizes of the shards, the `manifest_file` of each file, and all counts."""
    manifest = header.to_json()
    manifest["corpus"] = {}
    for name in ("documents", "segments", "pieces"):
        manifest["corpus"][name] = sum(size[name] for size in sizes)
    manifest["files"] = files
    manifest.update(summary(counts, settings))
    return manifest


def summary(counts, settings):
    """Returns statistics of all examples, from the sum of the counts of `ExampleBuilder.serialize`."""
    examples = counts["examples"]
    tokens = counts["tokens"]
    if not examples:
        raise ValueError("no examples in the corpus: its texts are single words. Expected longer texts")
    if settings.static and not counts["predictions"]:
        raise ValueError("the corpus has no token to predict: all are [UNK]. Expected a vocabulary of its language")
    result = {
        "examples": examples,
        "tokens": tokens,
        "padding_share": 1 - tokens / (examples * settings.sequence_length),
        "truncated_tokens": counts["truncated"],
        "unknown_share": counts["unknown"] / tokens,
        "length_histogram": [counts[f"length_{number}"] for number in range(LENGTH_BINS)],
    }
    if settings.next_sentence:
        result["random_share"] = counts["random"] / examples
        result["dropped_texts"] = counts["dropped"]
    if settings.static:
        predictions = counts["predictions"]
        result["predictions"] = predictions
        result["predicted_share"] = predictions / tokens
        result["mask_share"] = counts["masked"] / predictions
        result["kept_share"] = counts["kept"] / predictions
    return result
