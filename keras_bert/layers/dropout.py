"""Dropout (Srivastava et al., 2014) with 16 random bits per element and an optional seed from the caller."""

import math

import keras
from keras import ops

from keras_bert.checks import check_rate
from keras_bert.layers.quantization import Unquantized


class GivenSeed(keras.random.SeedGenerator):
    """Passes a given seed to Keras functions that expect a generator."""

    def __init__(self, seed):
        self._seed = seed

    def next(self, ordered=True):
        return self._seed


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(Unquantized, keras.layers.Layer):
    """Sets a fraction of the inputs to zero during training and scales up the rest.

    Keras' own layer draws a float32 per element, which takes a fifth of a bfloat16 forward pass. This layer draws
    16 bits, so the rate is rounded to a multiple of 1/65536; the scale matches the rounded rate.

    Args:
        rate: float in [0, 1), fraction of the elements to drop.
        seed: int, seed of the layer's random generator. Defaults to `None`.

    Call arguments:
        inputs: a float tensor of any shape.
        seed: a seed from `next_seed()`, for rematerialization, which needs the same mask twice. Defaults to `None`,
            which draws the next seed.
        training: bool, whether to apply dropout.

    Returns:
        A tensor like `inputs`.

    Example:
        dropout = Dropout(0.1)
        y = dropout(x, training=True)
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rate("rate", rate)
        self.rate = rate
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def next_seed(self):
        """Returns a new seed for `call`, or `None` if the rate is 0."""
        if self.rate > 0:
            return self.seed_generator.next()
        return None

    def call(self, inputs, seed=None, training=None):
        if not training or self.rate == 0:
            return inputs
        # Differs from BERT: the rate is rounded to a multiple of 1/65536, the resolution of 16 bits.
        dropped = round(self.rate * 65536)
        if seed is None:
            seed = self.next_seed()
        bits = _random_int16(ops.shape(inputs), seed)
        keep = ops.cast(bits >= dropped - 32768, inputs.dtype)
        return inputs * (keep * (65536 / (65536 - dropped)))

    def compute_output_spec(self, inputs, seed=None, training=None):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def _random_int16(shape, seed):
    """Returns uniform int16 values of a shape, two from each 32-bit word."""
    size = math.prod(shape)
    words = keras.random.randint(((size + 1) // 2, 1), -(2**31), 2**31 - 1, "int32", GivenSeed(seed))
    halves = ops.reshape(ops.view(words, "int16"), (-1,))
    return ops.reshape(halves[:size], shape)
