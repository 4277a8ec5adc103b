"""Freezes the lower layers of a model, so that fine-tuning only updates the upper ones."""

import keras

from keras_bert.checks import is_count
from keras_bert.layers import BertEmbeddings, TokenEmbedding, TransformerBlock


def freeze_layers(model: keras.Model, count: int) -> None:
    """Freezes the embeddings and the lowest `count` blocks of a model. Call before creating the optimizer.

    Args:
        model: a model with any head that contains one or more encoders from `build_encoder`.
        count: int, number of blocks, from 0 (only the embeddings) to all of them.

    Example:
        freeze_layers(model, 8)
    """
    layers = list(model._flatten_layers())
    depths = {}
    for layer in layers:
        if isinstance(layer, TransformerBlock):
            if not layer._inbound_nodes:
                raise ValueError(
                    "`model` must contain its blocks in a functional model, such as one from build_encoder. "
                    f"Received: model={model.name!r} with {layer.name!r} outside of one; set its `trainable` instead"
                )
            _depth(layer, depths)
    blocks = max(depths.values(), default=0)
    if not blocks:
        raise ValueError(f"`model` must contain an encoder from build_encoder. Received: model={model.name!r}")
    check_frozen(count, blocks)
    for layer in layers:
        if isinstance(layer, TokenEmbedding | BertEmbeddings) or (
            isinstance(layer, TransformerBlock) and depths[id(layer)] <= count
        ):
            layer.trainable = False


def check_frozen(count, blocks):
    """Raises an error unless a model with so many blocks can freeze `count` of them."""
    if not is_count(count, least=0) or count > blocks:
        raise ValueError(f"`freeze_layers`: expected from 0 to {blocks}, the number of blocks. Received: {count!r}")


def _depth(operation, depths):
    """Returns the number of blocks from the inputs to an operation, including the operation itself."""
    if id(operation) not in depths:
        below = [tensor._keras_history.operation for tensor in operation._inbound_nodes[0].arguments.keras_tensors]
        deepest = max((_depth(other, depths) for other in below), default=0)
        depths[id(operation)] = deepest + isinstance(operation, TransformerBlock)
    return depths[id(operation)]
