"""Reorders what a search has found by a cross-encoder, a model that reads query and passage together."""

from keras_bert.tasks.retrieval.data import Passage
from keras_bert.training.progress import track

_TOGETHER = 16  # Queries whose pairs are computed together.


def rerank(bert, queries, hits, label=None, batch_size=32):
    """Reorders the hits of `SearchIndex.search` by the scores of a cross-encoder.

    Args:
        bert: a `LoadedBert` that takes pairs: regression, whose score is its `value`, or classification, whose score is
            the probability of a label.
        queries: list of strings, or one string.
        hits: list of the hits of each query, see `SearchIndex.search`; for one string, its hits.
        label: str, the label of relevant pairs. Defaults to the last one of two; required for more.
        batch_size: int, see `LoadedBert.predict`. Defaults to 32.

    Returns:
        A list of lists of dicts like `hits`, best first: `score` is that of the cross-encoder, `similarity` the former
        one. Hits with equal scores keep their order. For one string, its list.

    Example:
        hits = keras_bert.rerank(keras_bert.load("my_cross_encoder"), queries, index.search(queries, top=50))
    """
    if isinstance(queries, str):
        return rerank(bert, [queries], [hits], label, batch_size)[0]
    if len(queries) != len(hits):
        raise ValueError(f"`hits` must have {len(queries)} lists, one per query. Received: {len(hits)}")
    label = _label(bert, label)
    reordered = []
    for start in track(range(0, len(queries), _TOGETHER), f"reranking, parts of {_TOGETHER} queries"):
        part = slice(start, start + _TOGETHER)
        asked = zip(queries[part], hits[part], strict=True)
        pairs = [(query, _content(hit)) for query, found in asked for hit in found]
        answers = iter(bert.predict(pairs, batch_size) if pairs else [])
        reordered += [_reordered(found, answers, label) for found in hits[part]]
    return reordered


def _label(bert, label):
    """Returns the label whose probability is the score, `None` for regression; raises an error for other models."""
    if bert.head != "classification" or bert.multi_label or bert.pair is False:
        kind = "single texts" if bert.pair is False else f"head={bert.head!r}"
        raise ValueError(f"a cross-encoder must be a classifier or a regression model of pairs. Received: {kind}")
    outputs = bert.model().output["logits"].shape[-1]
    if outputs == 1:
        if label is not None:
            raise ValueError(f"`label`: the cross-encoder is a regression model, without labels. Received: {label!r}")
        return None
    labels = [f"LABEL_{number}" for number in range(outputs)] if bert.labels is None else list(map(str, bert.labels))
    if label is None and outputs == 2:
        return labels[-1]
    if label not in labels:
        known = ", ".join(labels)
        raise ValueError(f"`label` must be the label of relevant pairs, one of {known}. Received: label={label!r}")
    return label


def _content(hit):
    return Passage(hit["id"], hit["text"], hit.get("title", "")).content


def _reordered(hits, answers, label):
    """Returns the hits of a query in the order of the next answers."""
    scored = []
    for hit in hits:
        answer = next(answers)
        score = answer["value"] if label is None else answer["scores"][label]
        scored.append({**hit, "score": float(score), "similarity": hit["score"]})
    return sorted(scored, key=lambda hit: -round(hit["score"], 6))  # Equal pairs differ by rounding.
