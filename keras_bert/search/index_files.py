"""The files of an index: facts as JSON, and for each block of passages its texts and vectors.

    index.json              the facts: model, similarity, dtype, sizes, whether complete
    passages-00000.jsonl    a line for each passage: `id`, `title`, `text`
    offsets-00000.npy       int64 (passages + 1,): where each line starts, and the size of the file
    block-00000.npy         float16 (passages, width), only while the index is built
    vectors.faiss           the vectors of all blocks, see `vector_files`

A block is complete when its vectors exist, which are written last.
"""

import dataclasses
import json
import pathlib

import numpy as np

from keras_bert.files import json_text, read_json, replacing, write_json

FACTS = "index.json"
FORMAT = 2
DAMAGED = "The index is damaged: remove its folder and build it again"


@dataclasses.dataclass(frozen=True)
class IndexFacts:
    """What an index contains."""

    model: dict  # From `model_facts`.
    name: str | None  # Path or name for `keras_bert.load`.
    source: str  # Fingerprint of the passages.
    passages: int  # Their number.
    width: int  # Of the vectors.
    block: int  # Number of passages in a block.
    similarity: str  # "cosine" (vectors have length 1) or "dot".
    dtype: str  # "float16" or "int8".
    approximate: bool  # Whether a graph of the vectors is searched, instead of all of them.
    query_prompt: str  # Before each query.
    passage_prompt: str  # Before each passage.
    complete: bool = False  # Whether all blocks are written.
    format: int = FORMAT

    @property
    def blocks(self):
        """The number of blocks."""
        return -(-self.passages // self.block)

    def rows(self, number):
        """Returns the number of passages in a block."""
        return min(self.block, self.passages - number * self.block)


def check_folder(directory):
    """Raises an error if an index cannot be written to a folder: it is a file, or contains something else."""
    directory = pathlib.Path(directory)
    if directory.is_file():
        raise ValueError(f"the index must be a folder. Received: the file {directory}")
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    if names and FACTS not in names:
        raise ValueError(f"the index must be a new folder. Received: {directory} with {min(names)}, without {FACTS}")


def find_facts(directory):
    """Returns the facts of a complete index, or raises an error."""
    facts = read_facts(directory)
    if facts is None:
        raise ValueError(f"{directory}: no index, {FACTS} is missing. Build it first")
    if not facts.complete:
        raise ValueError(f"{directory}: the index is not complete. Repeat the build, which continues")
    return facts


def read_facts(directory):
    """Reads index.json; returns `None` if there is none."""
    path = pathlib.Path(directory, FACTS)
    if not path.is_file():
        return None
    try:
        values = read_json(path)
        if isinstance(values, dict) and values.get("format", FORMAT) != FORMAT:
            raise ValueError(f"its format is {values['format']!r}. Expected {FORMAT}: build the index again")
        facts = IndexFacts(**values)
        sizes = facts.passages, facts.width, facts.block
        if not isinstance(facts.model, dict) or any(type(size) is not int or size < 1 for size in sizes):
            raise ValueError(f"its model must be an object and its sizes positive integers. {DAMAGED}")
        return facts
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not the facts of an index: {error}") from None


def write_facts(directory, facts):
    write_json(pathlib.Path(directory, FACTS), dataclasses.asdict(facts))


def passages_path(directory, number):
    return pathlib.Path(directory, f"passages-{number:05}.jsonl")


def offsets_path(directory, number):
    return pathlib.Path(directory, f"offsets-{number:05}.npy")


def write_passages(directory, number, passages):
    """Writes the passages of a block and their offsets, each file as a whole."""
    lines = [passage_line(passage) for passage in passages]
    with replacing(passages_path(directory, number)) as temporary:
        temporary.write_bytes(b"".join(lines))
    with replacing(offsets_path(directory, number)) as temporary:
        np.save(temporary, np.cumsum([0, *map(len, lines)], dtype="int64"))


def passage_line(passage):
    """Returns a passage as a line of JSON."""
    values = {"id": passage.id, "title": passage.title, "text": passage.text}
    return json_text(values).encode("utf-8", "replace") + b"\n"


def open_offsets(directory, number, facts):
    """Returns the offsets of a block, memory-mapped; raises an error if they do not fit the facts and the passages."""
    path, shape = offsets_path(directory, number), (facts.rows(number) + 1,)
    try:
        offsets = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing. {DAMAGED}") from None
    except (ValueError, EOFError, OSError, MemoryError) as error:  # A damaged header gives any of these.
        raise ValueError(f"{path}: cannot be read: {error}. {DAMAGED}") from None
    if offsets.shape != shape or offsets.dtype != "int64":
        received = f"{offsets.dtype} of shape {offsets.shape}"
        raise ValueError(f"{path}: expected int64 of shape {shape}. Received: {received}. {DAMAGED}")
    if offsets[0] != 0 or (np.diff(offsets) <= 0).any():
        raise ValueError(f"{path}: the offsets do not increase from 0. {DAMAGED}")
    path = passages_path(directory, number)
    size = path.stat().st_size if path.is_file() else None
    if size != offsets[-1]:
        received = "no file" if size is None else f"{size:,} bytes"
        raise ValueError(f"{path}: expected {offsets[-1]:,} bytes. Received: {received}. {DAMAGED}")
    return offsets


def read_passage(path, line, content):
    """Reads a line of a file of passages, a dict."""
    try:
        passage = json.loads(content)
        return {name: passage[name] for name in ("id", "title", "text")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}:{line}: not a passage: {error}. {DAMAGED}") from None
