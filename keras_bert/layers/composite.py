"""Dense layers, and the base class of layers that contain others."""

import keras
from keras import ops

from keras_bert.layers.graphs import custom_gradient
from keras_bert.layers.quantization import Configured, Quantizable


@keras.saving.register_keras_serializable(package="keras_bert")
class Dense(Quantizable, keras.layers.Dense):
    """`keras.layers.Dense` on flattened inputs: TensorFlow only fuses the bias into matrix products of rank 2.

    Example:
        y = Dense(3072, activation="relu")(x)
    """

    table_name = "kernel"
    scaled_axis = 1

    def call(self, inputs, training=None):
        if len(inputs.shape) == 2:
            return self._of_rows(inputs)
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        return ops.reshape(self._of_rows(rows), (*ops.shape(inputs)[:-1], self.units))

    def _of_rows(self, inputs):
        rows = self.multiply(inputs)
        if self.use_bias:
            # A copy, since a custom gradient must not capture variables.
            rows = _add_bias(rows, ops.copy(self.bias))
        return self.activation(rows)

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


class Composite(Configured, keras.layers.Layer):
    """A layer whose config also records which of its sublayers are frozen or quantized.

    Keras only saves the config of the outer layer, so a `.keras` file and `clone_model` would lose these changes.
    """

    @property
    def part_options(self):
        """The arguments that every sublayer shares with this layer."""
        return {"dtype": self.dtype_policy, "trainable": self.trainable}

    def make_dense(self, units, name, activation=None):
        """Returns a dense sublayer; requires `self.initializer_range`."""
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        return Dense(units, activation, kernel_initializer=initializer, name=name, **self.part_options)

    def get_config(self):
        config = super().get_config()
        parts = {}
        for path, part in _nested_parts(self):
            changes = self._changes_of(part)
            if changes:
                parts[path] = changes
        if parts:
            config["parts"] = parts
        return config

    def _changes_of(self, part):
        """Returns what was changed in a sublayer after it was made, as config values."""
        changes = {}
        if part.trainable != self.trainable:
            changes["trainable"] = part.trainable
        if part.quantization_mode is not None:
            changes["dtype"] = keras.saving.serialize_keras_object(part.dtype_policy)
            changes["quantization_config"] = keras.saving.serialize_keras_object(part.quantization_config)
        return changes

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        parts = config.pop("parts", {})
        layer = super().from_config(config)
        for path, part in _nested_parts(layer):
            changes = parts.get(path, {})
            if "trainable" in changes:
                part.trainable = changes["trainable"]
            if "dtype" in changes:
                part.dtype_policy = keras.dtype_policies.get(changes["dtype"])
                part.quantization_config = keras.saving.deserialize_keras_object(changes["quantization_config"])
        return layer


def _nested_parts(layer, prefix=""):
    """Yields the path and the layer of all nested sublayers, parents before children."""
    for part in layer._flatten_layers(include_self=False, recursive=False):
        yield prefix + part.name, part
        yield from _nested_parts(part, f"{prefix}{part.name}/")
