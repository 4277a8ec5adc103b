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
GPTQ = keras.quantizers.GPTQConfig([], None, weight_bits=4)


@pytest.mark.parametrize(("kind", "arguments", "inputs"), LAYERS)
def test_configs_and_declared_outputs(kind, arguments, inputs):
    """A config restores its layer. Keras asks layers for shapes and dtypes instead of tracing `call`."""
    layer = kind(*arguments, dtype="mixed_bfloat16")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is kind
    assert copy.get_config() == layer.get_config()
    if "__init__" in vars(kind):  # Otherwise Keras writes the config.
        assert inspect.signature(kind.__init__).parameters.keys() - {"self", "kwargs"} <= layer.get_config().keys()
    has_scores = "return_attention_scores" in inspect.signature(layer.call).parameters
    for options in ({}, {"return_attention_scores": True}) if has_scores else ({},):
        tensors = [keras.Input((None, *value.shape[2:]), dtype=value.dtype.name) for value in inputs]
        outputs = keras.tree.flatten(layer(*inputs, **options))
        declared = keras.tree.flatten(layer(*tensors, **options))
        for value, tensor in zip(outputs, declared, strict=True):
            assert keras.backend.standardize_dtype(value.dtype) == tensor.dtype
            assert all(size in (None, known) for size, known in zip(tensor.shape, value.shape, strict=True))


def test_bad_arguments():
    for make, message in (
        (lambda: layers.MultiHeadAttention(10, 3), "multiple of `num_heads`. Received: hidden_size=10, num_heads=3"),
        (lambda: layers.BertEmbeddings(8, 16, positions="rotary"), "`positions` must be one of learned, .*'rotary'"),
        (lambda: layers.SentencePooling("min"), "`pooling` must be one of cls, max, .*. Received: pooling='min'"),
        (lambda: layers.SentencePooling(("max", "max")), r"several different ones. Received: pooling=\('max', 'max'\)"),
        (lambda: layers.FeedForward(8, 16, "mish"), "`activation` must be one of gelu, gelu_new.* Received: .*'mish'"),
        (lambda: layers.TransformerBlock(8, 2, 16)(keras.Input((5, 4))), r"expected axis -1 .* to have value 8, but"),
        (lambda: layers.Dropout(-0.1), r"`rate` must be a number in \[0, 1\). Received: rate=-0.1"),
        (lambda: layers.Dropout(1.0), r"`rate` must be a number in \[0, 1\). Received: rate=1.0"),
        (lambda: layers.Dropout(0.1).quantize("gptq", config=GPTQ), "`mode` must be one of int8, int4 .*: mode='gptq'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
