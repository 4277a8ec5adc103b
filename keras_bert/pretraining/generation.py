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

import numpy as np
import tensorflow as tf

from keras_bert.corpus import documents, lines, processes
from keras_bert.files import json_text, read_json, write_json
from keras_bert.pretraining import sentence_pairs, token_store
from keras_bert.pretraining.example_builder import LENGTH_BINS, ExampleBuilder
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
    output, vocabulary, progress = pathlib.Path(output), Vocabulary(vocabulary), progress or (lambda line: None)
    paths, header = find_corpus(files, vocabulary, settings, shards, compress)
    size, shards = sum(size for _, size in header["input"]), header["shards"]
    workers = workers or min(os.cpu_count(), shards, -(-size // processes.WORTH_A_PROCESS))
    if min(shards, workers) < 1:
        raise ValueError(f"`shards` and `workers` must be at least 1. Received: shards={shards}, workers={workers}")
    work = output / _WORK
    if finished := _begin(output, header):
        shutil.rmtree(work, ignore_errors=True)  # Left by a run interrupted at its last step.
        return finished
    vocabulary.save(output / "vocab.txt")
    job = functools.partial(_run, vocabulary=vocabulary, settings=settings)
    stored = [token_store.Shard(work, index, len(vocabulary)) for index in range(shards)]
    try:
        with processes.Workers(workers) as pool:
            ranges = enumerate(documents.cut_corpus(paths, shards))
            todo = [(index, part) for index, part in ranges if stored[index].counts() is None]
            _run_all(pool, functools.partial(job, _tokenize, work=work), todo, "tokenized", progress)
            sizes = [shard.counts() for shard in stored]
            before = np.cumsum([0, *(counts["documents"] for counts in sizes)])
            check_corpus(files, before[-1], settings)
            names = enumerate(record_names(header))
            todo = [(index, name) for index, name in names if not _counts_file(work, index).exists()]
            _run_all(pool, functools.partial(job, _write, output=output, before=before), todo, "wrote", progress)
        manifest = _manifest(output, header, sizes, settings)
    except ValueError:
        shutil.rmtree(work)  # Not usable for another corpus or other settings.
        raise
    write_json(output / MANIFEST, manifest)
    shutil.rmtree(work)
    return manifest


def _run_all(pool, job, todo, done, progress):
    """Runs the jobs of the remaining shards."""
    for number, _ in enumerate(pool.run(job, todo), 1):
        progress(f"{done} {number} of {len(todo)} shards")


def find_corpus(files, vocabulary, settings, shards, compress):
    """Returns the paths, and the header of the manifest, which identifies a run."""
    paths = lines.find(files)
    sizes = [path.stat().st_size for path in paths]
    if not sum(sizes):
        raise ValueError(f"{files}: the corpus is empty")
    return paths, {
        "input": [[str(path), size] for path, size in zip(paths, sizes, strict=True)],
        "content": content_hash(paths),
        "vocabulary": vocabulary.sha256,
        "recipe": dataclasses.asdict(settings),
        "shards": shards or max(-(-sum(sizes) // _SHARD), _FEWEST_SHARDS),
        "compressed": compress,
    }


def check_corpus(files, count, settings):
    """Checks that there are enough documents."""
    if not count:
        raise ValueError(f"{files}: the corpus contains no text")
    if count == 1 and settings.next_sentence:
        raise ValueError(
            f"{files}: the corpus is one document, so random B's have no other source. Separate documents by blank "
            "lines, set `form` to jsonl, or turn off `next_sentence`"
        )


def _begin(output, header):
    """Creates the folder, or raises an error if it is from another run. Returns the manifest of a finished run."""
    work = output / _WORK
    for path in (output / MANIFEST, work / "settings.json"):
        if path.exists():
            stored = read_json(path)
            check_settings(output, stored, header)
            return stored if path.name == MANIFEST else None
    work.mkdir(parents=True, exist_ok=True)
    _check_room(output, header)
    write_json(work / "settings.json", header)
    return None


def check_settings(output, stored, header):
    """Raises an error if the folder is from another run."""
    expected = json.loads(json_text(header))
    if differing := [name for name in expected if stored.get(name) != expected[name]]:
        raise ValueError(
            f"{output} contains data from different settings or input files: {', '.join(differing)}. Expected the same "
            "ones to resume, or another `output`; or delete the folder"
        )


def _check_room(output, header):
    free = shutil.disk_usage(output).free
    size = sum(size for _, size in header["input"])
    needed = size // 2 + (0 if header["compressed"] else size * header["recipe"]["duplicates"])
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f"not enough disk space in {output}: {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free",
        )


def _run(task, item, vocabulary, settings, **options):
    """Runs one job of a worker."""
    try:
        task(_builder(vocabulary, settings), *item, **options)
    except (OSError, tf.errors.OpError) as error:
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        if not full:
            raise
        raise OSError(errno.ENOSPC, "the disk is full; run again to resume, finished shards are kept") from None


_builder = functools.lru_cache(maxsize=4)(ExampleBuilder)


def _tokenize(builder, shard, ranges, work):
    token_store.Shard(work, shard, len(builder.vocabulary)).write(builder.tokenize(ranges))


def _write(builder, shard, name, output, before):
    work = output / _WORK
    tokens = token_store.Shard(work, shard, len(builder.vocabulary)).read()
    temporary, counts = work / name, collections.Counter()
    with tf.io.TFRecordWriter(str(temporary), "GZIP" if temporary.suffix == ".gz" else "") as writer:
        for examples, dropped in _examples(builder, tokens, shard, work, before):
            records, counted = builder.serialize(examples)
            counts.update(counted, dropped=dropped)
            for record in records:
                writer.write(record)
    temporary.rename(output / name)
    write_json(_counts_file(work, shard), counts)


def _examples(builder, tokens, shard, work, before):
    """Yields `Examples` of a shard, and the number of texts without an example."""
    for duplicate in range(builder.settings.duplicates):
        if not builder.settings.next_sentence:
            yield from ((examples, 0) for examples in builder.rows(tokens, shard, duplicate))
            continue
        for plan in builder.plans(tokens, before[shard], duplicate):
            yield builder.pairs(tokens, plan, *_fetch(builder, plan, work, before)), plan.dropped


def _fetch(builder, plan, work, before):
    """Reads the texts of the random B's of a plan: their concatenated ids, and their lengths."""
    texts = []
    for shard, rows, *which in find_others(plan, before):
        tokens = token_store.Shard(work, shard, len(builder.vocabulary)).read()
        texts.append((rows, *token_store.following(tokens, *which)))
    return sort_others(texts)


def find_others(plan, before):
    """Yields the random B's of a plan by shard: their indices in the plan, and arguments of `token_store.following`."""
    numbers, draws = sentence_pairs.choose_others(plan, before[-1])
    wanted = plan.wanted[plan.wanted > 0]
    shards = np.searchsorted(before, numbers, "right") - 1
    for shard in np.unique(shards).tolist():
        rows = np.flatnonzero(shards == shard)
        yield shard, rows, numbers[rows] - before[shard], draws[rows], wanted[rows]


def sort_others(texts):
    """Sorts `(rows, ids, lengths)` by row; returns the concatenated ids and the lengths."""
    nothing = np.zeros(0, int), np.zeros(0, np.uint8), np.zeros(0, int)
    rows, ids, lengths = map(np.concatenate, zip(nothing, *texts, strict=True))
    order, begins = np.argsort(rows), np.cumsum(lengths) - lengths
    return ids[token_store.spans(begins[order], lengths[order])], lengths[order]


def record_names(header):
    """Returns the names of the record files."""
    shards, suffix = header["shards"], ".gz" if header["compressed"] else ""
    return [f"examples-{shard:05}-of-{shards:05}.tfrecord{suffix}" for shard in range(shards)]


def _counts_file(work, shard):
    return work / f"counts-{shard:05}.json"


def _manifest(output, header, sizes, settings):
    counts = [read_json(_counts_file(output / _WORK, shard)) for shard in range(header["shards"])]
    files = [
        (name, part.get("examples", 0), (output / name).stat().st_size)
        for name, part in zip(record_names(header), counts, strict=True)
    ]
    return make_manifest(header, sizes, files, sum(map(collections.Counter, counts), collections.Counter()), settings)


def make_manifest(header, sizes, files, counts, settings):
    """Returns the manifest, from the sizes of the shards, the name, examples and bytes of each file, and all counts."""
    return {
        **header,
        "corpus": {name: sum(size[name] for size in sizes) for name in ("documents", "segments", "pieces")},
        "files": [dict(zip(("name", "examples", "bytes"), file, strict=True)) for file in files],
        **summary(counts, settings),
    }


def summary(counts, settings):
    """Returns statistics of all examples, from the sum of the counts of `ExampleBuilder.serialize`."""
    examples, tokens = counts["examples"], counts["tokens"]
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
        "length_histogram": [counts[f"length_{bin}"] for bin in range(LENGTH_BINS)],
    }
    if settings.next_sentence:
        result |= {"random_share": counts["random"] / examples, "dropped_texts": counts["dropped"]}
    if settings.static:
        predictions = counts["predictions"]
        result |= {
            "predictions": predictions,
            "predicted_share": predictions / tokens,
            "mask_share": counts["masked"] / predictions,
            "kept_share": counts["kept"] / predictions,
        }
    return result
