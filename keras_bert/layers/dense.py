"""A dense layer with a fused bias and a fast bias gradient."""

import keras
from keras import ops

from keras_bert.layers.graphs import custom_gradient
from keras_bert.layers.quantization import Quantizable


@keras.saving.register_keras_serializable(package="keras_bert")
class Dense(Quantizable, keras.layers.Dense):
    """`keras.layers.Dense` on flattened inputs: TensorFlow only fuses the bias into matrix products of rank 2.

    Example:
        y = Dense(3072, activation="relu")(x)
    """

    table_name, scaled_axis = "kernel", 1

    def call(self, inputs, training=None):
        flat = len(inputs.shape) == 2
        rows = inputs if flat else ops.reshape(inputs, (-1, inputs.shape[-1]))
        rows = self.multiply(rows)
        if self.use_bias:
            # A copy, since a custom gradient must not capture variables.
            rows = _add_bias(rows, ops.copy(self.bias))
        rows = self.activation(rows)
        return rows if flat else ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))

    def multiply(self, rows):
        """Returns the product of rows and the kernel, with the LoRA update."""
        if not self.lora_enabled:
            return ops.matmul(rows, self.kernel)
        # Not the sum of kernel and update, as in Keras: its gradient is that of the whole kernel, which is frozen.
        update = ops.matmul(ops.matmul(rows, self.lora_kernel_a), self.lora_kernel_b)
        return ops.matmul(rows, self._kernel) + (self.lora_alpha / self.lora_rank) * update


@custom_gradient
def _add_bias(rows, bias):
    def gradient(upstream):
        # A matrix product with ones sums in float32 on all cores; BiasAddGrad does neither in bfloat16.
        ones = ops.ones((1, ops.shape(upstream)[0]), upstream.dtype)
        return upstream, ops.matmul(ones, upstream)[0]

    return ops.add(rows, bias), gradient
