"""Scores of sentence encoders: correlations of similarities, and ranks of right passages. Exact, in blocks."""

import numpy as np
from scipy import stats

from keras_bert.similarity import similarity

_BLOCK = 1024  # Queries that are compared with all passages at a time.


def similarity_scores(similarities, scores):
    """Returns the correlations of similarities with scores: 0 if one of them is constant."""
    constant = np.ptp(similarities) == 0 or np.ptp(scores) == 0
    return {
        "spearman": 0.0 if constant else float(stats.spearmanr(similarities, scores).statistic),
        "pearson": 0.0 if constant else float(stats.pearsonr(similarities, scores).statistic),
    }


def ranks(queries, passages, right, also_right=None, function="cosine"):
    """Ranks the passage in the row `right` for each query by similarity, behind those of equal similarity.

    The rows `also_right`, by the number of the query, do not count.

    Returns:
        Integer arrays: the ranks, 1 for the best; and the row of the best passage if it is a wrong one, otherwise -1.
    """
    also_right = also_right or {}
    found, wrong = [], []
    for start in range(0, len(queries), _BLOCK):
        rows = np.asarray(right[start : start + _BLOCK])
        scores = similarity(queries[start : start + _BLOCK], passages, function)
        own = scores[np.arange(len(rows)), rows]
        better = scores >= own[:, None]
        for number in also_right.keys() & set(range(start, start + len(rows))):
            better[number - start, also_right[number]] = False
        found.append(better.sum(1))
        better[np.arange(len(rows)), rows] = False
        wrong.append(np.where(better.any(1), np.where(better, scores, -np.inf).argmax(1), -1))
    return np.concatenate(found), np.concatenate(wrong)


def retrieval_scores(ranks):
    """Returns recall@1, recall@10 and MRR@10 of ranks."""
    ranks = np.asarray(ranks)
    return {
        "MRR@10": float(np.mean(np.where(ranks <= 10, 1 / ranks, 0))),
        "recall@1": float(np.mean(ranks <= 1)),
        "recall@10": float(np.mean(ranks <= 10)),
    }


def triplet_scores(similarities, present):
    """Returns the share of the rows with wrong passages whose right passage is more similar than each of them.

    `similarities` `(rows, passages)` have the right passage first; `present` is false for absent passages.
    """
    rows = present[:, 1:].any(1)
    wrong = np.where(present[:, 1:], similarities[:, 1:], -np.inf).max(1, initial=-np.inf)
    return {"accuracy": float(np.mean(similarities[rows, 0] > wrong[rows]))}
