"""Attention masks."""

import keras
from keras import ops

from keras_bert.layers.quantization import Unquantized

# Added to the float32 score of a masked position: its probability becomes exactly zero, and a fully masked row stays
# finite (uniform).
FORBIDDEN = -1e9


@keras.saving.register_keras_serializable(package="keras_bert")
class AttentionMask(Unquantized, keras.layers.Layer):
    """Turns a padding mask into an attention mask.

    Args:
        causal: bool, whether each position attends only to itself and its left context. Defaults to `False`.

    Call arguments:
        padding_mask: `(batch, length)`, nonzero for real tokens.

    Returns:
        A boolean tensor that broadcasts to `(batch, heads, query length, key length)`, true where attention
        is allowed.

    Example:
        mask = AttentionMask(causal=True)(padding_mask)
    """

    def __init__(self, causal=False, **kwargs):
        super().__init__(**kwargs)
        self.causal = causal
        self.built = True

    def call(self, padding_mask):
        mask = ops.cast(ops.expand_dims(padding_mask, (1, 2)), "bool")  # Converters cannot slice a boolean.
        if self.causal:
            positions = ops.arange(ops.shape(padding_mask)[1])
            mask = ops.logical_and(mask, positions[:, None] >= positions[None, :])
        return mask

    def compute_output_spec(self, padding_mask):
        batch, length = padding_mask.shape
        return keras.KerasTensor((batch, 1, length if self.causal else 1, length), "bool")


def attention_bias(mask):
    """Returns the float32 tensor to add to the attention scores for a boolean mask."""
    return (1.0 - ops.cast(mask, "float32")) * FORBIDDEN
