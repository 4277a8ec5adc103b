"""The vectors of an index that are nearest to others, exactly, or by a graph.

Candidates are found in float32, whose rounding depends on how many queries are compared at the same time. Scores are
then computed from the stored vectors in float64, so that equal passages have equal scores, and are in order.
"""

import faiss
import numpy as np

from keras_bert.search import vector_files
from keras_bert.search.index_files import DAMAGED

_CANDIDATES = 128  # Of a search in the graph.
_MORE = 32  # Candidates besides the wanted ones, at least.
_MANY = 64  # Queries from which matrix products are faster than Faiss' loop over quantized vectors.
_ROWS = 16384  # Vectors of one product.
_TOGETHER = 8192  # Vectors whose scores are computed together.


class StoredVectors:
    """The vectors of an index, in blocks, which are memory-mapped."""

    def __init__(self, directory, facts):
        self._blocks = [vector_files.open_vectors(directory, facts, block) for block in facts.blocks]
        self._starts = np.cumsum([0, *(block.ntotal for block in self._blocks)])
        self._graph = vector_files.open_graph(directory, facts)
        self._width = facts.width
        self._longest = facts.longest

    def nearest(self, queries, n_best):
        """Returns the numbers of the vectors with the largest inner products, and these, best first.

        Both are `(queries, n_best)`.

        Of equal ones, the first come first.
        """
        count = min(int(self._starts[-1]), n_best + max(_MORE, n_best // 8))
        if self._graph is not None:
            numbers = self._by_graph(queries, count)
            return self._best(queries, numbers, n_best)
        rough, numbers = self._candidates(queries, count)
        best, scores = self._best(queries, numbers, n_best)
        if count < self._starts[-1]:
            # Others than the candidates may be as near as the last wanted one, up to rounding.
            least = rough[:, n_best - 1] - 2 * self._rounding(queries)
            for query in np.flatnonzero(rough[:, -1] >= least):
                best[query], scores[query] = self._best_of_all(queries[query], n_best, least[query])
        return best, scores

    def _rounding(self, queries):
        """Returns a bound of the rounding errors of products in float32, for each query.

        A sum of n products has an error of n / 2**24 of the product of the lengths; four times as much also covers how
        int8 is decoded.
        """
        lengths = np.linalg.norm(queries.astype("float64"), axis=-1)
        return 4 * self._width * 2.0**-24 * lengths * self._longest

    def _candidates(self, queries, count):
        """Returns float32 products and the numbers of their vectors, `(queries, count)`, best first up to rounding."""
        best = faiss.ResultHeap(len(queries), count, keep_max=True)
        if len(queries) < _MANY:
            for start, block in zip(self._starts, self._blocks, strict=False):
                scores, numbers = block.search(queries, min(count, block.ntotal))
                best.add_result(scores, np.where(numbers < 0, -1, numbers + start))
        else:
            for start, vectors in self.parts():
                products = queries @ vectors.T
                best.heaps.addn(len(vectors), faiss.swig_ptr(products), int(start))
        best.finalize()
        if (best.I < 0).any():
            raise ValueError(f"the index has vectors with NaN. {DAMAGED}")
        return best.D, best.I

    def _by_graph(self, queries, count):
        """Returns the numbers of nearest vectors; of all, if the graph does not reach so many."""
        options = faiss.SearchParametersHNSW(efSearch=max(_CANDIDATES, 2 * count))
        _, numbers = self._graph.search(queries, count, params=options)
        if (numbers < 0).any():
            _, numbers = self._candidates(queries, count)
        return numbers

    def _best(self, queries, numbers, n_best):
        """Returns the `n_best` of some candidates, numbers and scores, best first."""
        scores = self._scores(queries, numbers)
        order = np.lexsort([numbers, -scores])[:, :n_best]
        return np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)

    def _best_of_all(self, query, n_best, least):
        """Returns the `n_best` of all vectors whose product in float32 is not below `least`."""
        best = np.zeros([1, 0], "int64")
        for start, vectors in self.parts():
            near = np.flatnonzero(vectors @ query >= least) + start
            if len(near):
                candidates = np.concatenate([best, near[None]], 1)
                best, scores = self._best(query[None], candidates, n_best)
        return best[0], scores[0]

    def _scores(self, queries, numbers):
        """Returns the products of queries and vectors, summed in float64, `(queries, candidates)`, as float32."""
        flat = numbers.ravel()
        owners = np.repeat(np.arange(len(queries)), numbers.shape[1])
        scores = np.zeros(len(flat), "float32")
        for start in range(0, len(flat), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            products = self._some(flat[part]).astype("float64") * queries[owners[part]]
            # A sum over the last axis adds in the same order in every row; a matrix product does not.
            scores[part] = products.sum(axis=-1)
        return scores.reshape(numbers.shape)

    def _some(self, numbers):
        """Returns vectors by their numbers, float32."""
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], self._starts)
        vectors = np.zeros([len(numbers), self._width], "float32")
        for block, index in enumerate(self._blocks):
            rows = order[ends[block] : ends[block + 1]]
            if len(rows):
                vectors[rows] = index.reconstruct_batch(numbers[rows] - self._starts[block])
        return vectors

    def parts(self):
        """Yields all vectors in parts: the number of the first one, and float32 `(rows, width)`, to be used at once."""
        buffer = np.empty([min(_ROWS, int(self._starts[-1])), self._width], "float32")  # New memory costs time.
        for start, block in zip(self._starts, self._blocks, strict=False):
            for first in range(0, block.ntotal, len(buffer)):
                count = min(len(buffer), block.ntotal - first)
                yield start + first, block.reconstruct_n(first, count, buffer[:count])
