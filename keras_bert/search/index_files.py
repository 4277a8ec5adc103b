"""The files of an index: facts as JSON, and for each block of passages its texts and vectors.

    index.json              the facts: model, similarity, dtype, sizes, and the blocks in order
    passages-00000.jsonl    a line for each passage of a block: `id`, `title`, `text`
    offsets-00000.npy       int64 (passages + 1,): where each line starts, and the size of the file
    keys-00000.npy          uint64 (passages, 2): hashes of the id and of the line
    vectors-00000.faiss     the vectors of a block, see `vector_files`
    graph-00000.faiss       the graph of all vectors, if the search is approximate
    pending.json            the facts of an index that is being built or changed
    float16-00000.npy       vectors of a block, (passages, width), until all are known and become int8

The files of a block never change: a change of an index writes new blocks, then `index.json`, and then removes the files
that it does not name. A block is complete when its vectors exist, which are written last.
"""

import dataclasses
import hashlib
import io
import json
import mmap
import pathlib
import re

import numpy as np

from keras_bert.checks import is_count
from keras_bert.files import json_text, read_json, replacing, unfinished, write_json

FACTS = "index.json"
PENDING = "pending.json"
FORMAT = 3
DAMAGED = "The index is damaged: remove its folder and build it again"
_NUMBERED = re.compile(r"(passages|offsets|keys|vectors|graph|float16)-(\d{5,})\.(jsonl|npy|faiss)")
# The files that remain of a block.
_OF_BLOCK = ("passages", "offsets", "keys", "vectors")


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of passages."""

    number: int  # In the names of its files.
    rows: int  # Number of passages.


@dataclasses.dataclass(frozen=True)
class IndexFacts:
    """What an index contains."""

    model: dict  # From `model_facts`.
    name: str | None  # Path or name for `keras_bert.load`.
    source: str  # Fingerprint of the passages.
    passages: int  # Their number.
    width: int  # Of the vectors.
    block: int  # Largest number of passages in a block.
    similarity: str  # "cosine" (vectors have length 1) or "dot".
    dtype: str  # "float16" or "int8".
    approximate: bool  # Whether a graph of the vectors is searched, instead of all of them.
    query_prompt: str  # Before each query.
    passage_prompt: str  # Before each passage.
    next_id: int  # The id of the next passage without one.
    blocks: tuple[Block, ...]  # In order.
    graph: int | None = None  # In the name of the file of the graph.
    longest: float | None = None  # No vector is longer; not known before all are.
    format: int = FORMAT

    def as_json(self):
        values = dataclasses.asdict(self)
        values["blocks"] = [list(dataclasses.astuple(block)) for block in self.blocks]
        return values

    @classmethod
    def from_json(cls, values):
        blocks = tuple(Block(*block) for block in values["blocks"])
        return cls(**(values | {"blocks": blocks}))

    @property
    def next_number(self):
        """The number of the next block or graph that is written."""
        numbers = [block.number for block in self.blocks]
        if self.graph is not None:
            numbers.append(self.graph)
        return max(numbers) + 1


def check_folder(directory):
    """Raises an error if an index cannot be written to a folder: it is a file, or contains something else."""
    directory = pathlib.Path(directory)
    if directory.is_file():
        raise ValueError(f"the index must be a folder. Received: the file {directory}")
    if not directory.is_dir():
        return
    names = {path.name for path in directory.iterdir() if not unfinished(path)}
    if names and not names & {FACTS, PENDING}:
        raise ValueError(f"the index must be a new folder. Received: {directory} with {min(names)}, without {FACTS}")


def find_facts(directory):
    """Returns the facts of an index, or raises an error."""
    facts = read_facts(directory)
    if facts is None and pathlib.Path(directory, PENDING).is_file():
        raise ValueError(f"{directory}: the index is not complete. Repeat the build, which continues")
    if facts is None:
        raise ValueError(f"{directory}: no index, {FACTS} is missing. Build it first")
    return facts


def read_facts(directory, name=FACTS):
    """Reads index.json, or pending.json; returns `None` if there is none."""
    path = pathlib.Path(directory, name)
    if not path.is_file():
        return None
    try:
        values = read_json(path)
        if isinstance(values, dict) and values.get("format", FORMAT) != FORMAT:
            raise ValueError(f"its format is {values['format']!r}. Expected {FORMAT}: build the index again")
        facts = IndexFacts.from_json(values)
        _check_sizes(facts)
        return facts
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not the facts of an index: {error}") from None


def _check_sizes(facts):
    rows = [block.rows for block in facts.blocks]
    are_sizes = all(is_count(size) for size in (facts.passages, facts.width, facts.block, *rows))
    if not isinstance(facts.model, dict) or not are_sizes:
        raise ValueError(f"its model must be an object and its sizes positive integers. {DAMAGED}")
    if sum(rows) != facts.passages:
        raise ValueError(f"its blocks must have {facts.passages} passages together. {DAMAGED}")


def write_facts(directory, facts, name=FACTS):
    write_json(pathlib.Path(directory, name), facts.as_json())


def file_of(directory, what, number):
    """Returns the path of a numbered file; `what` is "passages", "offsets", "keys", "vectors", "graph" or "float16"."""
    suffix = {"passages": "jsonl", "vectors": "faiss", "graph": "faiss"}.get(what, "npy")
    return pathlib.Path(directory, f"{what}-{number:05}.{suffix}")


def remove_others(directory, *kept):
    """Removes the numbered files that none of the kept facts names, and pending.json unless it is one of these."""
    names = set()
    for facts in kept:
        for block in facts.blocks:
            names.update(file_of(directory, what, block.number).name for what in _OF_BLOCK)
            if facts.longest is None:
                names.add(file_of(directory, "float16", block.number).name)
        if facts.graph is not None:
            names.add(file_of(directory, "graph", facts.graph).name)
    for path in pathlib.Path(directory).iterdir():
        if _NUMBERED.fullmatch(path.name) and path.name not in names:
            path.unlink(missing_ok=True)
    if all(facts.longest is not None for facts in kept):
        pathlib.Path(directory, PENDING).unlink(missing_ok=True)


def write_array(path, array):
    """Writes a NumPy array, as a whole or not at all."""
    # `numpy.save` to a file does not say why it fails, such as that the disk is full.
    content = io.BytesIO()
    np.save(content, array)
    with replacing(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def write_lines(directory, number, lines):
    """Writes the passages of a block, as lines of JSON, and what belongs to them; each file as a whole."""
    with replacing(file_of(directory, "passages", number)) as temporary:
        temporary.write_bytes(b"".join(lines))
    write_array(file_of(directory, "offsets", number), np.cumsum([0, *map(len, lines)], dtype="int64"))
    write_array(file_of(directory, "keys", number), np.array([line_keys(line) for line in lines], "uint64"))


def passage_line(passage):
    """Returns a passage as a line of JSON."""
    values = {"id": passage.id, "title": passage.title, "text": passage.text}
    return json_text(values).encode("utf-8", "replace") + b"\n"


def passage_keys(passage):
    """Returns the hashes of the id of a passage, and of its line."""
    return id_key(passage.id), _hash(passage_line(passage))


def line_keys(line):
    """Returns the same of its line."""
    return id_key(json.loads(line)["id"]), _hash(line)


def id_key(name):
    """Returns the hash of an id."""
    return _hash(name.encode("utf-8", "replace"))


def _hash(content):
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def fingerprint(keys):
    """Returns the fingerprint of passages, of their keys in order."""
    return hashlib.sha256(np.ascontiguousarray(keys[:, 1]).tobytes()).hexdigest()[:16]


def read_array(directory, what, block, shape, dtype):
    """Reads "offsets" or "keys" of a block; raises an error if they do not have this shape and dtype."""
    path = file_of(directory, what, block.number)
    try:
        array = np.load(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing. {DAMAGED}") from None
    except (ValueError, EOFError, OSError, MemoryError) as error:  # A damaged header gives any of these.
        raise ValueError(f"{path}: cannot be read: {error}. {DAMAGED}") from None
    if array.shape != shape or array.dtype != dtype:
        received = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{path}: expected {dtype} of shape {shape}. Received: {received}. {DAMAGED}")
    return array


def read_keys(directory, facts):
    """Returns the keys of all passages, uint64 `(passages, 2)`."""
    return np.concatenate([read_array(directory, "keys", block, (block.rows, 2), "uint64") for block in facts.blocks])


class Lines:
    """The passages of a block as lines of JSON. Memory-mapped: they stay readable when the file is removed."""

    def __init__(self, directory, block):
        self.path = file_of(directory, "passages", block.number)
        self._offsets = self._read_offsets(directory, block)
        with open(self.path, "rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _read_offsets(self, directory, block):
        path = file_of(directory, "offsets", block.number)
        offsets = read_array(directory, "offsets", block, (block.rows + 1,), "int64")
        if offsets[0] != 0 or (np.diff(offsets) <= 0).any():
            raise ValueError(f"{path}: the offsets do not increase from 0. {DAMAGED}")
        size = self.path.stat().st_size if self.path.is_file() else None
        if size != offsets[-1]:
            received = "no file" if size is None else f"{size:,} bytes"
            raise ValueError(f"{self.path}: expected {offsets[-1]:,} bytes. Received: {received}. {DAMAGED}")
        return offsets

    def __len__(self):
        return len(self._offsets) - 1

    def line(self, row):
        """Returns a line, bytes."""
        return self._content[self._offsets[row] : self._offsets[row + 1]]

    def passage(self, row):
        """Returns a passage, a dict."""
        try:
            passage = json.loads(self.line(row))
            return {name: passage[name] for name in ("id", "title", "text")}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path}:{row + 1}: not a passage: {error}. {DAMAGED}") from None
