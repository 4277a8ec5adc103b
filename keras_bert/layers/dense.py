"""A dense layer with a product of rank 2 and a fast bias gradient."""

import keras
from keras import ops

from keras_bert.layers.graphs import custom_gradient
from keras_bert.layers.quantization import Quantizable


@keras.saving.register_keras_serializable(package="keras_bert")
class Dense(Quantizable, keras.layers.Dense):
    """`keras.layers.Dense`, computed over flattened rows.

    TensorFlow fuses a bias into a product of rank 2 alone, and Keras adds it after it has reshaped back.

    Example:
        y = Dense(3072, activation="relu")(x)
    """

    table_name, scaled_axis = "kernel", 1

    def call(self, inputs, training=None):
        flat = len(inputs.shape) == 2
        rows = inputs if flat else ops.reshape(inputs, (-1, inputs.shape[-1]))
        rows = ops.matmul(rows, self.kernel)
        if self.use_bias:
            # The copy is a plain tensor: a custom gradient must not see the variable itself.
            rows = _add_bias(rows, ops.copy(self.bias))
        rows = self.activation(rows)
        return rows if flat else ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))


@custom_gradient
def _add_bias(rows, bias):
    def gradient(upstream):
        # A product with ones sums in float32 and on all cores; TensorFlow's BiasAddGrad does neither in bfloat16.
        ones = ops.ones((1, ops.shape(upstream)[0]), upstream.dtype)
        return upstream, ops.matmul(ones, upstream)[0]

    return ops.add(rows, bias), gradient
