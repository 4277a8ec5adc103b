"""The hits of many queries, and their order by a cross-encoder, a model that reads query and passage together."""

import itertools
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.files import json_text
from keras_bert.progress import track
from keras_bert.search.data import Passage
from keras_bert.text.token_counts import told_once

if TYPE_CHECKING:  # Commands read names of models without Keras.
    from keras_bert.bert import LoadedBert

_LOG = logging.getLogger("keras_bert")
_TOGETHER = 16  # Queries whose pairs are computed together.
_ASKED = 1024  # Queries that are searched together: each part reads the whole index once.


@told_once()
def rerank(bert: "LoadedBert", queries: Any, hits: Any, *, label: str | None = None, batch_size: int = 32) -> list:
    """Reorders the hits of `SearchIndex.search` by the scores of a cross-encoder.

    Args:
        bert: a `LoadedBert` that takes pairs: regression, whose score is its `value`, or classification, whose score is
            the probability of a label.
        queries: list of strings, or one string.
        hits: list of the hits of each query, see `SearchIndex.search`; for one string, its hits.
        label: str, the label of relevant pairs. Defaults to the last one of two; required for more and for multi-label
            models.
        batch_size: int, see `LoadedBert.predict`. Defaults to 32.

    Returns:
        A list of lists of dicts like `hits`, best first: `score` is that of the cross-encoder, `similarity` the former
        one. The order is that of the logits, also where scores are rounded; the same passages keep their order. For
        one string, its list.

    Example:
        hits = keras_bert.search.rerank(keras_bert.load("my_cross_encoder"), queries, index.search(queries, n_best=50))
    """
    if isinstance(queries, str):
        return rerank(bert, [queries], [hits], label=label, batch_size=batch_size)[0]
    if len(queries) != len(hits):
        raise ValueError(f"`hits` must have {len(queries)} lists, one per query. Received: {len(hits)}")
    label = _relevant_label(bert, label)
    reordered = []
    for start in track(range(0, len(queries), _TOGETHER), f"reranking, parts of {_TOGETHER} queries"):
        end = start + _TOGETHER
        pairs = _pairs(queries[start:end], hits[start:end])
        different = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
        # Once for equal pairs, whose scores would differ by rounding.
        predicted = bert.predict(different, batch_size=batch_size, logits=True)
        answers = dict(zip(different, predicted, strict=True))
        for candidates, candidate_pairs in zip(hits[start:end], pairs, strict=True):
            judged = [answers[pair] for pair in candidate_pairs]
            reordered.append(_reordered(candidates, judged, label))
    return reordered


def _pairs(queries, hits):
    """Returns for each query a list of it with each of its hits, pairs of texts."""
    pairs = []
    for query, candidates in zip(queries, hits, strict=True):
        pairs.append([(query, _content(hit)) for hit in candidates])
    return pairs


def _relevant_label(bert, label):
    """Returns the label whose probability is the score, `None` for regression; raises an error for other models."""
    logits = bert.model().output.get("logits")
    classifies = logits is not None and len(logits.shape) == 2 and logits.shape[-1] is not None
    if not classifies or bert.pair is False:
        received = "single texts" if bert.pair is False else f"head={bert.head!r}"
        raise ValueError(f"a cross-encoder must be a classifier or a regression model of pairs. Received: {received}")
    outputs = logits.shape[-1]
    if outputs == 1 and not bert.multi_label:
        if label is not None:
            raise ValueError(f"`label`: the cross-encoder is a regression model, without labels. Received: {label!r}")
        return None
    if bert.labels is None:
        labels = [f"LABEL_{number}" for number in range(outputs)]
    else:
        labels = list(map(str, bert.labels))
    if label is None and outputs == 2 and not bert.multi_label:
        return labels[-1]
    if label not in labels:
        known = ", ".join(labels)
        raise ValueError(f"`label` must be the label of relevant pairs, one of {known}. Received: label={label!r}")
    return label


def _content(hit):
    return Passage(hit["id"], hit["text"], hit.get("title", "")).content


def _reordered(hits, answers, label):
    """Returns the hits of a query in the order of the answers to their pairs."""
    margins = [_margin(answer, label) for answer in answers]
    order = sorted(range(len(hits)), key=lambda number: -margins[number])
    reordered = []
    for number in order:
        answer = answers[number]
        score = answer["value"] if label is None else answer["scores"][label]
        similarity = hits[number]["score"]
        reordered.append(hits[number] | {"score": score, "similarity": similarity})
    return reordered


def _margin(answer, label):
    """Returns a number that has the order of the scores, without their rounding: a logit, or the log of the odds."""
    logits = np.array(answer["logits"])
    if label is None:
        return logits[0]
    index = list(answer["scores"]).index(label)
    is_multi_label = "label" not in answer
    if is_multi_label:
        return logits[index]
    others = np.delete(logits, index)
    return logits[index] - np.logaddexp.reduce(others)


def ask(index, queries, n_best: int = 10, batch_size: int = 32, cross_encoder=None, label=None):
    """Yields each query and its `n_best` hits, which a `cross_encoder` reorders by its `label`, see `rerank`."""
    parts = [queries[start : start + _ASKED] for start in range(0, len(queries), _ASKED)]
    for part in track(parts, f"searching, parts of {_ASKED} queries", show=len(parts) > 1):
        texts = [query.text for query in part]
        hits = index.search(texts, n_best, batch_size=batch_size)
        if cross_encoder is not None:
            hits = rerank(cross_encoder, texts, hits, label=label, batch_size=batch_size)
        yield from zip(part, hits, strict=True)


def warn_of_unknown(index, queries, relevance):
    """Logs how many of the relevant passages of the queries are not in the index: they cannot be found."""
    relevant = set()
    for query in queries:
        for passage, grade in relevance.get(query.id, {}).items():
            if grade > 0:
                relevant.add(passage)
    unknown = relevant.difference(index.ids())
    if unknown:
        _LOG.warning(
            "%d of %d relevant passages are not in the index. The first: %r", len(unknown), len(relevant), min(unknown)
        )


def json_line(query, hits):
    """Returns a `Query` and its hits as JSON."""
    return json_text({"id": query.id, "query": query.text, "hits": hits}, measured=True)


def readable(hit):
    """Returns a hit as one line: score, id and text, separated by tabs."""
    name = " ".join(hit["id"].split())
    content = f"{hit.get('title', '')} {hit['text']}"
    text = " ".join(content.split())
    return f"{hit['score']:.4f}\t{name}\t{text}"
