"""Layers of the heads: pooling, transform and output bias of the masked-LM head, reshaping for multiple choice."""

import keras
from keras import ops

from keras_bert.layers.activations import activate, check_activation
from keras_bert.layers.composite import Composite, Dense
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import FORBIDDEN, take_positions
from keras_bert.layers.quantization import Unquantized


@keras.saving.register_keras_serializable(package="keras_bert")
class Pooler(Composite):
    """Applies a dense layer and an activation to the final [CLS] vector: C in the paper.

    Args:
        hidden_size: int, width of the encoder.
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.
        last: bool, whether to pool the last real token instead of [CLS]. Defaults to `False`.
        activation: str, "tanh", "relu" or "gelu". Defaults to "tanh".

    Call arguments:
        sequence_output: `(batch, length, hidden_size)`.
        padding_mask: `(batch, length)`, nonzero for real tokens; only with `last`.

    Returns:
        `(batch, hidden_size)`.

    Example:
        pooled = Pooler(768)(sequence_output)
    """

    def __init__(self, hidden_size, initializer_range=0.02, last=False, activation="tanh", **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.last = last
        self.activation = activation
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: hidden_size})
        self.dense = self.make_dense(hidden_size, "dense", activation=activation)

    def build(self, sequence_output_shape, padding_mask_shape=None):
        self.dense.build((None, self.hidden_size))

    def call(self, sequence_output, padding_mask=None):
        return self.dense(_last_token(sequence_output, padding_mask) if self.last else sequence_output[:, 0])

    def compute_output_shape(self, sequence_output_shape, padding_mask_shape=None):
        return (sequence_output_shape[0], self.hidden_size)


def _last_token(sequence_output, padding_mask):
    """Returns the vector of the last real token of each row; of a row without any, the first one."""
    batch, length, width = ops.shape(sequence_output)
    places = ops.arange(length, dtype="int32") * ops.cast(ops.not_equal(padding_mask, 0), "int32")
    rows = ops.max(places, axis=1) + ops.arange(batch, dtype="int32") * length
    return ops.take(ops.reshape(sequence_output, (-1, width)), rows, axis=0)


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLMTransform(Composite):
    """Gathers the masked positions, then applies dense layer, activation and LayerNorm (section 3.1, task 1).

    Only these few vectors are multiplied by the token table, the most expensive product of the model.

    Args:
        hidden_size: int, width of the encoder.
        activation: str, a `hidden_act` of `BertConfig`. Defaults to "gelu_new".
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.
        layer_norm_eps: float, epsilon of the LayerNorm. Defaults to 1e-12.
        output_size: int, width of the token table. Defaults to `None`, `hidden_size`.

    Call arguments:
        sequence_output: `(batch, length, hidden_size)`.
        mask_positions: `(batch, predictions)`, each less than `length`.
        training: bool, whether gradients will be computed.

    Returns:
        `(batch, predictions, output_size)`.

    Example:
        hidden = MaskedLMTransform(768)(sequence_output, mask_positions)
    """

    def __init__(
        self,
        hidden_size,
        activation="gelu_new",
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        output_size=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.activation = check_activation(activation)
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.output_size = output_size
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: hidden_size})
        self.dense = self.make_dense(output_size or hidden_size, "dense")
        self.norm = LayerNorm(epsilon=layer_norm_eps, name="norm", **self.part_options)

    def build(self, sequence_output_shape):
        self.dense.build((None, None, self.hidden_size))
        self.norm.build((None, None, self.output_size or self.hidden_size))

    def call(self, sequence_output, mask_positions, training=None):
        picked = take_positions(sequence_output, mask_positions)
        return self.norm(activate(self.dense(picked), self.activation, training))

    def compute_output_shape(self, sequence_output_shape, mask_positions_shape):
        return (*mask_positions_shape, self.output_size or self.hidden_size)


@keras.saving.register_keras_serializable(package="keras_bert")
class OutputBias(Unquantized, keras.layers.Layer):
    """Adds a bias to the logits over the vocabulary, in float32.

    Call arguments:
        logits: `(..., vocabulary)`.

    Returns:
        float32 logits of the same shape.

    Example:
        logits = OutputBias()(token_embedding(hidden, reverse=True))
    """

    def build(self, logits_shape):
        self.bias = self.add_weight(shape=(logits_shape[-1],), initializer="zeros", autocast=False, name="bias")

    def call(self, logits):
        return ops.cast(logits, "float32") + ops.cast(self.bias, "float32")

    def compute_output_spec(self, logits):
        return keras.KerasTensor(logits.shape, "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class Discriminator(Composite):
    """Scores each token as replaced, by a dense layer, an activation and another dense layer (ELECTRA, section 3.1).

    Args:
        hidden_size: int, width of the encoder.
        activation: str, a `hidden_act` of `BertConfig`. Defaults to "gelu".
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.

    Call arguments:
        sequence_output: `(batch, length, hidden_size)`.
        training: bool, whether gradients will be computed.

    Returns:
        float32 logits `(batch, length)`.

    Example:
        logits = Discriminator(256)(sequence_output)
    """

    def __init__(self, hidden_size, activation="gelu", initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.activation = check_activation(activation)
        self.initializer_range = initializer_range
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: hidden_size})
        self.dense = self.make_dense(hidden_size, "dense")
        self.output_dense = self.make_dense(1, "output_dense")

    def build(self, sequence_output_shape):
        for layer in (self.dense, self.output_dense):
            layer.build((None, None, self.hidden_size))

    def call(self, sequence_output, training=None):
        hidden = activate(self.dense(sequence_output), self.activation, training)
        return ops.cast(self.output_dense(hidden)[..., 0], "float32")

    def compute_output_spec(self, sequence_output, training=None):
        return keras.KerasTensor(sequence_output.shape[:-1], "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class FoldChoices(Unquantized, keras.layers.Layer):
    """Reshapes `(batch, choices, length)` to `(batch * choices, length)`.

    Example:
        rows = FoldChoices()(token_ids)
    """

    def call(self, inputs):
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))

    def compute_output_shape(self, inputs_shape):
        return (None, inputs_shape[2])


@keras.saving.register_keras_serializable(package="keras_bert")
class UnfoldChoices(Unquantized, keras.layers.Layer):
    """Reshapes the scores of the choices from `(batch * choices, 1)` to `(batch, choices)` and masks absent choices.

    A choice without real tokens is absent, for rows with different numbers of choices: its logit is -1e9, so that its
    probability is exactly 0. A row without any choice stays finite.

    Call arguments:
        scores: `(batch * choices, 1)`.
        padding_mask: the mask before folding, `(batch, choices, length)`, nonzero for real tokens.

    Returns:
        `(batch, choices)`.

    Example:
        logits = UnfoldChoices()(scores, padding_mask)
    """

    def call(self, scores, padding_mask):
        logits = ops.reshape(scores, ops.shape(padding_mask)[:2])
        # Differs from BERT: the original has equally many choices in all rows.
        present = ops.max(ops.cast(ops.not_equal(padding_mask, 0), "int32"), axis=2)
        return ops.where(present > 0, logits, FORBIDDEN)

    def compute_output_shape(self, scores_shape, padding_mask_shape):
        return tuple(padding_mask_shape[:2])


@keras.saving.register_keras_serializable(package="keras_bert")
class UnfoldPassages(Unquantized, keras.layers.Layer):
    """Reshapes the vectors of passages from `(batch * passages, width)` to `(batch, passages, width)`.

    Call arguments:
        vectors: `(batch * passages, width)`.
        padding_mask: the mask before folding, `(batch, passages, length)`.

    Returns:
        `(batch, passages, width)`.

    Example:
        vectors = UnfoldPassages()(vectors, padding_mask)
    """

    def call(self, vectors, padding_mask):
        batch, passages, _ = ops.shape(padding_mask)
        return ops.reshape(vectors, (batch, passages, vectors.shape[-1]))

    def compute_output_shape(self, vectors_shape, padding_mask_shape):
        return (*padding_mask_shape[:2], vectors_shape[-1])


@keras.saving.register_keras_serializable(package="keras_bert")
class MultiLabelDense(Dense):
    """A `Dense` layer for independent labels: its outputs are sigmoid logits, not softmax logits.

    Example:
        logits = MultiLabelDense(5)(pooled_output)
    """


@keras.saving.register_keras_serializable(package="keras_bert")
class SigmoidDense(Dense):
    """A `Dense` layer for a score between 0 and 1: its output is the logit, whose sigmoid is the score.

    Example:
        logit = SigmoidDense(1)(pooled_output)
    """
