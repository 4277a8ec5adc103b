"""What all layers promise: configs, declared shapes, errors."""

import inspect

import keras
import numpy as np
import pytest

from keras_bert import layers

LAYERS = [
    layers.AttentionMask(causal=True),
    layers.BertEmbeddings(8, 16, 3, "sinusoid", 0.1, 0.3, 1e-6),
    layers.Dense(5, activation="tanh"),
    layers.Dropout(0.2, seed=4),
    layers.BiLSTM(4, separate=True),
    layers.AttentionFlow(0.3),
    layers.Highway(8, 0.3),
    layers.FeedForward(8, 16, "relu", 0.3),
    layers.LayerNorm(1e-6),
    layers.MaskedLMTransform(8, "relu", 0.3, 1e-6),
    layers.MultiHeadAttention(8, 2, 0.2, True, 0.3),
    layers.OutputBias(dtype="mixed_bfloat16"),
    layers.Pooler(8, 0.3, True),
    layers.SentencePooling("cls", True, 12),
    layers.SentencePooling(("max", "lasttoken")),
    layers.UnitLength(),
    layers.TokenEmbedding(10, 8),
    layers.TransformerBlock(8, 2, 16, "gelu", 0.1, 0.2, 0.3, 1e-6, True),
]


GPTQ = keras.quantizers.GPTQConfig([], None, weight_bits=4)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_config_round_trip(layer):
    config = keras.saving.serialize_keras_object(layer)
    copy = keras.saving.deserialize_keras_object(config)
    assert type(copy) is type(layer)
    assert copy.get_config() == layer.get_config()
    if "__init__" in vars(type(layer)):  # Otherwise Keras writes the config.
        arguments = inspect.signature(type(layer).__init__).parameters.keys() - {"self", "kwargs"}
        assert arguments <= layer.get_config().keys()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_declared_shapes_and_dtypes_equal_the_outputs(dtype):
    """Keras asks the layers for them instead of tracing `call`."""
    hidden, rows = np.ones((2, 5, 8), "float32"), np.ones((2, 5), "int32")
    scores = {"return_attention_scores": True}
    for layer, inputs, options in (
        (layers.AttentionMask(causal=True), [rows], {}),
        (layers.AttentionMask(), [rows], {}),
        (layers.BertEmbeddings(8, 16, dtype=dtype), [hidden, rows], {}),
        (layers.Dropout(0.2, dtype=dtype), [hidden], {}),
        (layers.MaskedLMTransform(8, dtype=dtype), [hidden, rows[:, :3]], {}),
        (layers.OutputBias(dtype=dtype), [hidden], {}),
        (layers.Pooler(8, dtype=dtype), [hidden], {}),
        (layers.Pooler(8, last=True, dtype=dtype), [hidden, rows], {}),
        (layers.BiLSTM(4, separate=True, dtype=dtype), [hidden, rows], {}),
        (layers.BothDirections(dtype=dtype), [hidden], {}),
        (layers.NextAndPrevious(dtype=dtype), [hidden], {}),
        (layers.SplitPair(dtype=dtype), [rows, rows, rows], {}),
        (layers.PairAttention(dtype=dtype), [hidden, hidden, rows], {}),
        (layers.MaskedMax(dtype=dtype), [hidden, rows], {}),
        (layers.AttentionFlow(dtype=dtype), [hidden, hidden, rows, rows], {}),
        (layers.JoinLogits(dtype=dtype), [hidden[..., 0], rows, rows], {}),
        (layers.Highway(8, dtype=dtype), [hidden], {}),
        (layers.SentencePooling(dtype=dtype), [hidden, rows], {}),
        (layers.SentencePooling(("max", "lasttoken"), dtype=dtype), [hidden, rows], {}),
        (layers.UnitLength(dtype=dtype), [hidden[:, 0]], {}),
        (layers.TransformerBlock(8, 2, 16, dtype=dtype), [hidden], {}),
        (layers.TransformerBlock(8, 2, 16, dtype=dtype), [hidden], scores),
    ):
        tensors = [keras.Input((None, *value.shape[2:]), dtype=value.dtype.name) for value in inputs]
        found, declared = (keras.tree.flatten(layer(*values, **options)) for values in (inputs, tensors))
        for value, tensor in zip(found, declared, strict=True):
            assert keras.backend.standardize_dtype(value.dtype) == tensor.dtype, layer
            assert all(size in (None, known) for size, known in zip(tensor.shape, value.shape, strict=True)), layer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.MultiHeadAttention(10, 3), "multiple of `num_heads`. Received: hidden_size=10, num_heads=3"),
        (lambda: layers.BertEmbeddings(8, 16, positions="rotary"), "`positions` must be one of learned, .*'rotary'"),
        (lambda: layers.SentencePooling("min"), "`pooling` must be one of cls, max, .*. Received: pooling='min'"),
        (lambda: layers.SentencePooling(("max", "max")), r"several different ones. Received: pooling=\('max', 'max'\)"),
        (lambda: layers.FeedForward(8, 16, "mish"), "`activation` must be one of gelu, gelu_new.* Received: .*'mish'"),
        (lambda: layers.Dropout(-0.1), r"`rate` must be a number in \[0, 1\). Received: rate=-0.1"),
        (lambda: layers.TransformerBlock(8, 2, 16)(keras.Input((5, 4))), r"expected axis -1 .* to have value 8, but"),
        (lambda: layers.Dropout(1.0), r"`rate` must be a number in \[0, 1\). Received: rate=1.0"),
        (lambda: layers.Dropout(0.1).quantize("gptq", config=GPTQ), "`mode` must be one of int8, int4 .*: mode='gptq'"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
