"""Asks an index many queries, in bounded memory."""

import json
import logging

from keras_bert.search.reranking import rerank
from keras_bert.training.progress import track

_LOG = logging.getLogger("keras_bert")
_TOGETHER = 1024  # Queries that are searched together: each part reads the whole index once.


def ask(index, queries, top: int = 10, batch_size: int = 32, cross_encoder=None, label=None):
    """Yields each query and its `top` hits, which a `cross_encoder` reorders by its `label`, see `rerank`."""
    parts = [queries[start : start + _TOGETHER] for start in range(0, len(queries), _TOGETHER)]
    for part in track(parts, f"searching, parts of {_TOGETHER} queries", show=len(parts) > 1):
        texts = [query.text for query in part]
        hits = index.search(texts, top, batch_size=batch_size)
        if cross_encoder is not None:
            hits = rerank(cross_encoder, texts, hits, label=label, batch_size=batch_size)
        yield from zip(part, hits, strict=True)


def warn_of_unknown(index, queries, relevance):
    """Logs how many of the relevant passages of the queries are not in the index: they cannot be found."""
    wanted = {passage for query in queries for passage, grade in relevance.get(query.id, {}).items() if grade > 0}
    count = len(wanted)
    wanted.difference_update(index.ids())
    if wanted:
        first = next(iter(sorted(wanted)))
        _LOG.warning("%d of %d relevant passages are not in the index. The first: %r", len(wanted), count, first)


def json_line(query, hits):
    """Returns a `Query` and its hits as JSON."""
    return json.dumps({"id": query.id, "query": query.text, "hits": hits}, ensure_ascii=False)


def readable(hit):
    """Returns a hit as one line: score, id and text, separated by tabs."""
    name, text = (" ".join(part.split()) for part in (hit["id"], f"{hit.get('title', '')} {hit['text']}"))
    return f"{hit['score']:.4f}\t{name}\t{text}"
