"""Batches for `Trainer` and `model.fit`, imported on first use."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
