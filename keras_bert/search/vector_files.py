"""The files of vectors: an index of Faiss for each block, and one that is a graph of all vectors (HNSW).

Faiss: https://arxiv.org/abs/2401.08281; HNSW: https://arxiv.org/abs/1603.09320.
"""

import faiss
import numpy as np

from keras_bert.files import replacing
from keras_bert.search.index_files import DAMAGED, file_of, write_array

_CODES = {"float16": faiss.ScalarQuantizer.QT_fp16, "int8": faiss.ScalarQuantizer.QT_8bit}
_NEIGHBORS = 32  # Of a vector in the graph.
_BUILD_CANDIDATES = 100  # For neighbors.
_TRAINED = 65536  # Vectors, approximately, that give the range of each coordinate in int8.
GRAPH_PART = 4096  # Vectors that are added to the graph together.
_GRAPH_SAVED = 65536  # Vectors after which an unfinished graph is written.
_SEED = 12345  # Of the levels of vectors in the graph.


def write_float16(directory, number, vectors):
    """Writes the vectors of a block, float32 `(rows, width)`, as float16, until they become int8."""
    write_array(file_of(directory, "float16", number), _as_float16(vectors))


def _as_float16(vectors):
    limit = np.finfo("float16").max
    largest = np.abs(vectors).max(initial=0)
    if largest > limit:
        raise ValueError(f"vectors must be at most {limit:g}, the largest float16. Received: {largest:g}")
    return vectors.astype("float16")


def trained_index(directory, facts):
    """Returns an index of int8 without vectors, whose range of each coordinate is that of the vectors in float16."""
    step = max(1, facts.passages // _TRAINED)
    samples = []
    for block in facts.blocks:
        vectors = np.load(file_of(directory, "float16", block.number), mmap_mode="r")
        samples.append(vectors[::step].astype("float32"))
    index = empty_index(facts.width, "int8")
    index.train(np.concatenate(samples))
    return index


def empty_index(width, dtype="float16", like=None):
    """Returns an index of Faiss without vectors; `like` is another one, whose ranges of coordinates it has in int8."""
    index = faiss.IndexScalarQuantizer(width, _CODES[dtype], faiss.METRIC_INNER_PRODUCT)
    if like is not None:
        _copy_ranges(like, index)
    return index


def _copy_ranges(source, faiss_index):
    faiss.copy_array_to_vector(faiss.vector_to_array(source.sq.trained), faiss_index.sq.trained)
    faiss_index.is_trained = True


def write_vectors(directory, number, index):
    """Writes the index of a block."""
    content = faiss.serialize_index(index)
    with replacing(file_of(directory, "vectors", number)) as temporary:
        temporary.write_bytes(content.data)


def add_vectors(index, vectors):
    """Adds float32 vectors to the index of a block, rounded to float16, as they would be read from a file."""
    index.add(_as_float16(vectors).astype("float32"))


def add_rows(index, other, rows):
    """Adds some rows of another index of a block, as they are stored."""
    codes = faiss.rev_swig_ptr(other.codes.data(), other.ntotal * other.sa_code_size())
    index.add_sa_codes(np.ascontiguousarray(codes.reshape(other.ntotal, -1)[rows]))


def open_vectors(directory, facts, block):
    """Returns the index of a block, memory-mapped; raises an error if it is not what the facts say."""
    path = file_of(directory, "vectors", block.number)
    return _opened(path, faiss.IndexScalarQuantizer, block.rows, facts.width)


def open_graph(directory, facts):
    """Returns the graph of all vectors, memory-mapped, or `None` if the search is exact."""
    if facts.graph is None:
        return None
    path = file_of(directory, "graph", facts.graph)
    return _opened(path, faiss.IndexHNSWSQ, facts.passages, facts.width)


def _opened(path, expected, rows, width):
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing. {DAMAGED}")
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise ValueError(f"{path}: cannot be read: {error}. {DAMAGED}") from None
    if type(index) is not expected or (index.ntotal, index.d) != (rows, width):
        raise ValueError(
            f"{path}: expected {expected.__name__} of shape ({rows}, {width}). Received: "
            f"{type(index).__name__} of shape ({index.ntotal}, {index.d}). {DAMAGED}"
        )
    return index


def longest(index):
    """Returns the length of the longest vector of an index."""
    vectors = index.reconstruct_n(0, index.ntotal)
    return float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max()))


def grow_graph(directory, facts, blocks, before=None):
    """Adds the vectors of all blocks to the graph and writes it; yields after each part.

    What has been written of it is continued; otherwise it starts with the file `before`, a graph of the first vectors.
    """
    path = file_of(directory, "graph", facts.graph)
    graph = _started_graph(path if path.is_file() else before, facts, blocks[0])
    start = 0
    for block in blocks:
        end = start + block.ntotal
        while graph.ntotal < end:
            first = graph.ntotal
            count = min(GRAPH_PART - first % GRAPH_PART, end - first)
            # So that an interrupted graph becomes the same as any other.
            graph.hnsw.rng = faiss.RandomGenerator(_SEED + first)
            graph.add(block.reconstruct_n(first - start, count))
            if graph.ntotal // _GRAPH_SAVED > first // _GRAPH_SAVED:
                _write_graph(path, graph)
            yield
        start = end
    _write_graph(path, graph)


def _started_graph(path, facts, block):
    if path is not None:
        return faiss.read_index(str(path))
    graph = faiss.IndexHNSWSQ(facts.width, _CODES[facts.dtype], _NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = _BUILD_CANDIDATES
    graph.train(block.reconstruct_n(0, block.ntotal))
    # The ranges of int8 are those of the blocks.
    _copy_ranges(block, faiss.downcast_index(graph.storage))
    return graph


def _write_graph(path, graph):
    with replacing(path) as temporary, open(temporary, "wb") as file:
        # Faiss itself does not notice that the last bytes of a file are missing on a full disk.
        faiss.write_index(graph, faiss.PyCallbackIOWriter(file.write, 1 << 20))
