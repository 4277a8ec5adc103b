"""A model that reads documents in windows, for training: the outputs of the windows of each document, joined."""

import keras

from keras_bert.heads.registry import deciding_output, describe
from keras_bert.layers import LogMeanExpOfWindows, MeanOfWindows, Windows
from keras_bert.models.description import nested_encoder
from keras_bert.rewirings.trimmed import build_trimmed


def build_windowed(model: keras.Model) -> keras.Model:
    """Rewires a model for documents of several windows, with its own layers and weights; save `model`.

    Args:
        model: a model from a builder whose outputs are those of whole texts, such as `build_classifier`.

    Returns:
        A `keras.Model`. Inputs: those of `model` for the windows of documents, `(batch, windows, ...)`; a window whose
        `padding_mask` is 0 everywhere is absent. Outputs: those of the windows of each document, joined, float32
        `(batch, ...)`: of the logits of classes, the logarithm of the mean of their exponentials, of others the mean.

    Example:
        model = build_windowed(build_classifier(encoder, num_classes=2))
    """
    description = describe(model)
    _check_outputs_of_texts(model, description)
    return _over_windows(model, deciding_output(description))


def build_trimmed_windows(model: keras.Model) -> keras.Model:
    """Same as `build_trimmed`, for a model from `build_windowed`: each window is computed with less work."""
    inner = nested_encoder(model)
    return _over_windows(build_trimmed(inner), deciding_output(describe(inner)))


def _over_windows(model, deciding):
    """Returns a model of windows; `deciding` is the name of the output whose windows are joined as evidence."""
    # Layers
    windows = Windows(model, name="windows")
    mean = MeanOfWindows(dtype="float32", name="mean_of_windows")
    evidence = LogMeanExpOfWindows(dtype="float32", name="log_mean_exp_of_windows")

    # Wiring
    inputs = {}
    for name, tensor in model.input.items():
        inputs[name] = keras.Input((None, *tensor.shape[1:]), dtype="int32", name=name)
    outputs = windows(inputs)
    joined = {}
    for name, output in outputs.items():
        join = evidence if name == deciding else mean
        joined[name] = join(output, inputs["padding_mask"])

    # Model
    return keras.Model(inputs, joined, name=f"windowed_{model.name}")


def _check_outputs_of_texts(model, description):
    """Raises for a model whose outputs are not those of whole texts."""
    token_axis = len(model.input["padding_mask"].shape) - 1  # Choices come before it.
    of_tokens = []
    for name, output in model.output.items():
        if None in output.shape[token_axis:]:
            of_tokens.append(name)
    if of_tokens:
        raise ValueError(
            "`model` must have outputs of whole texts, which windows of a document can have in common. Received: "
            f"{', '.join(of_tokens)} of a model with head={description.head!r}"
        )
