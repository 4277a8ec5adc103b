"""How an index changes: new blocks of passages, the graph, and at last the facts, which name them. By one process.

A change that is interrupted leaves the index as it was, and what it had written: it continues when it is repeated, and
is removed by another change. Nothing here knows a model.
"""

import contextlib
import dataclasses
import itertools
from typing import Any

import numpy as np

from keras_bert.files import one_writer
from keras_bert.progress import announced, track
from keras_bert.search import index_files, vector_files
from keras_bert.search.index_files import PENDING, Block, IndexFacts, Lines

PART = 512  # Passages between two updates of the progress.


@dataclasses.dataclass(frozen=True)
class Kept:
    """Rows of a block of the index, which stay."""

    block: Block
    rows: np.ndarray


@dataclasses.dataclass(frozen=True)
class NewBlock:
    """A block to write: rows of other blocks, and then the next passages, to be embedded."""

    block: Block
    kept: tuple[Kept, ...] = ()
    added: int = 0  # Number of passages.


@dataclasses.dataclass(frozen=True)
class IndexChange:
    """A change of an index."""

    before: IndexFacts | None  # `None` if the index is built.
    after: IndexFacts
    new_blocks: tuple[NewBlock, ...]
    grows_graph: bool = False  # Whether the graph of the index remains, with more vectors.


def plan_build(facts):
    """Returns the plan of a new index; `facts` have no blocks yet."""
    sizes = _sizes(facts.passages, facts.block)
    blocks = tuple(Block(number, rows) for number, rows in enumerate(sizes))
    graph = 0 if facts.approximate else None
    facts = dataclasses.replace(facts, blocks=blocks, graph=graph)
    new_blocks = tuple(NewBlock(block, added=block.rows) for block in blocks)
    return IndexChange(before=None, after=facts, new_blocks=new_blocks)


def plan_addition(facts, count, source, next_id):
    """Returns the plan to add passages: they fill the last block, and then form new ones."""
    blocks = list(facts.blocks)
    kept = ()
    if blocks[-1].rows < facts.block:
        last = blocks.pop()
        kept = (Kept(last, np.arange(last.rows)),)
    filled = _row_count(kept)
    new_blocks = []
    for number, rows in enumerate(_sizes(filled + count, facts.block), facts.next_number):
        new_blocks.append(NewBlock(Block(number, rows), kept, rows - filled))
        kept = ()
        filled = 0
    after = dataclasses.replace(
        facts,
        source=source,
        passages=facts.passages + count,
        next_id=next_id,
        blocks=(*blocks, *(new.block for new in new_blocks)),
        graph=_next_graph(facts, len(new_blocks)),
        longest=None,
    )
    return IndexChange(before=facts, after=after, new_blocks=tuple(new_blocks), grows_graph=True)


def plan_removal(facts, removed, source):
    """Returns the plan to remove passages; `removed` is a boolean array of all.

    Blocks without one of them stay. Blocks that become so small that they fit into the one before join it.
    """
    number = facts.next_number
    blocks = []
    new_blocks = []
    for group in _groups_of_kept(facts, removed):
        block = _whole_block(group)
        if block is None:
            block = Block(number, _row_count(group))
            new_blocks.append(NewBlock(block, tuple(group)))
            number += 1
        blocks.append(block)
    after = dataclasses.replace(
        facts,
        source=source,
        passages=facts.passages - int(removed.sum()),
        blocks=tuple(blocks),
        graph=_next_graph(facts, len(new_blocks)),
        longest=None,
    )
    return IndexChange(before=facts, after=after, new_blocks=tuple(new_blocks))


def _groups_of_kept(facts, removed):
    """Returns what remains of the blocks, lists of `Kept` in order, each of which becomes a block.

    A block of which all remains is a list of its own. Parts of neighboring blocks are one list if it fits into a block.
    """
    groups = []
    start = 0
    for block in facts.blocks:
        rows = np.flatnonzero(~removed[start : start + block.rows])
        start += block.rows
        if not len(rows):
            continue
        part = Kept(block, rows)
        is_whole = len(rows) == block.rows
        follows_part = groups and _whole_block(groups[-1]) is None
        if follows_part and not is_whole and _row_count(groups[-1]) + len(rows) <= facts.block:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _whole_block(group):
    """Returns the block of which a group of `Kept` has all rows, and no others; `None` for parts of blocks."""
    first = group[0]
    if len(group) == 1 and len(first.rows) == first.block.rows:
        return first.block
    return None


def _sizes(count, largest):
    """Returns the sizes of the blocks of a number of passages."""
    return [min(largest, count - start) for start in range(0, count, largest)]


def _row_count(parts):
    return sum(len(part.rows) for part in parts)


def _next_graph(facts, new_blocks):
    if facts.graph is None:
        return None
    return facts.next_number + new_blocks


@contextlib.contextmanager
def writing(directory):
    """Locks the folder of an index, or raises an error if another process writes to it."""
    index_files.check_folder(directory)
    with one_writer(directory):
        if has_leftovers(directory):
            index_files.remove_others(directory, index_files.read_facts(directory))
        yield


def has_leftovers(directory):
    """Whether the last change of an index is done, but was killed before it removed the files of before."""
    facts = index_files.read_facts(directory)
    pending = index_files.read_facts(directory, PENDING)
    return facts is not None and pending is not None and _same(pending, facts)


def _same(first, second):
    """Whether two facts have the same content; the name of the model may change meanwhile."""
    common = {"name": None, "longest": None}
    return dataclasses.replace(first, **common) == dataclasses.replace(second, **common)


def carry_out(directory, plan, passages=(), embed: Any = None):
    """Changes an index as planned, in the locked folder. Continues what was interrupted.

    Args:
        directory: folder of the index.
        plan: the `IndexChange`.
        passages: iterable of the passages to add.
        embed: function that returns the vectors of a list of passages, float32 `(passages, width)`.
    """
    Writer(directory, plan, passages, embed).write()


class Writer:
    """Writes what a plan adds to an index, see `carry_out`."""

    def __init__(self, directory, plan, passages, embed):
        self._directory = directory
        self._plan = plan
        self._facts = plan.after
        self._passages = iter(passages)
        self._embed = embed
        # The ranges of int8 follow from the vectors, which must all be known in float16 first.
        self._is_trained_later = plan.before is None and plan.after.dtype == "int8"

    def write(self):
        self._begin()
        parts = sum(-(-new.added // PART) for new in self._plan.new_blocks if not self._is_written(new))
        for _ in track(self._write_blocks(), f"embedding, parts of {PART}", total=parts, show=parts > 0):
            pass
        if self._is_trained_later:
            with announced("converting the vectors to int8"):
                self._convert()
        if self._facts.graph is not None:
            self._write_graph()
        self._finish()

    def _begin(self):
        """Writes the facts of the change; another change that was interrupted is forgotten."""
        states = [self._facts]
        if self._plan.before is not None:
            states.append(self._plan.before)
        pending = index_files.read_facts(self._directory, PENDING)
        if pending is None or not _same(pending, self._facts):
            index_files.remove_others(self._directory, *states[1:])
            index_files.write_facts(self._directory, self._facts, PENDING)
        index_files.remove_others(self._directory, *states)

    def _path(self, what, number):
        return index_files.file_of(self._directory, what, number)

    def _is_written(self, new):
        number = new.block.number
        is_known = self._is_trained_later and self._path("float16", number).is_file()
        return is_known or self._path("vectors", number).is_file()

    def _write_blocks(self):
        """Writes the missing blocks; yields after each part of passages that is embedded."""
        for new in self._plan.new_blocks:
            added = list(itertools.islice(self._passages, new.added))
            if self._is_written(new):
                continue
            vectors = np.zeros([new.added, self._facts.width], "float32")
            # Texts of similar length are embedded together.
            order = sorted(range(new.added), key=lambda row, added=added: len(added[row].content), reverse=True)
            for start in range(0, new.added, PART):
                rows = order[start : start + PART]
                vectors[rows] = self._embed([added[row] for row in rows])
                yield
            self._write_block(new, added, vectors)

    def _write_block(self, new, added, vectors):
        lines = []
        for part in new.kept:
            old_lines = Lines(self._directory, part.block)
            lines.extend(old_lines.line(row) for row in part.rows.tolist())
        lines.extend(index_files.passage_line(passage) for passage in added)
        number = new.block.number
        index_files.write_lines(self._directory, number, lines)
        if self._is_trained_later:
            vector_files.write_float16(self._directory, number, vectors)
            return
        index = self._empty_index()
        for part in new.kept:
            old_index = vector_files.open_vectors(self._directory, self._facts, part.block)
            vector_files.add_rows(index, old_index, part.rows)
        vector_files.add_vectors(index, vectors)
        vector_files.write_vectors(self._directory, number, index)

    def _empty_index(self):
        """Returns an index of a block to fill; in int8 with the ranges that the index has."""
        like = None
        if self._facts.dtype == "int8":
            like = vector_files.open_vectors(self._directory, self._facts, self._plan.before.blocks[0])
        return vector_files.empty_index(self._facts.width, self._facts.dtype, like)

    def _convert(self):
        """Writes the vectors of all blocks in int8."""
        like = vector_files.trained_index(self._directory, self._facts)
        for block in self._facts.blocks:
            index = vector_files.empty_index(self._facts.width, "int8", like)
            index.add(np.load(self._path("float16", block.number)).astype("float32"))
            vector_files.write_vectors(self._directory, block.number, index)

    def _write_graph(self):
        blocks = [vector_files.open_vectors(self._directory, self._facts, block) for block in self._facts.blocks]
        before = None
        missing = self._facts.passages
        if self._plan.grows_graph:
            before = self._path("graph", self._plan.before.graph)
            missing -= self._plan.before.passages
        total = -(-missing // vector_files.GRAPH_PART)
        work = vector_files.grow_graph(self._directory, self._facts, blocks, before)
        for _ in track(work, f"graph, parts of {vector_files.GRAPH_PART} vectors", total=total):
            pass

    def _finish(self):
        """Writes the facts, with which the change is done, and removes the files of before."""
        lengths = []
        if self._plan.before is not None:
            lengths.append(self._plan.before.longest)
        for new in self._plan.new_blocks:
            index = vector_files.open_vectors(self._directory, self._facts, new.block)
            lengths.append(vector_files.longest(index))
        facts = dataclasses.replace(self._facts, longest=max(lengths))
        index_files.write_facts(self._directory, facts)
        index_files.remove_others(self._directory, facts)
