"""Activations by the names of `hidden_act`; GELU after Hendrycks & Gimpel, 2016."""

import math

import keras
from keras import ops

from keras_bert.layers.graphs import custom_gradient


@custom_gradient
def gelu(x):
    """x times the normal distribution function of x, by erf. Computed in float32."""
    # Automatic differentiation takes twice the passes over the widest tensor of BERT.
    dtype = x.dtype
    x = ops.cast(x, "float32")
    scaled = x * math.sqrt(0.5)
    cdf = 0.5 + 0.5 * ops.erf(scaled)

    def gradient(upstream):
        density = ops.exp(-0.5 * math.log(2 * math.pi) - scaled * scaled)
        return upstream * ops.cast(cdf + x * density, dtype)

    return ops.cast(x * cdf, dtype), gradient


@custom_gradient
def gelu_tanh(x):
    """The tanh form of GELU, as in Google's BERT. Computed in float32."""
    dtype = x.dtype
    x = ops.cast(x, "float32")
    a, b = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
    squared = x * x
    cdf = 0.5 + 0.5 * ops.tanh(x * (a + b * squared))

    def gradient(upstream):
        slope = cdf * (1 - cdf) * (2 * a + 6 * b * squared)
        return upstream * ops.cast(cdf + x * slope, dtype)

    return ops.cast(x * cdf, dtype), gradient


@custom_gradient
def silu(x):
    """x times the logistic function of x; TensorFlow's own op leaks memory."""

    def gradient(upstream):
        share = ops.sigmoid(x)
        return upstream * (share + x * share * (1 - share))

    return x * ops.sigmoid(x), gradient


def _gelu_for_inference(x):
    if x.dtype != "float32":
        return ops.gelu(x, approximate=False)  # By erfc, which loses nothing in 16 bits; ONNX has no such operation.
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))  # In this form LiteRT's converter knows it.


_INFERENCE = {
    "gelu": _gelu_for_inference,
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": silu,
    "tanh": ops.tanh,
    "linear": lambda x: x,
}
_TRAINING = {**_INFERENCE, "gelu": gelu, "gelu_new": gelu_tanh}


def activate(x, name, training=None):
    """Applies the activation that `BertConfig.hidden_act` names.

    In training GELU has a custom gradient. For inference on TensorFlow it is plain operations in the dtype of `x`;
    other backends fuse the custom one, which computes in float32.
    """
    ours = training or keras.config.backend() != "tensorflow"
    return (_TRAINING if ours else _INFERENCE)[name](x)


def check_activation(name):
    """Returns the name of an activation, or raises if there is none."""
    if name not in _INFERENCE:
        raise ValueError(f"`activation` must be one of {', '.join(_INFERENCE)}. Received: activation={name!r}")
    return name
