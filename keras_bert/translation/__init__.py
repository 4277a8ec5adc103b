"""The Transformer encoder-decoder: the model, its training on parallel texts, and Marian's checkpoints."""

import importlib

# Imported lazily: commands read names of models without Keras.
_MODULES = {"describe": "model", "load": "loaded"}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
