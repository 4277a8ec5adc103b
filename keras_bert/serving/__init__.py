"""A TensorFlow Serving client, and a development server that implements TensorFlow Serving's protocols."""

import importlib

# Imported lazily: each transport needs packages that the other does not.
_HOMES = {
    "Client": "keras_bert.serving.client",
    "RequestError": "keras_bert.serving.errors",
    "RestTransport": "keras_bert.serving.rest_client",
    "RpcTransport": "keras_bert.serving.rpc_client",
}

__all__ = ["Client", "RequestError"]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert.serving' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
