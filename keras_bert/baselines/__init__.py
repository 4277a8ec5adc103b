"""The models that BERT was compared with: ELMo's language model, BiLSTM classifiers, BiDAF."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
