"""What `model.quantize` does to the layers, and what the numbers mean that it leaves."""

from keras import ops, quantizers

MODES = ("int8", "int4")


def check_mode(mode):
    """Raises for a mode of Keras that our layers have no numbers for; a layer left out in silence would be worse."""
    if mode not in MODES:
        raise ValueError(
            f"`mode` must be one of {', '.join(MODES)} for a model with layers of keras_bert. Received: mode={mode!r}"
        )


class Unquantized:
    """Mixed into layers that stay as they are when their model is quantized: Keras would warn for each of them."""

    def quantize(self, mode=None, type_check=True, config=None):
        check_mode(mode)


def dequantized(layer, table, scale, zero, scaled_axis):
    """The float32 matrix that a layer's quantized table stands for.

    Args:
        layer: a `Dense` or a `TokenEmbedding`.
        table: its table of integers, two in a byte in mode "int4".
        scale: one for each index of `scaled_axis`, or a group of the other axis has one of its own.
        zero: the zero points of groups.
        scaled_axis: 1 for kernels, 0 for embeddings.
    """
    mode, scale = layer.quantization_mode, ops.cast(scale, "float32")
    if mode == "int4":
        table = quantizers.unpack_int4(table, layer._orig_output_dim, axis=-1)
    table = ops.cast(table, "float32")
    if len(scale.shape) == 1:
        return table / ops.expand_dims(scale, 1 - scaled_axis)
    groups = ops.cast(layer.g_idx, "int32")
    scale, zero = (ops.take(value, groups, axis=1 - scaled_axis) for value in (scale, ops.cast(zero, "float32")))
    return (table - zero) * scale


def adapted(layer, table, a, b):
    """A float32 table with the update of LoRA that `enable_lora` has added to a layer."""
    return table + (layer.lora_alpha / layer.lora_rank) * ops.matmul(ops.cast(a, "float32"), ops.cast(b, "float32"))
