"""The nearest vectors in the files of Faiss, against a stable sort by NumPy."""

import faiss
import numpy as np
import pytest

from keras_bert.search.nearest import StoredVectors
from tests.search.small_indexes import build, passages_of

WIDTH = 48


@pytest.fixture
def vectors():
    """Random vectors of which many are equal, in and between blocks, and some nearly."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((700, WIDTH)).astype("float16").astype("float32")
    vectors[300:] = vectors[rng.integers(0, 40, 400)]
    vectors[500:520] = np.nextafter(vectors[500:520].astype("float16"), np.float16(0)).astype("float32")
    return vectors


def expected(stored, queries, top):
    """Returns the numbers and scores of a stable sort of all scores in float64."""
    scores = np.stack([(stored.astype("float64") * query).sum(-1) for query in queries])
    scores = scores.astype("float32")
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return order, np.take_along_axis(scores, order, 1)


def stored_vectors(folder):
    """Returns the vectors of all blocks as Faiss reads them."""
    vectors = []
    for path in sorted(folder.glob("vectors-*")):
        part = faiss.read_index(str(path))
        vectors.append(part.reconstruct_n(0, part.ntotal))
    return np.concatenate(vectors)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("block", [64, 700])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_order_and_scores_do_not_depend_on_the_number_of_queries(tmp_path, vectors, dtype, block, scale):
    """Equal vectors are in order, also where more of them have the last score than are wanted."""
    facts = build(tmp_path, passages_of(range(700)), vectors * scale, dtype=dtype, block=block)
    index = StoredVectors(tmp_path, facts)
    stored = stored_vectors(tmp_path)
    # Some queries are vectors that occur many times.
    random_queries = np.random.default_rng(2).standard_normal((60, WIDTH))
    queries = np.concatenate([random_queries, vectors[:40]]).astype("float32")
    for top in (1, 10, 200, 700):
        numbers, scores = expected(stored, queries, top)
        for count in (1, 3, 63, 64, 100):
            found_numbers, found_scores = index.nearest(queries[:count], top)
            np.testing.assert_array_equal(found_numbers, numbers[:count])
            np.testing.assert_array_equal(found_scores, scores[:count])


def test_a_thousand_equal_vectors(tmp_path):
    """More than any number of candidates."""
    vectors = np.repeat(np.random.default_rng(0).standard_normal((1, WIDTH)), 1000, 0).astype("float32")
    vectors[0] = -vectors[0]
    index = StoredVectors(tmp_path, build(tmp_path, passages_of(range(1000)), vectors, block=300))
    for count in (1, 64):
        numbers, _ = index.nearest(vectors[1:2].repeat(count, 0), 5)
        assert numbers.tolist() == [[1, 2, 3, 4, 5]] * count


def test_scores_of_a_graph_are_those_of_the_exact_search(tmp_path, vectors):
    exact = StoredVectors(tmp_path / "exact", build(tmp_path / "exact", passages_of(range(700)), vectors, block=300))
    facts = build(tmp_path / "graph", passages_of(range(700)), vectors, block=300, approximate=True)
    graph = StoredVectors(tmp_path / "graph", facts)
    queries = np.random.default_rng(2).standard_normal((70, WIDTH)).astype("float32")
    _, scores = exact.nearest(queries, 700)
    numbers, found = graph.nearest(queries, 700)
    np.testing.assert_array_equal(found, scores)
    numbers, found = graph.nearest(queries, 10)
    is_best = found == scores[:, :10]
    assert is_best.mean() > 0.9
    assert (np.diff(numbers)[np.diff(found) == 0] > 0).all()
    few_numbers, few = graph.nearest(queries[:1], 10)
    np.testing.assert_array_equal(few_numbers, numbers[:1])
    np.testing.assert_array_equal(few, found[:1])


def test_empty_queries(tmp_path, vectors):
    index = StoredVectors(tmp_path, build(tmp_path, passages_of(range(700)), vectors))
    numbers, scores = index.nearest(np.zeros([0, WIDTH], "float32"), 3)
    assert numbers.shape == scores.shape == (0, 3)
