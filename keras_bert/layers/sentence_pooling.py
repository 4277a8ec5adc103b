"""Layers of sentence encoders: pooling of the tokens, vectors of length 1."""

import keras
from keras import ops

from keras_bert.layers.quantization import Unquantized

# The order in which sentence-transformers concatenates them.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
_SMALLEST = 1e-12  # Of the length that a vector is divided by.


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
        return (self.pooling,) if isinstance(self.pooling, str) else self.pooling

    def call(self, sequence_output, padding_mask):
        hidden = ops.cast(sequence_output, "float32")
        real = ops.expand_dims(ops.cast(ops.not_equal(padding_mask, 0), "float32"), -1)
        pooled = ops.concatenate([_pool(mode, hidden, real) for mode in self.modes], axis=-1)
        return unit_length(pooled) if self.normalize else pooled

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
    modes = (pooling,) if isinstance(pooling, str) else tuple(pooling or ())
    if not modes or len(set(modes)) < len(modes) or not set(modes) <= set(POOLINGS):
        names = ", ".join(POOLINGS)
        raise ValueError(f"`pooling` must be one of {names}, or several different ones. Received: pooling={pooling!r}")
    return modes[0] if len(modes) == 1 else modes


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
    return ops.sum(hidden * weights, axis=1) / (ops.sqrt(total) if mode == "mean_sqrt_len_tokens" else total)
