"""Semantic search: an index of passages on disk, and the search in it."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
