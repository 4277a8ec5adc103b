"""Answers of loaded models in Python: the same signatures as an export, and why a model answers what it does.

`Answerer` is for models of one's own.
"""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
