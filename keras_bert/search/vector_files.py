"""The vectors of an index: an index of Faiss, which compares all vectors with a query or searches a graph (HNSW).

Faiss: https://arxiv.org/abs/2401.08281; HNSW: https://arxiv.org/abs/1603.09320.
"""

import pathlib

import faiss
import numpy as np

from keras_bert.files import replacing
from keras_bert.search.index_files import DAMAGED

_CODES = {"float16": faiss.ScalarQuantizer.QT_fp16, "int8": faiss.ScalarQuantizer.QT_8bit}
# Of the graph: neighbors of a vector, candidates for them, and candidates of a search.
_NEIGHBORS, _BUILD_CANDIDATES, _CANDIDATES = 32, 100, 128
# Queries from which matrix products are faster than Faiss' loop over quantized vectors, and vectors of one product.
_MANY, _ROWS = 64, 32768
_TRAINED = 65536  # Vectors, approximately, that give the range of each coordinate in int8.


def block_path(directory, number):
    return pathlib.Path(directory, f"block-{number:05}.npy")


def vectors_path(directory):
    return pathlib.Path(directory, "vectors.faiss")


def write_block(directory, number, vectors):
    """Writes the vectors of a block, float32 `(rows, width)`, as float16."""
    limit = np.finfo("float16").max
    if (largest := np.abs(vectors).max()) > limit:
        raise ValueError(f"vectors must be at most {limit:g}, the largest float16. Received: {largest:g}")
    with replacing(block_path(directory, number)) as temporary:
        np.save(temporary, vectors.astype("float16"))


def join_blocks(directory, facts):
    """Writes the index of the vectors of all blocks."""
    blocks = [np.load(block_path(directory, number), mmap_mode="r") for number in range(facts.blocks)]
    settings = facts.width, _CODES[facts.dtype]
    if facts.approximate:
        index = faiss.IndexHNSWSQ(*settings, _NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_CANDIDATES
    else:
        index = faiss.IndexScalarQuantizer(*settings, faiss.METRIC_INNER_PRODUCT)
    step = max(1, facts.passages // _TRAINED)
    index.train(np.concatenate([block[::step] for block in blocks]).astype("float32"))
    for block in blocks:
        index.add(block.astype("float32"))
    with replacing(vectors_path(directory)) as temporary:
        try:
            faiss.write_index(index, str(temporary))
        except RuntimeError as error:
            raise OSError(f"{vectors_path(directory)}: cannot be written: {error}") from None


def open_vectors(directory, facts):
    """Returns the index of Faiss, memory-mapped; raises an error if it is not what the facts say."""
    path = vectors_path(directory)
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing. {DAMAGED}")
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise ValueError(f"{path}: cannot be read: {error}. {DAMAGED}") from None
    expected = faiss.IndexHNSWSQ if facts.approximate else faiss.IndexScalarQuantizer
    if type(index) is not expected or (index.ntotal, index.d) != (facts.passages, facts.width):
        raise ValueError(
            f"{path}: expected {expected.__name__} of shape ({facts.passages}, {facts.width}). Received: "
            f"{type(index).__name__} of shape ({index.ntotal}, {index.d}). {DAMAGED}"
        )
    return index


def nearest(index, queries, top):
    """Returns the numbers of the vectors with the largest inner products, and these, `(queries, top)`, best first."""
    is_graph = isinstance(index, faiss.IndexHNSW)
    options = faiss.SearchParametersHNSW(efSearch=max(_CANDIDATES, 2 * top)) if is_graph else None
    if len(queries) < _MANY or is_graph:
        scores, numbers = index.search(queries, top, params=options)
    else:
        scores, numbers = _search_by_products(index, queries, top)
    if is_graph and (numbers < 0).any():  # The graph does not reach so many.
        scores, numbers = faiss.downcast_index(index.storage).search(queries, top)
    if (numbers < 0).any():
        raise ValueError(f"the index has vectors with NaN. {DAMAGED}")
    order = np.lexsort([numbers, -scores])
    return np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)


def _search_by_products(index, queries, top):
    """Returns what `index.search` does, up to rounding."""
    best = faiss.ResultHeap(len(queries), top, keep_max=True)
    buffer = np.empty([min(_ROWS, index.ntotal), index.d], "float32")  # Fresh memory takes as long as the product.
    for start in range(0, index.ntotal, _ROWS):
        vectors = buffer[: index.ntotal - start]
        products = queries @ index.reconstruct_n(start, len(vectors), vectors).T
        best.heaps.addn(len(vectors), faiss.swig_ptr(products), start)
    best.finalize()
    return best.D, best.I
