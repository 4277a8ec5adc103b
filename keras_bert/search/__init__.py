"""Semantic search: an index of passages on disk, and the search in it."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.search.data": "read_passages read_queries read_relevance",
        "keras_bert.search.index": "SearchIndex open_index",
        "keras_bert.search.index_builder": "build_index",
        "keras_bert.search.metrics": "evaluate",
        "keras_bert.search.reranking": "rerank",
        "keras_bert.search.squad": "read_squad",
    },
)
