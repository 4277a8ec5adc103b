"""The Transformer encoder-decoder: the model, its training on parallel texts, and Marian's checkpoints."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
