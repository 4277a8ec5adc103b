"""Losses of `Trainer`, imported on first use. Those of `model.compile` are Keras' own."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
