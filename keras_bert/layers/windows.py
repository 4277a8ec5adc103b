"""Documents in windows: a model runs on each window, in parts if there are many, and its outputs are joined."""

import math

import keras
from keras import ops

from keras_bert.layers.graphs import in_parts
from keras_bert.layers.quantization import Unquantized

MOST_TOKENS = 2**14  # Of the windows that are computed at once; as many as in a large batch.
PART_TOKENS = 2**13  # Of a part otherwise.


@keras.saving.register_keras_serializable(package="keras_bert")
class Windows(Unquantized, keras.layers.Layer):
    """Runs a model on the windows of documents, from `(batch, windows, ...)` to `(batch * windows, ...)`.

    A window without real tokens is absent, for documents with different numbers of windows. In TensorFlow graphs, the
    windows of large batches are computed in parts, without the absent ones, whose outputs are then zeros; the backward
    pass computes each part again, so that the memory does not depend on the number of windows.

    Args:
        model: a functional model of sequences, whose inputs have a `padding_mask` and whose outputs are a dict.

    Call arguments:
        inputs: dict of the inputs of `model`, `(batch, windows, length)`, or `(batch, windows, choices, length)`.
        training: bool, whether to apply dropout.

    Returns:
        dict of the outputs of `model`, `(batch * windows, ...)`.

    Example:
        outputs = Windows(build_classifier(encoder, num_classes=2))(inputs)
    """

    def __init__(self, model, **kwargs):
        # The layers of the model cast variables themselves; values of low precision would round the sums of gradients.
        super().__init__(**kwargs, autocast=False)
        self.model = model
        self.built = True

    def get_config(self):
        config = super().get_config()
        config["model"] = keras.saving.serialize_keras_object(self.model)
        return config

    @classmethod
    def from_config(cls, config):
        arguments = dict(config)
        arguments["model"] = keras.saving.deserialize_keras_object(config["model"])
        return cls(**arguments)

    def call(self, inputs, training=None):
        sequences = {}
        for name, ids in inputs.items():
            sequences[name] = ops.reshape(ids, (-1, *ops.shape(ids)[2:]))

        def run(part):
            return self.model(part, training=training)

        tokens = math.prod(ops.shape(inputs["padding_mask"])[2:])  # Of a window.
        most = None
        if training:
            most = self.most_windows(tokens)
        return in_parts(
            run,
            sequences,
            self.model.output,
            is_there=_are_there(sequences["padding_mask"], axes=1),
            most=most,
            size=PART_TOKENS // tokens,
            variables=self.model.weights,
            generators=self._generators(),
        )

    def most_windows(self, tokens):
        """Returns the number of windows of so many tokens whose activations are in memory at once, at least one."""
        most = MOST_TOKENS // tokens
        if isinstance(most, int):
            return max(most, 1)
        return ops.maximum(most, 1)

    def _generators(self):
        """Returns the random generators of the model's layers."""
        generators = []
        for layer in self.model._flatten_layers():
            for value in vars(layer).values():
                if isinstance(value, keras.random.SeedGenerator):
                    generators.append(value)
        return generators

    def compute_output_spec(self, inputs, training=None):
        specs = {}
        for name, output in self.model.output.items():
            specs[name] = keras.KerasTensor((None, *output.shape[1:]), output.dtype)
        return specs


def _are_there(padding_mask, axes):
    """Whether windows have real tokens, given how many axes of the mask tell the window."""
    return ops.any(ops.not_equal(padding_mask, 0), axis=tuple(range(axes, len(padding_mask.shape))))


class _JoinedWindows(Unquantized, keras.layers.Layer):
    """One output of each document from those of its windows. A subclass states how, for float32 values."""

    def call(self, outputs, padding_mask):
        is_there = _are_there(padding_mask, axes=2)
        shape = ops.shape(outputs)[1:]
        outputs = ops.reshape(ops.cast(outputs, "float32"), (*ops.shape(is_there), *shape))
        ones = [1] * len(shape)
        is_there = ops.reshape(is_there, (*ops.shape(is_there), *ones))
        return self.joined(outputs, is_there)

    def joined(self, outputs, is_there):
        """Returns `(batch, ...)` of outputs `(batch, windows, ...)`, those of windows that are there."""
        raise NotImplementedError

    def compute_output_spec(self, outputs, padding_mask):
        return keras.KerasTensor((padding_mask.shape[0], *outputs.shape[1:]), "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class MeanOfWindows(_JoinedWindows):
    """Means of the outputs of the windows of each document, from `(batch * windows, ...)` to `(batch, ...)`.

    A window without real tokens is absent, for documents with different numbers of windows.

    Call arguments:
        outputs: `(batch * windows, ...)`.
        padding_mask: `(batch, windows, ..., length)`, nonzero for real tokens.

    Returns:
        float32 `(batch, ...)`.

    Example:
        vectors = MeanOfWindows()(vectors, padding_mask)
    """

    def joined(self, outputs, is_there):
        weights = ops.cast(is_there, "float32")
        return ops.sum(outputs * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0)


@keras.saving.register_keras_serializable(package="keras_bert")
class LogMeanExpOfWindows(_JoinedWindows):
    """Logarithms of the means of the exponentials of logits: one window can decide, as none can in a mean of many.

    The arguments and the result are those of `MeanOfWindows`. Logits of one window stay as they are.

    Example:
        logits = LogMeanExpOfWindows()(logits, padding_mask)
    """

    def joined(self, outputs, is_there):
        highest = ops.max(ops.where(is_there, outputs, -float("inf")), axis=1, keepdims=True)
        highest = ops.stop_gradient(ops.where(ops.isfinite(highest), highest, 0.0))
        count = ops.maximum(ops.sum(ops.cast(is_there, "float32"), axis=1), 1.0)
        # Absent windows must not overflow: the gradient of what is left out would be NaN.
        exponentials = ops.exp(ops.where(is_there, outputs - highest, 0.0))
        total = ops.sum(ops.where(is_there, exponentials, 0.0), axis=1)
        total = ops.where(ops.any(is_there, axis=1), total, 1.0)
        return ops.log(total) - ops.log(count) + ops.squeeze(highest, axis=1)
