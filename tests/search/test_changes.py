"""Changes of an index, against indexes of the same passages that are built anew; other processes, and full disks."""

import contextlib
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
from keras_bert.search.vector_files import open_vectors
from tests.search.small_indexes import (
    Killed,
    add,
    answers,
    build,
    content,
    files_of,
    ids,
    passages_of,
    remove,
    vectors_of,
)


@pytest.mark.parametrize("block", [4, 50])
def test_changes_give_what_a_new_index_gives(tmp_path, block):
    """A series of random changes, to the bit, also of an index with other blocks."""
    rng = np.random.default_rng(block)
    passages = passages_of(range(12))
    build(tmp_path / "index", passages, block=block)
    for number in range(7):
        if number % 2:
            chosen = rng.choice(len(passages), rng.integers(1, len(passages) // 2), False)
            names = {passages[row].id for row in chosen}
            passages = [passage for passage in passages if passage.id not in names]
            facts = remove(tmp_path / "index", names)
        else:
            first = 1000 * (number + 1)
            new = passages_of(range(first, first + rng.integers(1, 14)))
            passages = passages + new
            facts = add(tmp_path / "index", new)
        assert set(content(tmp_path / "index")) == files_of(facts)
        build(tmp_path / f"new {number}", passages)
        for count in (3, 64):
            assert answers(tmp_path / "index", count) == answers(tmp_path / f"new {number}", count)
        assert max(part.rows for part in facts.blocks) <= block


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


def vectors_of_index(directory, facts):
    """Returns the vectors of all blocks as they are stored."""
    blocks = [open_vectors(directory, facts, block) for block in facts.blocks]
    return np.concatenate([block.reconstruct_n(0, block.ntotal) for block in blocks])


def test_int8_keeps_its_ranges(tmp_path):
    """What stays has the same codes; what is added is rounded by the ranges of the first passages."""
    passages = passages_of(range(60))
    build(tmp_path, passages[:50], block=20, dtype="int8")
    before = answers(tmp_path, 3)
    add(tmp_path, passages[50:])
    exact = vectors_of(passages)
    facts = remove(tmp_path, {"p3", "p55"})
    stored = vectors_of_index(tmp_path, facts)
    np.testing.assert_allclose(stored, np.delete(exact, [3, 55], 0), atol=0.03)
    add(tmp_path, passages[3:4])
    remove(tmp_path, {"p3", *(f"p{number}" for number in range(50, 60))})
    numbers, scores, names, _ = answers(tmp_path, 3)
    for row, values, numbers_before, scores_before in zip(numbers, scores, before[0], before[1], strict=True):
        score_of_name = {f"p{number}": score for number, score in zip(numbers_before, scores_before, strict=True)}
        for number, score in zip(row, values, strict=True):
            assert score == score_of_name[names[number]]


class KilledSteps:
    """Kills a process, as far as it is told, before the n-th of its writes and removals of files."""

    def __init__(self, monkeypatch, killed_at):
        self._monkeypatch = monkeypatch
        self._killed_at = killed_at
        self._steps = 0

    def __enter__(self):
        for name in ("replace", "unlink"):
            self._monkeypatch.setattr(pathlib.Path, name, self._counted(getattr(pathlib.Path, name)))

    def __exit__(self, *_):
        self._monkeypatch.undo()

    def _counted(self, step):
        def counted(path, *arguments, **options):
            self._steps += 1
            if self._steps == self._killed_at:
                raise Killed
            return step(path, *arguments, **options)

        return counted


def start(folder, approximate):
    build(folder, passages_of(range(12)), block=5, approximate=approximate)
    return folder


def add_passages(folder):
    add(folder, passages_of(range(12, 26)))


def remove_passages(folder):
    remove(folder, {"p1", "p6", "p7"})


def remove_another(folder):
    remove(folder, {"p0"})


def copied(folder, target):
    target.mkdir()
    for name, data in content(folder).items():
        (target / name).write_bytes(data)
    return target


@pytest.fixture
def small_graphs():
    """Graphs that are built and written in several parts, always the same."""
    faiss.omp_set_num_threads(1)  # Several threads do not always build the same graph.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert.search.vector_files.GRAPH_PART", 5)
        patch.setattr("keras_bert.search.vector_files._GRAPH_SAVED", 10)
        yield


@pytest.mark.usefixtures("small_graphs")
@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("change", [add_passages, remove_passages])
def test_an_interrupted_change_leaves_the_index(tmp_path, monkeypatch, change, approximate):
    """Killed before each of its writes and removals in turn; repeated, it continues; another change forgets it."""
    before = answers(start(tmp_path / "before", approximate), 3)
    change(start(tmp_path / "after", approximate))
    after = answers(tmp_path / "after", 3)
    expected = content(tmp_path / "after")
    remove_another(start(tmp_path / "other", approximate))  # Of an index that was not interrupted.
    other = answers(tmp_path / "other", 3)
    killed_at = 0
    is_killed = True
    while is_killed:
        killed_at += 3 if approximate else 1
        folder = start(tmp_path / f"killed at {killed_at}", approximate)
        with KilledSteps(monkeypatch, killed_at):
            try:
                change(folder)
                is_killed = False
            except Killed:
                pass
        if answers(folder, 3) == before:
            copy = copied(folder, tmp_path / f"copy {killed_at}")
            change(folder)
            remove_another(copy)
            assert answers(copy, 3) == other
            assert set(content(copy)) == files_of(index_files.find_facts(copy))
        else:
            assert answers(folder, 3) == after
            with changes.writing(folder):
                pass
        assert content(folder) == expected
    assert killed_at > 6


class Embedder:
    """Embeds passages, keeps their ids, and is killed at one of them."""

    def __init__(self, killed_at=None):
        self.seen = []
        self._killed_at = killed_at

    def __call__(self, passages):
        self.seen += [passage.id for passage in passages]
        if self._killed_at in self.seen:
            raise Killed
        return vectors_of(passages)


def test_a_change_continues_with_what_it_has(tmp_path):
    """Blocks that were written are not embedded again."""
    build(tmp_path, passages_of(range(4)), block=5)
    with pytest.raises(Killed):
        add(tmp_path, passages_of(range(10, 30)), Embedder(killed_at="p22"))
    embedder = Embedder()
    add(tmp_path, passages_of(range(10, 30)), embedder)
    assert sorted(embedder.seen) == [f"p{number}" for number in range(21, 30)]


# Builds an index with NumPy alone; a build takes a while, and the first argument is its folder.
BUILDER = """
import sys, time
sys.path[:0] = sys.argv[2:]
from tests.search.small_indexes import build, passages_of, vectors_of

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
    for line in lines:
        assert line == "built" or line.startswith(refused)
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
    embedder = Embedder()
    facts = build(tmp_path / "index", passages_of(range(60)), embed=embedder, block=4, dtype="int8")
    assert 0 < len(embedder.seen) <= 44
    assert set(content(tmp_path / "index")) == files_of(facts)
    build(tmp_path / "expected", passages_of(range(60)), block=4, dtype="int8")
    assert answers(tmp_path / "index", 3) == answers(tmp_path / "expected", 3)


@contextlib.contextmanager
def limited_files(size):
    """Limits the size of files, which stands in for a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("limit", "name", "options"),
    [
        (300, "pending.json", {}),
        (1500, "passages-00000.jsonl", {}),
        (16000, "float16-00000.npy", {"dtype": "int8"}),
        (16000, "vectors-00000.faiss", {}),
        (50000, "graph-00000.faiss", {"approximate": True}),
    ],
)
def test_a_full_disk_names_the_file_and_the_reason(tmp_path, limit, name, options):
    """When there is space, the build continues."""
    passages = passages_of(range(200))

    def embed(part):
        return vectors_of(part, 128)

    with limited_files(limit), pytest.raises(OSError, match="nothing was written") as error:
        build(tmp_path / "index", passages, embed=embed, width=128, block=64, **options)
    expected = f"[Errno 27] File too large, nothing was written: '{tmp_path}/index/{name}'"
    assert str(error.value) == expected
    facts = build(tmp_path / "index", passages, embed=embed, width=128, block=64, **options)
    assert set(content(tmp_path / "index")) == files_of(facts)
