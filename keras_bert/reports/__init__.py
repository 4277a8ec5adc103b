"""HTML reports: their page from a template, the facts in its head, and charts. Names are imported on first use."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
