"""The Transformer encoder-decoder: the model, its training on parallel texts, and Marian's checkpoints."""

from keras_bert.lazy import lazy_names

# Imported lazily: commands read names of models without Keras.
_MODULES = {"describe": "model", "load": "loaded"}

__all__ = sorted(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
