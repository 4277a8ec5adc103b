"""The base of layers that are made of layers."""

import keras


class Composite(keras.layers.Layer):
    """A layer whose config tells what was changed in its parts after it was made.

    Keras writes the config of the outer layer alone, so that a `.keras` file and `clone_model` would forget which
    parts are frozen or quantized.
    """

    @property
    def part_options(self):
        """What every part takes over from the whole."""
        return {"dtype": self.dtype_policy, "trainable": self.trainable}

    def get_config(self):
        config = super().get_config()
        parts = {path: options for path, part in _parts(self) if (options := self._changed(part))}
        return {**config, "parts": parts} if parts else config

    def _changed(self, part):
        options = {}
        if part.trainable != self.trainable:
            options["trainable"] = part.trainable
        if part.quantization_mode is not None:
            options["dtype"] = keras.saving.serialize_keras_object(part.dtype_policy)
            options["quantization_config"] = keras.saving.serialize_keras_object(part.quantization_config)
        return options

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        changed = config.pop("parts", {})
        layer = super().from_config(config)
        for path, part in _parts(layer):
            options = changed.get(path, {})
            if "trainable" in options:
                part.trainable = options["trainable"]
            if "dtype" in options:
                part.dtype_policy = keras.dtype_policies.get(options["dtype"])
                part.quantization_config = keras.saving.deserialize_keras_object(options["quantization_config"])
        return layer


def _parts(layer, prefix=""):
    """The layers inside a layer, by path, a layer before its own parts."""
    for part in layer._flatten_layers(include_self=False, recursive=False):
        yield prefix + part.name, part
        yield from _parts(part, f"{prefix}{part.name}/")
