"""Base class of layers that contain other layers."""

import keras

from keras_bert.layers.dense import Dense
from keras_bert.layers.quantization import Configured


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
        parts = {path: changes for path, part in _parts(self) if (changes := self._changes(part))}
        return {**config, "parts": parts} if parts else config

    def _changes(self, part):
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
        for path, part in _parts(layer):
            changes = parts.get(path, {})
            if "trainable" in changes:
                part.trainable = changes["trainable"]
            if "dtype" in changes:
                part.dtype_policy = keras.dtype_policies.get(changes["dtype"])
                part.quantization_config = keras.saving.deserialize_keras_object(changes["quantization_config"])
        return layer


def _parts(layer, prefix=""):
    """Yields the path and the layer of all nested sublayers, parents before children."""
    for part in layer._flatten_layers(include_self=False, recursive=False):
        yield prefix + part.name, part
        yield from _parts(part, f"{prefix}{part.name}/")
