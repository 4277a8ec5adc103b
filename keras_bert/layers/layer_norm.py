"""Layer normalization (Ba et al., 2016) in float32."""

import keras
from keras import ops

from keras_bert.layers.graphs import custom_gradient
from keras_bert.layers.quantization import Unquantized


@keras.saving.register_keras_serializable(package="keras_bert")
class LayerNorm(Unquantized, keras.layers.Layer):
    """Normalizes the last axis to mean 0 and variance 1, then scales by `gamma` and shifts by `beta`.

    Computes in float32 under any dtype policy. Keras' own layer rounds `gamma` and `beta` to the compute dtype, and
    its automatic gradient takes 1.5x as long.

    Args:
        epsilon: float, added to the variance. Defaults to 1e-12.

    Call arguments:
        inputs: `(..., width)`.

    Returns:
        A tensor like `inputs`.

    Example:
        y = LayerNorm(epsilon=1e-12)(x)
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(shape=shape, initializer="ones", autocast=False, name="gamma")
        self.beta = self.add_weight(shape=shape, initializer="zeros", autocast=False, name="beta")

    def call(self, inputs):
        # Copies, since a custom gradient must not capture variables.
        gamma, beta = (ops.cast(ops.copy(weight), "float32") for weight in (self.gamma, self.beta))
        return _normalize(inputs, gamma, beta, self.epsilon)


def _normalize(inputs, gamma, beta, epsilon):
    @custom_gradient
    def normalize(inputs, gamma, beta):
        dtype = inputs.dtype
        centered = ops.cast(inputs, "float32")
        centered = centered - ops.mean(centered, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(centered * centered, axis=-1, keepdims=True) + epsilon)
        normal = centered * scale

        def gradient(upstream):
            upstream = ops.cast(upstream, "float32")
            rows = tuple(range(len(upstream.shape) - 1))
            to_gamma = upstream * normal
            to_normal = upstream * gamma
            along_mean = ops.mean(to_normal, axis=-1, keepdims=True)
            along_normal = ops.mean(to_normal * normal, axis=-1, keepdims=True)
            to_inputs = scale * (to_normal - along_mean - normal * along_normal)
            return ops.cast(to_inputs, dtype), ops.sum(to_gamma, axis=rows), ops.sum(upstream, axis=rows)

        return ops.cast(normal * gamma + beta, dtype), gradient

    return normalize(inputs, gamma, beta)
