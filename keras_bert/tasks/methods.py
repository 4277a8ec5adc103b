"""The names of the methods to train classifiers of few texts, and what they go together with; without TensorFlow."""

from keras_bert.checks import check_choice

FULL, PROBE, CONTRASTIVE, AUTO = METHODS = ("full", "probe", "contrastive", "auto")
# What only steps of the whole model have, and what only steps have.
_NOT_FULL = ("teacher", "intermediate", "patience", "pack", "lora_rank", "language_model_weight")
_UNTRAINED = ("learning_rate", "batch_size", "epochs", "freeze_layers", "layer_decay")


def check_method(method, given):
    """Raises for an unknown method, and for an argument that it does not go together with.

    Args:
        method: string, one of `METHODS`.
        given: the names of the arguments that are given.
    """
    check_choice("method", method, METHODS)
    if method == FULL:
        return
    for name in _NOT_FULL:
        if name in given:
            raise ValueError(f"`{name}`: only with method='full'. Received: method={method!r}")
    for name in _UNTRAINED if method == PROBE else ():
        if name in given:
            raise ValueError(f"`{name}`: the encoder is not trained with method='probe', and the head has no steps")
