"""Inputs of queries and passages; scores by hand, by loops and by scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score

pytest.importorskip("tensorflow")
from keras_bert.tasks.embedding import task
from keras_bert.text.preprocessor import TextPreprocessor

pytestmark = pytest.mark.tensorflow
A = 5  # In `pieces`.
B = 6
CLS = 2
SEP = 3


def test_absent_passages_have_no_tokens(pieces):
    inputs = task.tower_inputs(["a b", "b", "a b"], [["a"], ["b", "a b a", "a"], []], TextPreprocessor(pieces, 4))
    assert inputs["query_token_ids"].to_list() == [[CLS, A, B, SEP], [CLS, B, SEP], [CLS, A, B, SEP]]
    assert inputs["passage_token_ids"].to_list() == [
        [[CLS, A, SEP], [], []],
        [[CLS, B, SEP], [CLS, A, B, SEP], [CLS, A, SEP]],
        [[], [], []],
    ]
    assert inputs["passage_padding_mask"].to_list()[0] == [[1, 1, 1], [], []]
    ids = task.row_ids(["x", "y", "x"], [["a"], ["b", "a"], []])
    assert ids["query_ids"].tolist() == [0, 1, 0]
    assert ids["passage_ids"].tolist() == [[0, -1], [1, 0], [-1, -1]]


def test_each_distinct_passage_is_in_one_row():
    queries = list("abcda")
    passages = [["p"], ["q"], ["p"], ["r"], ["q"]]
    rows = task.distinct_passages(queries, passages)
    assert (rows.queries, rows.passages) == (list("abdca"), [["p"], ["q"], ["r"], [], []])
    assert rows.also_right == {0: [1], 4: [0]}
    assert rows.right.tolist() == [0, 1, 2, 0, 1]
    assert np.array(queries)[rows.order].tolist() == rows.queries


def test_correlations():
    """Ranks 1, 2, 3, 4 against 1, 2, 4, 3: 1 - 6 * 2 / (4 * 15)."""
    found = task.similarity_scores(np.array([0.1, 0.2, 0.3, 0.9]), [0.0, 0.5, 1.0, 0.6])
    assert found["spearman"] == pytest.approx(0.8)
    assert task.similarity_scores(np.ones(3), [0.0, 1.0, 2.0]) == {"spearman": 0.0, "pearson": 0.0}


def test_ranks(monkeypatch):
    """In blocks of 4 queries; the vectors have different lengths, which do not matter."""
    monkeypatch.setattr(task, "_BLOCK", 4)
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(10, 5))
    passages = rng.normal(size=(30, 5)) * rng.uniform(1, 9, (30, 1))
    right = rng.integers(0, 30, 10)
    scores = queries @ (passages / np.linalg.norm(passages, axis=1, keepdims=True)).T
    expected = [1 + sum(row > row[own]) for row, own in zip(scores, right, strict=True)]
    found, wrong = task.ranks(queries, passages, right)
    assert found.tolist() == expected
    best = scores.argmax(1)
    assert wrong.tolist() == np.where(best == right, -1, best).tolist()
    scored = task.retrieval_scores(found)
    for count in (1, 10):
        assert scored[f"recall@{count}"] == pytest.approx(
            top_k_accuracy_score(right, scores, k=count, labels=np.arange(30))
        )


def test_equal_vectors_are_no_success():
    """Of a model that gives all texts the same vector, the right passage is the last one."""
    assert task.ranks(np.ones((2, 3)), np.ones((4, 3)), np.array([0, 3]))[0].tolist() == [4, 4]
    assert task.ranks(np.zeros((1, 3)), np.zeros((2, 3)), np.array([0]))[0].tolist() == [2]


def test_mrr_by_hand():
    assert task.retrieval_scores([1, 2, 4, 11]) == {
        "MRR@10": (1 + 1 / 2 + 1 / 4) / 4,
        "recall@1": 0.25,
        "recall@10": 0.75,
    }


def test_other_right_passages_do_not_count():
    """One query with three right passages: each is the best but for the others."""
    queries = np.array([[1.0, 0.0]] * 3)
    passages = np.array([[1, 0], [1, 0.1], [1, 0.2], [1, 0.15]])
    others = {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    found, wrong = task.ranks(queries, passages, np.arange(3), others)
    assert (found.tolist(), wrong.tolist()) == ([1, 1, 2], [-1, -1, 3])


def test_triplets():
    """Right; wrong; equal, which is wrong; without wrong passages, which does not count."""
    similarities = np.array([[0.9, 0.1, 1.0], [0.2, 0.1, 0.3], [0.5, 0.5, 0.5], [0.1, 0.9, 0.9]])
    present = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 0, 0]], bool)
    assert task.triplet_scores(similarities, present) == {"accuracy": 1 / 3}
