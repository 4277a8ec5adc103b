"""Activation functions with the names of `hidden_act`; GELU follows Hendrycks & Gimpel, 2016."""

import math

import keras
from keras import ops

from keras_bert.checks import check_choice
from keras_bert.layers.graphs import compiled, custom_gradient

# Of the tanh approximation.
_A = math.sqrt(2 / math.pi)
_B = math.sqrt(2 / math.pi) * 0.044715


def _weighted(cdf, density):
    """Returns the activation `x * cdf(x)`, computed in float32, given also the derivative of `cdf`."""

    @compiled
    def value(x):
        wide = ops.cast(x, "float32")
        return ops.cast(wide * cdf(wide), x.dtype)

    @compiled
    def gradient(x, upstream):
        wide = ops.cast(x, "float32")
        return upstream * ops.cast(cdf(wide) + wide * density(wide), x.dtype)

    # Automatic differentiation would make twice as many passes over BERT's widest tensor.
    return custom_gradient(lambda x: (value(x), lambda upstream: gradient(x, upstream)))


def _normal_cdf(x):
    return 0.5 + 0.5 * ops.erf(x * math.sqrt(0.5))


def _normal_density(x):
    return ops.exp(-0.5 * math.log(2 * math.pi) - 0.5 * x * x)


def _tanh_cdf(x):
    return 0.5 + 0.5 * ops.tanh(x * (_A + _B * (x * x)))


def _tanh_density(x):
    cdf = _tanh_cdf(x)
    return cdf * (1 - cdf) * (2 * _A + 6 * _B * x * x)


gelu = _weighted(_normal_cdf, _normal_density)  # Exact GELU, with erf.
gelu_tanh = _weighted(_tanh_cdf, _tanh_density)  # Its tanh approximation, as in Google's BERT.


@custom_gradient
def silu(x):
    """SiLU, `x * sigmoid(x)`. TensorFlow's own op leaks memory."""

    def gradient(upstream):
        share = ops.sigmoid(x)
        return upstream * (share + x * share * (1 - share))

    return x * ops.sigmoid(x), gradient


def _gelu_for_inference(x):
    if x.dtype != "float32":
        return ops.gelu(x, approximate=False)  # Uses erfc: no precision loss in 16 bits, but ONNX lacks it.
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))  # The form that LiteRT's converter supports.


_INFERENCE = {
    "gelu": _gelu_for_inference,
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": silu,
    "tanh": ops.tanh,
    "linear": lambda x: x,
}
_TRAINING = _INFERENCE | {"gelu": gelu, "gelu_new": gelu_tanh}


def activate(x, name, training=None):
    """Applies the activation function with a name from `BertConfig.hidden_act`.

    In training, GELU has a custom gradient. In inference, TensorFlow runs plain operations in the dtype of `x`; other
    backends fuse the version with the custom gradient, which computes in float32.
    """
    if training or keras.config.backend() != "tensorflow":
        function = _TRAINING[name]
    else:
        function = _INFERENCE[name]
    return function(x)


def check_activation(name):
    """Returns `name` if it is a supported activation; raises otherwise."""
    check_choice("activation", name, _INFERENCE)
    return name
