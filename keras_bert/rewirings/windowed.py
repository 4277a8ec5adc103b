"""A model that reads documents in windows, for training: the mean of the outputs of the windows of each document."""

import keras

from keras_bert.heads.registry import describe
from keras_bert.layers import MeanOfWindows, Windows
from keras_bert.models.description import nested_encoder
from keras_bert.rewirings.trimmed import build_trimmed


def build_windowed(model: keras.Model) -> keras.Model:
    """Rewires a model for documents of several windows, with its own layers and weights; save `model`.

    Args:
        model: a model from a builder whose outputs are those of whole texts, such as `build_classifier`.

    Returns:
        A `keras.Model`. Inputs: those of `model`, `(batch, windows, length)`; a window whose `padding_mask` is 0
        everywhere is absent. Outputs: the means of those of the windows of each document, float32 `(batch, ...)`.

    Example:
        model = build_windowed(build_classifier(encoder, num_classes=2))
    """
    _check(model)
    return _over_windows(model)


def build_trimmed_windows(model: keras.Model) -> keras.Model:
    """Same as `build_trimmed`, for a model from `build_windowed`: each window is computed with less work."""
    return _over_windows(build_trimmed(nested_encoder(model)))


def _over_windows(model):
    # Layers
    windows = Windows(model, name="windows")
    mean = MeanOfWindows(dtype="float32", name="mean_of_windows")

    # Wiring
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in model.input}
    outputs = windows(inputs)
    means = {name: mean(output, inputs["padding_mask"]) for name, output in outputs.items()}

    # Model
    return keras.Model(inputs, means, name=f"windowed_{model.name}")


def _check(model):
    """Raises for a model whose outputs are not those of whole texts."""
    tokens = [name for name, output in model.output.items() if None in output.shape[1:]]
    if tokens:
        raise ValueError(
            "`model` must have outputs of whole texts, whose mean over windows has a meaning. Received: "
            f"{', '.join(tokens)} of a model with head={describe(model).head!r}"
        )
