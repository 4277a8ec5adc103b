"""A TensorFlow Serving client, and a development server that implements TensorFlow Serving's protocols."""

from keras_bert.serving.client import Client
from keras_bert.serving.errors import RequestError

__all__ = ["Client", "RequestError"]
