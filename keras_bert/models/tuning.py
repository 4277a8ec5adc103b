"""What of a model fine-tuning trains: its upper layers alone, or low-rank adapters (LoRA, Hu et al., 2021)."""

import keras

from keras_bert.checks import is_count
from keras_bert.layers import BertEmbeddings, DecoderBlock, TokenEmbedding, TransformerBlock
from keras_bert.layers.positions import PositionBias
from keras_bert.layers.quantization import Quantizable

_EMBEDDINGS = TokenEmbedding | BertEmbeddings | PositionBias


def freeze_layers(model: keras.Model, count: int) -> None:
    """Freezes the embeddings and the lowest `count` blocks of a model. Call before creating the optimizer.

    Args:
        model: a model with any head that contains one or more encoders from `build_encoder`.
        count: int, number of blocks, from 0 (only the embeddings) to all of them.

    Example:
        freeze_layers(model, 8)
    """
    layers = list(model._flatten_layers())
    depths = _depths_of_blocks(model, layers)
    blocks = max(depths.values(), default=0)
    if not blocks:
        raise ValueError(f"`model` must contain an encoder from build_encoder. Received: model={model.name!r}")
    check_frozen(count, blocks)
    for layer in layers:
        is_low_block = isinstance(layer, TransformerBlock) and depths[id(layer)] <= count
        if is_low_block or isinstance(layer, _EMBEDDINGS):
            layer.trainable = False


def check_frozen(count, blocks):
    """Raises an error unless a model with so many blocks can freeze `count` of them."""
    if not is_count(count, least=0) or count > blocks:
        raise ValueError(f"`freeze_layers`: expected from 0 to {blocks}, the number of blocks. Received: {count!r}")


def _depths_of_blocks(model, layers):
    """Returns the number of each block of a functional model from its inputs, and of what is below, by ids."""
    depths = {}
    for layer in layers:
        if not isinstance(layer, TransformerBlock):
            continue
        if not layer._inbound_nodes:
            raise ValueError(
                "`model` must contain its blocks in a functional model, such as one from build_encoder. "
                f"Received: model={model.name!r} with {layer.name!r} outside of one; set its `trainable` instead"
            )
        _note_depth(layer, depths)
    return depths


def _note_depth(operation, depths):
    """Returns the number of blocks from the inputs to an operation, including the operation itself; notes it."""
    if id(operation) not in depths:
        deepest = 0
        for tensor in operation._inbound_nodes[0].arguments.keras_tensors:
            deepest = max(deepest, _note_depth(tensor._keras_history.operation, depths))
        depths[id(operation)] = deepest + isinstance(operation, TransformerBlock)
    return depths[id(operation)]


def enable_lora(model: keras.Model, rank: int, *, alpha: float | None = None) -> None:
    """Freezes the encoder and adds trainable adapters to the query, key, value and output of its attention.

    A kernel `W` becomes `W + alpha / rank * A @ B`, with `A` random and `B` zero at first, so that the outputs do not
    change. Query, key and value are one kernel of this package and share `A`. Biases, LayerNorms, embeddings and
    feed-forward layers are frozen; the head and the pooler are trained whole. Call before creating the optimizer, whose
    learning rate should be about ten times that of full fine-tuning.

    `save` and `.keras` files contain the sum, a plain model; `save(..., format="peft")` writes the adapters alone. Call
    `merge_lora` before `export`, which otherwise computes the adapters too.

    Args:
        model: a model with any head that contains one or more encoders from `build_encoder`.
        rank: int, number of columns of `A` and rows of `B`.
        alpha: float, scale of the update. Defaults to `None`, twice the rank.

    Example:
        enable_lora(model, rank=8)
    """
    layers = list(model._flatten_layers())
    blocks = [layer for layer in layers if isinstance(layer, TransformerBlock)]
    _check_adaptable(model, blocks, rank, alpha)
    if alpha is None:
        alpha = 2 * rank
    for layer in layers:
        if isinstance(layer, _EMBEDDINGS):
            layer.trainable = False
    for block in blocks:
        _adapt(block, int(rank), alpha)


def _adapt(block, rank, alpha):
    """Freezes a block but for adapters of its attention."""
    _unfreeze(block)
    adapted = [block.attention.query_key_value, block.attention.output_dense]
    for part in block._flatten_layers(include_self=False):
        has_parts = bool(part._flatten_layers(include_self=False))
        if not has_parts and part not in adapted:
            part.trainable = False
    for layer in adapted:
        layer.enable_lora(rank, lora_alpha=alpha)
        layer.bias.trainable = False


def merge_lora(model: keras.Model) -> None:
    """Adds the updates of LoRA adapters to their kernels, removes the adapters and unfreezes the encoders.

    The outputs do not change. Create a new optimizer, or compile again, to go on training.

    Args:
        model: a model that `enable_lora` adapted.

    Example:
        merge_lora(model)
    """
    layers = list(model._flatten_layers())
    adapted = lora_layers(model)
    if not adapted:
        raise ValueError(f"`model` must have LoRA adapters, see enable_lora. Received: model={model.name!r}")
    _check_unquantized(layers)
    for layer in adapted:
        layer.merge_lora()
    for layer in layers:
        if isinstance(layer, _EMBEDDINGS | TransformerBlock):
            _unfreeze(layer)


def _unfreeze(layer):
    layer.trainable = False  # If it was true, TensorFlow would skip the assignment, and not change the parts.
    layer.trainable = True


def lora_layers(model):
    """Returns the layers of a model with a LoRA adapter."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, Quantizable) and layer.lora_enabled]


def _check_adaptable(model, blocks, rank, alpha):
    """Raises for anything but an encoder in floats without adapters, and for rank and alpha out of range."""
    if not blocks or any(isinstance(layer, DecoderBlock) for layer in model._flatten_layers()):
        raise ValueError(f"`model` must contain an encoder from build_encoder. Received: model={model.name!r}")
    if not is_count(rank):
        raise ValueError(f"`rank` must be an integer of at least 1. Received: rank={rank!r}")
    if alpha is not None and not alpha > 0:
        raise ValueError(f"`alpha` must be above 0. Received: alpha={alpha!r}")
    check_no_lora(model, "model")
    _check_unquantized(model._flatten_layers())


def check_no_lora(model, name):
    """Raises if a model, the argument `name`, has a LoRA adapter."""
    adapted = lora_layers(model)
    if adapted:
        raise ValueError(
            f"`{name}` must not have LoRA adapters; merge_lora merges them into its kernels. "
            f"Received: {name}={model.name!r} with an adapter of rank {adapted[0].lora_rank} on {adapted[0].path!r}"
        )


def _check_unquantized(layers):
    for layer in layers:
        if layer.quantization_mode is not None:
            raise ValueError(
                "`model` must not be quantized: load it in float32. "
                f"Received: the layer {layer.path!r} in {layer.quantization_mode}"
            )
