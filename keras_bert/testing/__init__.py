"""Checks of heads and tasks: every promise of the package, on a random tiny model. Names are imported on first use."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
