"""The files of vectors: an index of Faiss for each block, and a graph of all vectors."""

import faiss
import numpy as np
import pytest

from keras_bert.search import vector_files
from keras_bert.search.index_files import Block
from tests.search.small_indexes import build, facts_of, passages_of

WIDTH = 48


@pytest.fixture
def vectors():
    return np.random.default_rng(1).standard_normal((700, WIDTH)).astype("float16").astype("float32")


def test_the_part_of_a_graph_is_that_of_blocks(tmp_path, vectors, monkeypatch):
    """Blocks and parts of other sizes: all vectors are in the graph, in order."""
    monkeypatch.setattr("keras_bert.search.vector_files.GRAPH_PART", 100)
    facts = build(tmp_path, passages_of(range(700)), vectors, block=64, approximate=True)
    graph = faiss.read_index(str(tmp_path / f"graph-{facts.graph:05}.faiss"))
    np.testing.assert_array_equal(graph.reconstruct_n(0, 700), vectors)


def test_vectors_are_rounded_to_float16():
    index = vector_files.empty_index(2)
    vector_files.add_vectors(index, np.array([[1 + 2**-12, -2]], "float32"))
    assert index.reconstruct_n(0, 1).tolist() == [[1, -2]]
    with pytest.raises(ValueError, match="vectors must be at most 65504, the largest float16. Received: 70000"):
        vector_files.add_vectors(index, np.array([[70000, 0]], "float32"))


def test_the_longest_vector():
    index = vector_files.empty_index(2)
    vector_files.add_vectors(index, np.array([[1, 1], [3, -4], [0, 2]], "float32"))
    assert vector_files.longest(index) == 5


def test_rows_of_another_index_keep_their_codes(tmp_path):
    """int8: each coordinate is rounded within the range of the vectors in float16."""
    vectors = np.array([[0, 0], [255, 510], [100, 20]], "float32")
    vector_files.write_float16(tmp_path, 0, vectors)
    facts = facts_of(passages_of(range(3)), width=2, dtype="int8", blocks=(Block(0, 3),))
    index = vector_files.trained_index(tmp_path, facts)
    vector_files.add_vectors(index, vectors)
    some = vector_files.empty_index(2, "int8", like=index)
    vector_files.add_rows(some, index, [2, 0])
    np.testing.assert_array_equal(some.reconstruct_n(0, 2), index.reconstruct_n(0, 3)[[2, 0]])
    np.testing.assert_allclose(index.reconstruct_n(0, 3), vectors, atol=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the file is missing"),
        (b"no index", "cannot be read"),
    ],
)
def test_files_that_are_damaged(tmp_path, content, message):
    facts = facts_of(passages_of(range(3)), blocks=(Block(0, 3),))
    if content is not None:
        (tmp_path / "vectors-00000.faiss").write_bytes(content)
    with pytest.raises(ValueError, match=f"vectors-00000.faiss: {message}.* The index is damaged"):
        vector_files.open_vectors(tmp_path, facts, facts.blocks[0])


def test_a_file_of_other_sizes(tmp_path):
    index = vector_files.empty_index(4)
    vector_files.write_vectors(tmp_path, 0, index)
    facts = facts_of(passages_of(range(3)), width=4, blocks=(Block(0, 3),))
    with pytest.raises(ValueError, match=r"of shape \(3, 4\). Received: IndexScalarQuantizer of shape \(0, 4\)"):
        vector_files.open_vectors(tmp_path, facts, facts.blocks[0])


def test_an_exact_search_has_no_graph(tmp_path):
    assert vector_files.open_graph(tmp_path, facts_of(passages_of(range(3)))) is None
