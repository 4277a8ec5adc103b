"""Retrieval metrics of ranked passages: recall, mean reciprocal rank and normalized discounted cumulative gain."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class RetrievalScores:
    """Mean scores over queries."""

    scores: dict  # By metric, such as `recall@10`, from 0 to 1.
    queries: int  # Number of queries that count.
    without_relevant: list  # Ids of other queries: no passage is relevant to them.

    def __str__(self):
        numbers = ", ".join(f"{name} {100 * value:.2f}%" for name, value in self.scores.items())
        counted = "1 query" if self.queries == 1 else f"{self.queries:,} queries"
        if self.without_relevant:
            counted += f", {len(self.without_relevant):,} without a relevant passage left out"
        return f"{numbers} ({counted})"


def _recall(ranking, relevant, k):
    """Returns the fraction of the relevant passages that are among the first `k` of a ranking of ids, best first.

    `relevant` has the grades, above 0, by passage id.
    """
    return len(relevant.keys() & set(ranking[:k])) / len(relevant)


def _reciprocal_rank(ranking, relevant, k):
    """Returns 1 / rank of the first relevant passage, 0 if it is not among the first `k`."""
    for rank, passage in enumerate(ranking[:k], 1):
        if passage in relevant:
            return 1 / rank
    return 0.0


def _ndcg(ranking, relevant, k):
    """Returns the discounted cumulative gain of the first `k` over that of the best ranking.

    The gain of a passage is its grade, as in trec_eval and scikit-learn, divided by log2(rank + 1).
    """
    gains = [relevant.get(passage, 0.0) for passage in ranking[:k]]
    best_gains = sorted(relevant.values(), reverse=True)[:k]
    return _discounted(gains) / _discounted(best_gains)


def evaluate(rankings, relevance, *, recall_at=(1, 10), k=10):
    """Scores the rankings of queries.

    Args:
        rankings: dict by query id of lists of passage ids, best first, at least `k` and `recall_at` of them.
        relevance: dict by query id of dicts of grades by passage id.
        recall_at: numbers of passages of the recalls. Defaults to `(1, 10)`.
        k: int, number of passages of MRR and nDCG. Defaults to 10.

    Returns:
        `RetrievalScores`. Queries without a relevant passage are listed and left out of the means.
    """
    for query, ranking in rankings.items():
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"`rankings`: query {query!r} has the same passage twice")
    relevant = {}
    rated = []
    without_relevant = []
    for query in rankings:
        grades = relevance.get(query, {})
        relevant[query] = {name: grade for name, grade in grades.items() if grade > 0}
        if relevant[query]:
            rated.append(query)
        else:
            without_relevant.append(query)
    if not rated:
        known = ", ".join(map(repr, list(relevance)[:3]))
        received = ", ".join(map(repr, list(rankings)[:3])) or "no query"
        raise ValueError(
            f"no query has a relevant passage. Expected query ids of the relevance judgments, such as {known}. "
            f"Received: {received}"
        )
    metrics = {f"recall@{size}": (_recall, size) for size in recall_at}
    metrics[f"MRR@{k}"] = (_reciprocal_rank, k)
    metrics[f"nDCG@{k}"] = (_ndcg, k)
    scores = {}
    for name, (metric, size) in metrics.items():
        total = math.fsum(metric(rankings[query], relevant[query], size) for query in rated)
        scores[name] = total / len(rated)
    return RetrievalScores(scores, len(rated), without_relevant)


def _discounted(gains):
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
