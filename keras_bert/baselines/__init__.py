"""The models that BERT was compared with: ELMo's language model, BiLSTM classifiers, BiDAF."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.baselines.bidaf": "build_bidaf",
        "keras_bert.baselines.bilm": "build_bilm",
        "keras_bert.baselines.bilstm_classifier": "build_bilstm_classifier",
        "keras_bert.baselines.loaded": "load",
        "keras_bert.baselines.models": "describe",
    },
)
