"""Attention masks, and layers for packed rows: several texts, none of which sees another (Krell et al., 2021)."""

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
        return self._restricted(mask, padding_mask)

    def _restricted(self, mask, tokens):
        """Returns the mask, in a causal layer without the right context of each token."""
        if not self.causal:
            return mask
        positions = ops.arange(ops.shape(tokens)[1])
        return ops.logical_and(mask, positions[:, None] >= positions[None, :])

    def compute_output_spec(self, padding_mask):
        batch, length = padding_mask.shape
        queries = length if self.causal else 1
        return keras.KerasTensor((batch, 1, queries, length), "bool")


def attention_bias(mask):
    """Returns the float32 tensor to add to the attention scores for a boolean mask."""
    return (1.0 - ops.cast(mask, "float32")) * FORBIDDEN


@keras.saving.register_keras_serializable(package="keras_bert")
class PackedMask(AttentionMask):
    """Returns the attention mask of packed rows: each token attends to the tokens of its own text.

    Args:
        causal: bool, whether each token attends only to itself and its left context. Defaults to `False`.

    Call arguments:
        text_numbers: integers `(batch, length)`, the number of each token's text in its row; 0 for padding.

    Returns:
        A boolean tensor `(batch, 1, query length, key length)`, true where attention is allowed.

    Example:
        mask = PackedMask()([[1, 1, 1, 2, 2, 0]])
    """

    def call(self, text_numbers):
        mask = ops.equal(ops.expand_dims(text_numbers, (1, 3)), ops.expand_dims(text_numbers, (1, 2)))
        return self._restricted(mask, text_numbers)

    def compute_output_spec(self, text_numbers):
        batch, length = text_numbers.shape
        return keras.KerasTensor((batch, 1, length, length), "bool")


@keras.saving.register_keras_serializable(package="keras_bert")
class FirstTokens(Unquantized, keras.layers.Layer):
    """Gathers the first token of each text of packed rows, its [CLS], as sequences of one token.

    Call arguments:
        sequence_output: `(batch, length, width)`.
        text_starts: integers `(batch, texts)`, the position of each text in its row; 0 for absent texts.

    Returns:
        `(batch * texts, 1, width)`.

    Example:
        pooled_output = Pooler(768)(FirstTokens()(sequence_output, text_starts))
    """

    def call(self, sequence_output, text_starts):
        return ops.reshape(take_positions(sequence_output, text_starts), (-1, 1, sequence_output.shape[-1]))

    def compute_output_shape(self, sequence_output_shape, text_starts_shape):
        return (None, 1, sequence_output_shape[-1])


def take_positions(sequences, positions):
    """Returns the vectors of `(batch, length, width)` sequences at `(batch, count)` positions."""
    batch, length, width = ops.shape(sequences)
    # In flattened rows, a position outside its sequence would read another sequence. It is moved past the end, which
    # raises an error on CPU.
    inside = ops.logical_and(positions >= 0, positions < length)
    rows = positions + ops.arange(batch, dtype=positions.dtype)[:, None] * length
    rows = ops.where(inside, rows, batch * length)
    return ops.take(ops.reshape(sequences, (-1, width)), rows, axis=0)
