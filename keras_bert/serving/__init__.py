"""A client of TensorFlow Serving, and a development server with TensorFlow Serving's protocols."""

import importlib

# The transports are here because each needs packages that the other does without.
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
