"""The models that BERT was compared with: ELMo's language model, BiLSTM classifiers, BiDAF."""

from keras_bert.lazy import lazy_names

# Imported lazily: commands read names of models without Keras.
_MODULES = {"describe": "models", "load": "loaded"}

__all__ = sorted(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
