"""What all layers promise: configs, declared shapes, errors."""

import inspect

import keras
import numpy as np
import pytest

from keras_bert import layers

HIDDEN = np.ones((2, 5, 8), "float32")
ROWS = np.ones((2, 5), "int32")
LAYERS = [  # Layers with arguments that are not the defaults, and the inputs of a call.
    (layers.AttentionMask, (), [ROWS]),
    (layers.AttentionMask, (True,), [ROWS]),
    (layers.BertEmbeddings, (8, 16, 3, "sinusoid", 0.1, 0.3, 1e-6), [HIDDEN, ROWS]),
    (layers.DecoderBlock, (8, 2, 16, "gelu", 0.1, 0.2, 0.3, 1e-6), [HIDDEN, HIDDEN[:, :4]]),
    (layers.Dense, (5, "tanh"), [HIDDEN]),
    (layers.Discriminator, (8, "relu", 0.3), [HIDDEN]),
    (layers.Dropout, (0.2, 4), [HIDDEN]),
    (layers.FeedForward, (8, 16, "relu", 0.3), [HIDDEN]),
    (layers.LayerNorm, (1e-6,), [HIDDEN]),
    (layers.MaskedLMTransform, (8, "relu", 0.3, 1e-6), [HIDDEN, ROWS[:, :3]]),
    (layers.MultiHeadAttention, (8, 2, 0.2, False, 0.3), [HIDDEN]),
    (layers.OutputBias, (), [HIDDEN]),
    (layers.Pooler, (8,), [HIDDEN]),
    (layers.Pooler, (8, 0.3, True), [HIDDEN, ROWS]),
    (layers.PositionIds, (1, 16), [ROWS]),
    (layers.ScaledEmbeddings, (8, 16, "learned", 0.1, 0.3), [HIDDEN]),
    (layers.SentencePooling, ("cls", True, 12), [HIDDEN, ROWS]),
    (layers.SentencePooling, (("max", "lasttoken"),), [HIDDEN, ROWS]),
    (layers.TokenEmbedding, (10, 8), [ROWS]),
    (layers.TransformerBlock, (8, 2, 16, "gelu", 0.1, 0.2, 0.3, 1e-6, True), [HIDDEN]),
    (layers.UnitLength, (), [HIDDEN[:, 0]]),
]


@pytest.mark.parametrize(("kind", "arguments", "inputs"), LAYERS)
def test_configs_and_declared_outputs(kind, arguments, inputs):
    """A config restores its layer. Keras asks layers for shapes and dtypes instead of tracing `call`."""
    layer = kind(*arguments, dtype="mixed_bfloat16")
    config = layer.get_config()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is kind
    assert copy.get_config() == config
    if "__init__" in vars(kind):  # Otherwise Keras writes the config.
        names = inspect.signature(kind.__init__).parameters.keys() - {"self", "kwargs"}
        assert names <= config.keys()
    check_declared_outputs(layer, inputs)
    if "return_attention_scores" in inspect.signature(layer.call).parameters:
        check_declared_outputs(layer, inputs, return_attention_scores=True)


def check_declared_outputs(layer, inputs, **options):
    symbols = [keras.Input((None, *value.shape[2:]), dtype=value.dtype.name) for value in inputs]
    outputs = keras.tree.flatten(layer(*inputs, **options))
    declared = keras.tree.flatten(layer(*symbols, **options))
    for value, symbol in zip(outputs, declared, strict=True):
        assert keras.backend.standardize_dtype(value.dtype) == symbol.dtype
        for size, expected in zip(value.shape, symbol.shape, strict=True):
            assert expected in (None, size)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (layers.MultiHeadAttention, (10, 3), "multiple of `num_heads`. Received: hidden_size=10, num_heads=3"),
        (layers.BertEmbeddings, (8, 16, 2, "rotary"), "`positions` must be one of learned, .*'rotary'"),
        (layers.SentencePooling, ("min",), "`pooling` must be one of cls, max, .*. Received: pooling='min'"),
        (layers.SentencePooling, (("max", "max"),), r"several different ones. Received: pooling=\('max', 'max'\)"),
        (layers.FeedForward, (8, 16, "mish"), "`activation` must be one of gelu, gelu_new.* Received: .*'mish'"),
        (layers.Dropout, (-0.1,), r"`rate` must be a number in \[0, 1\). Received: rate=-0.1"),
        (layers.Dropout, (1.0,), "rate=1.0"),
    ],
)
def test_bad_arguments(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


def test_bad_inputs():
    block = layers.TransformerBlock(8, 2, 16)
    with pytest.raises(ValueError, match="expected axis -1 .* to have value 8"):
        block(keras.Input((5, 4)))


def test_layers_that_are_not_quantized_know_the_modes():
    config = keras.quantizers.GPTQConfig([], None, weight_bits=4)
    with pytest.raises(ValueError, match="`mode` must be one of int8, int4 .*: mode='gptq'"):
        layers.Dropout(0.1).quantize("gptq", config=config)
