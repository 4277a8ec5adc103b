"""Fine-tuning of the upper layers alone."""

from keras_bert.models.description import describe


def freeze_layers(model, count):
    """Keeps the embeddings and the lowest `count` blocks of a model as they are; call it before the optimizer is made.

    Args:
        model: a model of one of the builders.
        count: how many blocks, from 0 (the embeddings alone) to all of them.

    Example:
        freeze_layers(model, 8)
    """
    layers = describe(model).layers
    blocks = sum(name.startswith("block_") for name in layers)
    if not 0 <= count <= blocks:
        raise ValueError(f"`count` must be from 0 to the {blocks} blocks of the model. Received: count={count}")
    for name in ("token_embedding", "embeddings", *(f"block_{index}" for index in range(count))):
        layers[name].trainable = False
