"""The names of the methods to train classifiers of few texts, and what they go together with; without TensorFlow."""

from keras_bert.checks import check_choice

FULL = "full"
PROBE = "probe"
CONTRASTIVE = "contrastive"
AUTO = "auto"
METHODS = (FULL, PROBE, CONTRASTIVE, AUTO)
# Arguments of steps of the whole model, and of steps at all.
_OF_FULL = ("teacher", "intermediate", "patience", "pack", "lora_rank", "language_model_weight")
_OF_STEPS = ("learning_rate", "batch_size", "epochs", "freeze_layers", "layer_decay")


def check_method(method, given):
    """Raises for an unknown method, and for an argument that it does not go together with.

    Args:
        method: string, one of `METHODS`.
        given: the names of the arguments that are given.
    """
    check_choice("method", method, METHODS)
    if method == FULL:
        return
    for name in _OF_FULL:
        if name in given:
            raise ValueError(f"`{name}`: only with method='full'. Received: method={method!r}")
    for name in _OF_STEPS:
        if method == PROBE and name in given:
            raise ValueError(f"`{name}`: the encoder is not trained with method='probe', and the head has no steps")
