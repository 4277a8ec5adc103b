"""Heads: what is on top of an encoder. Heads of your own subclass `Head` or one of these."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
