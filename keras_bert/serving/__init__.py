"""A client of TensorFlow Serving, and a development server that speaks its protocol."""

import importlib

_HOMES = {"Client": "keras_bert.serving.client", "RequestError": "keras_bert.serving.errors"}

__all__ = ["Client", "RequestError"]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert.serving' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
