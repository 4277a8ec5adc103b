"""Builders: functions that wire layers into plain functional `keras.Model`s. Those of heads are in `keras_bert`."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
