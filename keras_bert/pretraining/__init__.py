"""Pre-training: the vocabulary, records from text files, their batches, and a teacher of the model."""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
