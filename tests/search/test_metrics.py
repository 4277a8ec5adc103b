"""Retrieval metrics against scikit-learn and values that are derived by hand."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from keras_bert.search.metrics import evaluate


def scores_of(ranking, grades, k):
    """Returns the scores of one query: recall, reciprocal rank and nDCG."""
    found = evaluate({"q": ranking}, {"q": grades}, recall_at=[k], k=k)
    return list(found.scores.values())


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_is_that_of_scikit_learn(k):
    rng = np.random.default_rng(k)
    for _ in range(20):
        grades = rng.integers(0, 4, 12)
        grades[rng.integers(12)] = 2
        scores = rng.permutation(12).astype(float)
        ranking = [str(number) for number in np.argsort(-scores)]
        expected = ndcg_score(grades[None], scores[None], k=k)
        grade_of_passage = {str(number): float(grade) for number, grade in enumerate(grades)}
        _, _, gain = scores_of(ranking, grade_of_passage, k)
        assert gain == pytest.approx(expected)


def test_values_by_hand():
    """Relevant are b (grade 2), d and e (1); c is judged and not relevant, a is not judged."""
    ranking = ["a", "b", "c", "d"]
    grades = {"b": 2.0, "d": 1.0, "e": 1.0, "c": -1.0}
    best = 2 + 1 / math.log2(3) + 1 / 2
    gain = (2 / math.log2(3) + 1 / math.log2(5)) / best
    assert scores_of(ranking, grades, 1) == [0, 0, 0]
    assert scores_of(ranking, grades, 2)[:2] == [1 / 3, 1 / 2]
    assert scores_of(ranking, grades, 4) == [2 / 3, 1 / 2, pytest.approx(gain)]
    assert scores_of(["b", "d", "e"], grades, 4) == [1, 1, 1]
    assert scores_of([], grades, 1) == [0, 0, 0]


def test_means_over_queries():
    rankings = {"first": ["a", "b"], "second": ["b", "a"], "unjudged": ["a"], "only zeros": ["a"]}
    relevance = {"first": {"a": 1}, "second": {"a": 1}, "only zeros": {"a": 0}, "not asked": {"a": 1}}
    found = evaluate(rankings, relevance, recall_at=(1, 2), k=2)
    gain = (1 + 1 / math.log2(3)) / 2
    assert found.scores == pytest.approx({"recall@1": 0.5, "recall@2": 1, "MRR@2": 0.75, "nDCG@2": gain})
    assert found.queries == 2
    assert found.without_relevant == ["unjudged", "only zeros"]
    numbers, rest = str(found).split(" (")
    assert numbers == "recall@1 50.00%, recall@2 100.00%, MRR@2 75.00%, nDCG@2 81.55%"
    assert rest == "2 queries, 2 without a relevant passage left out)"


def test_errors():
    with pytest.raises(ValueError, match="query 'q' has the same passage twice"):
        evaluate({"q": ["a", "a"]}, {"q": {"a": 1}})
    with pytest.raises(ValueError, match="such as '1'. Received: 'q'"):
        evaluate({"q": ["a"]}, {"1": {"a": 1}})
