"""Layers of the heads: poolers, transform and bias of the masked-LM head, choices and passages, sentence encoders."""

import keras
from keras import ops

from keras_bert.layers.activations import activate, check_activation
from keras_bert.layers.composite import Composite, Dense
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import FORBIDDEN, take_positions
from keras_bert.layers.quantization import Unquantized

# The order in which sentence-transformers concatenates them.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
_SMALLEST = 1e-12  # Of the length that a vector is divided by.


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
        if self.last:
            pooled = _last_token(sequence_output, padding_mask)
        else:
            pooled = sequence_output[:, 0]
        return self.dense(pooled)

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
    """Reshapes `(batch, choices, length)` to `(batch * choices, length)`, also with axes between the last two.

    Example:
        rows = FoldChoices()(token_ids)
    """

    def call(self, inputs):
        return ops.reshape(inputs, (-1, *ops.shape(inputs)[2:]))

    def compute_output_shape(self, inputs_shape):
        return (None, *inputs_shape[2:])


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
        padding_mask: the mask before folding, `(batch, passages, ..., length)`.

    Returns:
        `(batch, passages, width)`.

    Example:
        vectors = UnfoldPassages()(vectors, padding_mask)
    """

    def call(self, vectors, padding_mask):
        batch, passages = ops.shape(padding_mask)[:2]
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


@keras.saving.register_keras_serializable(package="keras_bert")
class SentencePooling(Unquantized, keras.layers.Layer):
    """Pools the token vectors of a sequence into one float32 vector (Reimers & Gurevych, 2019, section 3).

    Args:
        pooling: str, or a tuple of several whose vectors are concatenated: "mean" or "max" over all real tokens,
            including [CLS] and [SEP]; "cls", the [CLS] vector; "lasttoken", that of the last real token;
            "mean_sqrt_len_tokens", the sum divided by the square root of the number of tokens; "weightedmean", the mean
            with weights that grow by one from token to token. Defaults to "mean".
        normalize: bool, whether to scale vectors to length 1. Defaults to `False`.
        sequence_length: int, maximum sequence length in training, stored by `save`. Defaults to `None`.

    Call arguments:
        sequence_output: `(batch, length, width)`.
        padding_mask: `(batch, length)`, nonzero for real tokens.

    Returns:
        float32 `(batch, width)`; for several poolings, that many times the width.

    Example:
        embedding = SentencePooling("mean", normalize=True)(sequence_output, padding_mask)
    """

    def __init__(self, pooling="mean", normalize=False, sequence_length=None, **kwargs):
        super().__init__(**kwargs)
        self.pooling = checked_pooling(pooling)
        self.normalize = normalize
        self.sequence_length = sequence_length
        self.built = True

    @property
    def modes(self):
        """The poolings, a tuple also of one."""
        if isinstance(self.pooling, str):
            return (self.pooling,)
        return self.pooling

    def call(self, sequence_output, padding_mask):
        hidden = ops.cast(sequence_output, "float32")
        real = ops.expand_dims(ops.cast(ops.not_equal(padding_mask, 0), "float32"), -1)
        pooled = ops.concatenate([_pool(mode, hidden, real) for mode in self.modes], axis=-1)
        if self.normalize:
            pooled = unit_length(pooled)
        return pooled

    def compute_output_spec(self, sequence_output, padding_mask):
        batch, _, width = sequence_output.shape
        return keras.KerasTensor((batch, width * len(self.modes)), "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class UnitLength(Unquantized, keras.layers.Layer):
    """Scales float32 vectors to length 1; a zero vector stays zero.

    Call arguments:
        vectors: `(batch, width)`.

    Returns:
        float32 `(batch, width)`.

    Example:
        embedding = UnitLength()(vectors)
    """

    def call(self, vectors):
        return unit_length(ops.cast(vectors, "float32"))

    def compute_output_spec(self, vectors):
        return keras.KerasTensor(vectors.shape, "float32")


def unit_length(vectors):
    """Scales vectors to length 1."""
    return vectors / ops.maximum(ops.sqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True)), _SMALLEST)


def checked_pooling(pooling):
    """Returns a pooling, or a tuple of several different ones; raises for any other."""
    if isinstance(pooling, str):
        modes = (pooling,)
    else:
        modes = tuple(pooling or ())
    if not modes or len(set(modes)) < len(modes) or not set(modes) <= set(POOLINGS):
        names = ", ".join(POOLINGS)
        raise ValueError(f"`pooling` must be one of {names}, or several different ones. Received: pooling={pooling!r}")
    if len(modes) == 1:
        return modes[0]
    return modes


def _pool(mode, hidden, real):
    """Pools `(batch, length, width)`; `real` is 1.0 for real tokens, `(batch, length, 1)`."""
    if mode == "cls":
        return hidden[:, 0]
    if mode == "max":
        return ops.max(hidden - (1.0 - real) * 1e9, axis=1)
    weights = real
    if mode in ("weightedmean", "lasttoken"):
        weights = real * ops.cumsum(real, axis=1)  # 1 for the first token, 2 for the second.
    if mode == "lasttoken":
        last = ops.equal(weights, ops.max(weights, axis=1, keepdims=True))
        return ops.sum(hidden * real * ops.cast(last, "float32"), axis=1)
    total = ops.maximum(ops.sum(weights, axis=1), 1.0)
    if mode == "mean_sqrt_len_tokens":
        total = ops.sqrt(total)
    return ops.sum(hidden * weights, axis=1) / total
