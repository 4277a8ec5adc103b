"""Layers of recurrent models: a bidirectional LSTM, and the hidden states that it reads."""

import keras
from keras import ops

from keras_bert.layers import Composite

# The hidden states of each kind of features: the output of the embeddings, then those of the blocks.
_STATES = {
    "embeddings": slice(0, 1),
    "second_to_last": slice(-2, -1),
    "last": slice(-1, None),
    "sum_last_four": slice(-4, None),
    "concat_last_four": slice(-4, None),
    "sum_all": slice(1, None),
}
FEATURES = tuple(_STATES)


@keras.saving.register_keras_serializable(package="research")
class EncoderFeatures(Composite):
    """Selects and concatenates hidden states of an encoder, one of `FEATURES`. No gradient flows into the encoder.

    Its input are the outputs of the embeddings and of all blocks. `WeightedSum` adds up the states of a sum.
    """

    def __init__(self, features="concat_last_four", **kwargs):
        super().__init__(**kwargs)
        if features not in FEATURES:
            raise ValueError(f"`features` must be one of {', '.join(FEATURES)}. Received: features={features!r}")
        self.features = features
        self.built = True

    def call(self, states):
        return ops.stop_gradient(ops.concatenate(states[_STATES[self.features]], axis=-1))

    def compute_output_shape(self, states_shape):
        selected = states_shape[_STATES[self.features]]
        return (*selected[0][:-1], len(selected) * selected[0][-1])

    def count(self, blocks):
        """Returns the number of states that are selected from an encoder with this number of blocks."""
        selected = _STATES[self.features]
        least = max(1, -selected.start)
        if blocks < least:
            raise ValueError(
                f"`features`={self.features!r} needs an encoder with at least {least} blocks. Received: {blocks} "
                "block(s); use 'last' or 'sum_all'"
            )
        return len(range(blocks + 1)[selected])


@keras.saving.register_keras_serializable(package="research")
class WeightedSum(Composite):
    """Adds up concatenated hidden states with learned weights, a softmax, and a learned scale (Peters et al., 2018,
    equation 1). At first, the sum is their mean."""

    def __init__(self, states, **kwargs):
        super().__init__(**kwargs)
        self.states = states

    def build(self, features_shape):
        self.weighting = self.add_weight(shape=(self.states,), initializer="zeros", name="weighting")
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")

    def call(self, features):
        shape = (*ops.shape(features)[:-1], self.states, features.shape[-1] // self.states)
        weighting = ops.cast(self.weighting, "float32")
        weights = ops.exp(weighting - ops.logsumexp(weighting)) * ops.cast(self.scale, "float32")
        return ops.sum(ops.reshape(features, shape) * ops.cast(weights, features.dtype)[:, None], axis=-2)

    def compute_output_shape(self, features_shape):
        return (*features_shape[:-1], features_shape[-1] // self.states)


@keras.saving.register_keras_serializable(package="research")
class Orthogonal(keras.initializers.Orthogonal):
    """`keras.initializers.Orthogonal` for all dtypes: TensorFlow has no QR decomposition in 16 bits."""

    def __call__(self, shape, dtype=None):
        return ops.cast(super().__call__(shape, "float32"), dtype or keras.config.floatx())


@keras.saving.register_keras_serializable(package="research")
class BiLSTM(Composite):
    """A bidirectional LSTM that ignores padding (Hochreiter & Schmidhuber, 1997).

    Returns `(batch, length, 2 * units)`, the left-to-right states first, zeros at padding. With `separate`, each
    direction reads its own half of the inputs, as in ELMo: stacked layers then never mix the directions.
    """

    def __init__(self, units, separate=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.separate = separate
        options = dict(self.part_options)
        options["return_sequences"] = True
        options["use_cudnn"] = False  # Its operation in a SavedModel would need a GPU.
        options["recurrent_initializer"] = Orthogonal()
        self.forward = keras.layers.LSTM(units, name="forward", **options)
        self.backward = keras.layers.LSTM(units, go_backwards=True, name="backward", **options)

    def build(self, inputs_shape, padding_mask_shape=None):
        width = inputs_shape[-1]
        if self.separate:
            width //= 2
        self.forward.build((None, None, width))
        self.backward.build((None, None, width))

    def call(self, inputs, padding_mask, training=None):
        mask = ops.not_equal(padding_mask, 0)
        left = right = inputs
        if self.separate:
            left, right = ops.split(inputs, 2, axis=-1)
        backward = ops.flip(self.backward(right, mask=mask, training=training), axis=1)
        forward = self.forward(left, mask=mask, training=training)
        outputs = ops.concatenate([forward, backward], axis=-1)
        return outputs * ops.cast(ops.expand_dims(mask, -1), outputs.dtype)

    def compute_output_shape(self, inputs_shape, padding_mask_shape=None):
        return (*inputs_shape[:-1], 2 * self.units)
