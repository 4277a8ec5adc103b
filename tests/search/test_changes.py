"""Changes of an index, against indexes of the same passages that are built anew; other processes, and full disks."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys

import faiss
import numpy as np
import pytest

from keras_bert.search import changes, index_files
from keras_bert.search.data import Passage
from keras_bert.search.index_files import IndexFacts
from keras_bert.search.nearest import StoredVectors

WIDTH = 8


def passages_of(numbers):
    return [Passage(f"p{number}", f"text {number}") for number in numbers]


def vectors_of(passages, width=WIDTH):
    """Returns vectors that follow from the texts."""
    seeds = [int(passage.text.split()[1]) % 37 for passage in passages]
    return np.array([np.random.default_rng(seed).standard_normal(width) for seed in seeds], "float32")


def keys_of(passages):
    return np.array([index_files.passage_keys(passage) for passage in passages], "uint64")


def facts_of(passages, width=WIDTH, **options):
    source = index_files.fingerprint(keys_of(passages))
    values = {"model": {}, "name": None, "block": 16384, "similarity": "dot", "dtype": "float16", "approximate": False}
    values |= {"query_prompt": "", "passage_prompt": "", "next_id": len(passages), "blocks": ()}
    return IndexFacts(source=source, passages=len(passages), width=width, **{**values, **options})


def build(directory, passages, vectors=None, embed=vectors_of, **options):
    """Builds an index of passages, whose vectors are given or follow from the texts; returns its facts."""
    if vectors is not None:
        rows = {passage.id: vector for passage, vector in zip(passages, vectors, strict=True)}
        options["width"] = vectors.shape[1]
        embed = lambda part: np.stack([rows[passage.id] for passage in part])  # noqa: E731
    with changes.writing(directory):
        changes.carry_out(directory, changes.plan_build(facts_of(passages, **options)), passages, embed)
    return index_files.find_facts(directory)


def add(directory, passages, embed=vectors_of):
    with changes.writing(directory):
        facts = index_files.find_facts(directory)
        keys = np.concatenate([index_files.read_keys(directory, facts), keys_of(passages)])
        count = len(passages)
        plan = changes.plan_addition(facts, count, index_files.fingerprint(keys), facts.next_id + count)
        changes.carry_out(directory, plan, passages, embed)
    return index_files.find_facts(directory)


def remove(directory, names):
    with changes.writing(directory):
        facts = index_files.find_facts(directory)
        removed = np.array([name in names for name in ids(directory)])
        source = index_files.fingerprint(index_files.read_keys(directory, facts)[~removed])
        changes.carry_out(directory, changes.plan_removal(facts, removed, source))
    return index_files.find_facts(directory)


def ids(directory):
    facts = index_files.find_facts(directory)
    lines = [index_files.Lines(directory, block) for block in facts.blocks]
    return [part.passage(row)["id"] for part in lines for row in range(len(part))]


def answers(directory, count):
    """Returns the numbers and scores of all passages for some queries, and the ids of all."""
    facts = index_files.find_facts(directory)
    queries = np.random.default_rng(5).standard_normal((count, facts.width)).astype("float32")
    numbers, scores = StoredVectors(directory, facts).nearest(queries, facts.passages)
    return numbers.tolist(), scores.tolist(), ids(directory), facts.source


def content(folder):
    """Returns the files; a process that is killed as it makes its folder leaves that for an hour, empty."""
    folders = [path for path in folder.iterdir() if path.is_dir()]
    assert not any(file for path in folders for file in path.iterdir() if file.name != "lock")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def files_of(facts):
    """Returns the names of the files that belong to an index, by hand."""
    names = {".lock", "index.json"}
    for block in facts.blocks:
        names |= {f"passages-{block.number:05}.jsonl", f"offsets-{block.number:05}.npy", f"keys-{block.number:05}.npy"}
        names.add(f"vectors-{block.number:05}.faiss")
    if facts.graph is not None:
        names.add(f"graph-{facts.graph:05}.faiss")
    return names


@pytest.mark.parametrize("block", [4, 50])
def test_changes_give_what_a_new_index_gives(tmp_path, block):
    """A series of random changes, to the bit, also of an index with other blocks."""
    rng = np.random.default_rng(block)
    passages = passages_of(range(12))
    build(tmp_path / "index", passages, block=block)
    for number in range(7):
        if number % 2:
            names = {passages[row].id for row in rng.choice(len(passages), rng.integers(1, len(passages) // 2), False)}
            passages = [passage for passage in passages if passage.id not in names]
            facts = remove(tmp_path / "index", names)
        else:
            new = passages_of(range(1000 * (number + 1), 1000 * (number + 1) + rng.integers(1, 14)))
            passages = passages + new
            facts = add(tmp_path / "index", new)
        assert set(content(tmp_path / "index")) == files_of(facts)
        build(tmp_path / f"new {number}", passages)
        for count in (3, 64):
            assert answers(tmp_path / "index", count) == answers(tmp_path / f"new {number}", count)
        assert all(part.rows <= block for part in facts.blocks)


def test_additions_alone_write_the_same_files(tmp_path):
    """Of blocks; their numbers differ."""
    build(tmp_path / "new", passages_of(range(23)), block=5)
    build(tmp_path / "index", passages_of(range(2)), block=5)
    for end in (3, 11, 12, 23):
        facts = add(tmp_path / "index", passages_of(range(len(ids(tmp_path / "index")), end)))
    for number, block in enumerate(facts.blocks):
        for what in ("passages", "offsets", "keys", "vectors"):
            new = index_files.file_of(tmp_path / "new", what, number).read_bytes()
            assert index_files.file_of(tmp_path / "index", what, block.number).read_bytes() == new


def test_int8_keeps_its_ranges(tmp_path):
    """What stays has the same codes; what is added is rounded by the ranges of the first passages."""
    passages = passages_of(range(60))
    build(tmp_path, passages[:50], block=20, dtype="int8")
    before = answers(tmp_path, 3)
    add(tmp_path, passages[50:])
    exact = vectors_of(passages)
    facts = remove(tmp_path, {"p3", "p55"})
    stored = StoredVectors(tmp_path, facts)._some(np.arange(58))
    np.testing.assert_allclose(stored, np.delete(exact, [3, 55], 0), atol=0.03)
    add(tmp_path, passages[3:4])
    remove(tmp_path, {f"p{number}" for number in range(50, 60)} | {"p3"})
    found = answers(tmp_path, 3)
    scores = [dict(zip(row, values, strict=True)) for row, values in zip(before[0], before[1], strict=True)]
    for row, values, expected in zip(found[0], found[1], scores, strict=True):
        names = [found[2][number] for number in row]
        assert values == [expected[int(name[1:])] for name in names]


class Killed(BaseException):
    """Stands for a kill, which no code catches."""


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("change", ["add", "remove"])
def test_an_interrupted_change_leaves_the_index(tmp_path, monkeypatch, change, approximate):
    """Killed before each of its writes and removals in turn; repeated, it continues; another change forgets it."""
    faiss.omp_set_num_threads(1)  # Several threads do not always build the same graph.
    monkeypatch.setattr("keras_bert.search.vector_files.GRAPH_PART", 5)
    monkeypatch.setattr("keras_bert.search.vector_files._GRAPH_SAVED", 10)

    def start(folder):
        build(folder, passages_of(range(12)), block=5, approximate=approximate)
        return folder

    def apply(folder):
        if change == "add":
            add(folder, passages_of(range(12, 26)))
        else:
            remove(folder, {"p1", "p6", "p7"})

    before = answers(start(tmp_path / "before"), 3)
    apply(start(tmp_path / "after"))
    after = answers(tmp_path / "after", 3)
    expected = content(tmp_path / "after")
    # Another change, of an index that was not interrupted.
    remove(start(tmp_path / "other"), {"p0"})
    other = answers(tmp_path / "other", 3)
    path = type(tmp_path)
    steps = {name: getattr(path, name) for name in ("replace", "unlink")}
    killed_at = 0
    is_killed = True
    while is_killed:
        killed_at += 3 if approximate else 1
        folder = start(tmp_path / f"killed at {killed_at}")
        calls = []
        for name, step in steps.items():

            def counted(self, *arguments, step=step, calls=calls, killed_at=killed_at, **options):
                calls.append(self)
                if len(calls) == killed_at:
                    raise Killed
                return step(self, *arguments, **options)

            monkeypatch.setattr(path, name, counted)
        try:
            apply(folder)
            is_killed = False
        except Killed:
            pass
        for name, step in steps.items():
            monkeypatch.setattr(path, name, step)
        state = answers(folder, 3)
        assert state in (before, after)
        if state == before:
            copy = tmp_path / f"copy {killed_at}"
            copy.mkdir()
            for name, data in content(folder).items():
                (copy / name).write_bytes(data)
            apply(folder)
            remove(copy, {"p0"})
            assert answers(copy, 3) == other
            assert set(content(copy)) == files_of(index_files.find_facts(copy))
        else:
            with changes.writing(folder):
                pass
        assert content(folder) == expected
    assert killed_at > 6


def test_a_change_continues_with_what_it_has(tmp_path, monkeypatch):
    """Blocks that were written are not embedded again."""
    build(tmp_path, passages_of(range(4)), block=5)
    seen = []

    def embed(passages):
        seen.extend(passage.id for passage in passages)
        if "p22" in seen:
            raise Killed
        return vectors_of(passages)

    with pytest.raises(Killed):
        add(tmp_path, passages_of(range(10, 30)), embed)
    seen.clear()
    add(tmp_path, passages_of(range(10, 30)), lambda passages: seen.extend(passages) or vectors_of(passages))
    assert sorted(passage.id for passage in seen) == [f"p{number}" for number in range(21, 30)]


# Builds an index with NumPy alone; a build takes a while, and the first argument is its folder.
BUILDER = """
import sys, time
sys.path[:0] = sys.argv[2:]
from tests.search.test_changes import build, ids, passages_of, vectors_of

def slowly(passages):
    time.sleep(0.05)
    return vectors_of(passages)

try:
    build(sys.argv[1], passages_of(range(60)), embed=slowly, block=4, dtype="int8")
    print("built")
except ValueError as error:
    print(error)
"""


def start_builder(folder):
    root = str(pathlib.Path(__file__).parents[2])
    arguments = [sys.executable, "-c", BUILDER, str(folder), root]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_three_builders_at_once(tmp_path):
    """One builds, the others get a line; nothing is left behind."""
    processes = [start_builder(tmp_path / "index") for _ in range(3)]
    printed = [process.communicate() for process in processes]
    assert [error for _, error in printed] == ["", "", ""]
    lines = sorted(output.strip() for output, _ in printed)
    refused = f"another run writes to {tmp_path / 'index'}: process "
    assert lines.count("built") >= 1
    assert all(line == "built" or line.startswith(refused) for line in lines)
    facts = build(tmp_path / "expected", passages_of(range(60)), block=4, dtype="int8")
    assert set(content(tmp_path / "index")) == files_of(facts)
    assert answers(tmp_path / "index", 3) == answers(tmp_path / "expected", 3)


def test_a_killed_builder(tmp_path):
    """kill -9 in the middle; the next one continues."""
    process = start_builder(tmp_path / "index")
    while not (tmp_path / "index" / "float16-00003.npy").exists():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    seen = []
    facts = build(
        tmp_path / "index",
        passages_of(range(60)),
        embed=lambda passages: seen.extend(passages) or vectors_of(passages),
        block=4,
        dtype="int8",
    )
    assert 0 < len(seen) <= 44
    assert set(content(tmp_path / "index")) == files_of(facts)
    build(tmp_path / "expected", passages_of(range(60)), block=4, dtype="int8")
    assert answers(tmp_path / "index", 3) == answers(tmp_path / "expected", 3)


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        (300, "pending.json"),
        (1500, "passages-00000.jsonl"),
        (16000, "float16-00000.npy"),
        (16000, "vectors-00000.faiss"),
        (50000, "graph-00000.faiss"),
    ],
)
def test_a_full_disk_names_the_file_and_the_reason(tmp_path, limit, name):
    """The limit on the size of files stands in for a disk that is full; when there is space, the build continues."""
    options = {"approximate": name.startswith("graph"), "width": 128, "block": 64}
    options["dtype"] = "int8" if name.startswith("float16") else "float16"
    passages = passages_of(range(200))

    def embed(part):
        return vectors_of(part, 128)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(OSError) as error:
            build(tmp_path / "index", passages, embed=embed, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    expected = f"[Errno 27] File too large, nothing was written: '{tmp_path}/index/{name}'"
    assert str(error.value) == expected
    facts = build(tmp_path / "index", passages, embed=embed, **options)
    assert set(content(tmp_path / "index")) == files_of(facts)


def test_facts_of_another_format_of_blocks(tmp_path):
    build(tmp_path, passages_of(range(3)))
    values = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**values, "blocks": 5}))
    with pytest.raises(ValueError, match="index.json: not the facts of an index"):
        index_files.find_facts(tmp_path)
