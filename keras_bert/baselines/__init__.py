"""The models that BERT was compared with: ELMo's language model, BiLSTM classifiers, BiDAF."""

import importlib

# Imported lazily: commands read names of models without Keras.
_MODULES = {"describe": "models", "load": "loaded"}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
