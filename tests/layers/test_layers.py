"""Layers: values against NumPy, configs, errors."""

import inspect

import keras
import numpy as np
import pytest

from keras_bert import layers
from tests.conftest import to_numpy as numpy


def softmax(scores):
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def attention_oracle(query, memory, weights, heads, allowed):
    """Scaled dot-product attention, one head at a time, as in section 3.2 of the paper."""
    (wq, wk, wv, wo), (bq, bk, bv, bo) = weights
    q, k, v = (np.split(x, heads, -1) for x in (query @ wq + bq, memory @ wk + bk, memory @ wv + bv))
    scores = [q[head] @ k[head].swapaxes(-1, -2) / np.sqrt(q[head].shape[-1]) for head in range(heads)]
    probabilities = [softmax(np.where(allowed, score, -np.inf)) for score in scores]
    contexts = [probabilities[head] @ v[head] for head in range(heads)]
    return np.concatenate(contexts, -1) @ wo + bo, np.stack(probabilities, 1)


def randomize(layer, rng):
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape).astype("float32") * 0.3)


@pytest.mark.parametrize("cross", [False, True])
def test_attention_equals_numpy(cross):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 12)).astype("float32")
    memory = rng.normal(size=(2, 7, 12)).astype("float32") if cross else x
    layer = layers.MultiHeadAttention(12, 3, cross_attention=cross)
    layer.build((2, 5, 12))
    randomize(layer, rng)
    if cross:
        projections = [(layer.query, 1), (layer.key_value, 2), (layer.output_dense, 1)]
    else:
        projections = [(layer.query_key_value, 3), (layer.output_dense, 1)]
    kernels = [part for dense, count in projections for part in np.split(numpy(dense.kernel), count, 1)]
    biases = [part for dense, count in projections for part in np.split(numpy(dense.bias), count)]
    allowed = np.ones((2, 1, memory.shape[1]), bool)
    allowed[1, :, 4:] = False
    expected, probabilities = attention_oracle(x, memory, (kernels, biases), 3, allowed)
    options = {"attention_mask": allowed[:, None], "memory": memory if cross else None}
    output, scores = layer(x, **options)
    np.testing.assert_allclose(numpy(output), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(scores), probabilities, atol=1e-6)
    output, _ = layer(x, return_probabilities=False, **options)  # On JAX, by its own kernel.
    np.testing.assert_allclose(numpy(output), expected, atol=1e-5)


def test_masks():
    mask = layers.AttentionMask(causal=True)(np.array([[1, 2, 1, 0]]))
    assert numpy(mask)[0, 0].astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]]
    mask = layers.AttentionMask()(np.array([[1, 2, 0]]))
    assert mask.shape == (1, 1, 1, 3)
    assert numpy(mask).ravel().astype(int).tolist() == [1, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16", "float16"])
def test_a_fully_masked_row_stays_finite(dtype):
    layer = layers.MultiHeadAttention(8, 2, dtype=dtype)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    mask = np.array([[1, 1, 0], [0, 0, 0]], bool)[:, None, None]
    output, scores = layer(x, attention_mask=mask)
    assert np.isfinite(numpy(output)).all()
    np.testing.assert_allclose(numpy(scores)[1], 1 / 3, atol=1e-3)
    assert (numpy(scores)[0, ..., 2] == 0).all()


def test_choices_without_tokens_are_masked():
    scores = np.array([[0.5], [2.0], [1.0], [3.0], [4.0], [5.0]], "float32")
    mask = np.array([[[1, 1], [0, 0], [1, 0]], [[0, 0], [0, 0], [0, 0]]], "int32")
    logits = numpy(layers.UnfoldChoices()(scores, mask))
    assert logits.tolist() == [[0.5, -1e9, 1.0], [-1e9, -1e9, -1e9]]
    probabilities = numpy(keras.ops.softmax(logits))
    np.testing.assert_allclose(probabilities[0], [1 / (1 + np.exp(0.5)), 0, 1 / (1 + np.exp(-0.5))], rtol=1e-6)
    assert probabilities[0, 1] == 0
    np.testing.assert_allclose(probabilities[1], 1 / 3, rtol=1e-6)


def test_layer_norm_equals_numpy():
    x = np.random.default_rng(0).normal(3, 2, size=(2, 5, 16)).astype("float32")
    layer = layers.LayerNorm(epsilon=1e-3)
    layer.build(x.shape)
    randomize(layer, np.random.default_rng(1))
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    expected = expected * layer.gamma.numpy() + layer.beta.numpy()
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)


@pytest.mark.tensorflow
def test_layer_norm_gradient_equals_automatic_differentiation():
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, weight = (tf.constant(rng.normal(size=(2, 5, 16)), "float32") for _ in range(2))
    layer = layers.LayerNorm(epsilon=1e-12)
    layer.build(x.shape)
    randomize(layer, rng)
    gamma, beta = (tf.constant(value.numpy()) for value in (layer.gamma, layer.beta))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, gamma, beta])
        ours = tf.reduce_sum(layer(x) * weight)
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        plain = tf.reduce_sum(((x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta) * weight)
    sources = [x, layer.gamma.value, layer.beta.value]
    for got, expected in zip(tape.gradient(ours, sources), tape.gradient(plain, [x, gamma, beta]), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_layer_norm_keeps_its_weights_in_float32():
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    x = keras.ops.cast(np.random.default_rng(0).normal(size=(3, 64)), "bfloat16")
    layer.build(x.shape)
    layer.gamma.assign(np.full(64, 1.003, "float32"))  # bfloat16 would round this to 1
    layer.beta.assign(np.full(64, 100.0, "float32"))
    y32 = layers.LayerNorm()
    y32.build(x.shape)
    y32.set_weights(layer.get_weights())
    expected = numpy(keras.ops.cast(y32(keras.ops.cast(x, "float32")), "bfloat16"))
    np.testing.assert_array_equal(numpy(layer(x)), expected)


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dense_gradient_equals_numpy(dtype):
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, upstream = rng.normal(size=(2, 5, 8)).astype("float32"), rng.normal(size=(2, 5, 3)).astype("float32")
    layer = layers.Dense(3, dtype=dtype)
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, "float32") * upstream)
    kernel, bias = tape.gradient(loss, layer.trainable_variables)
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    np.testing.assert_allclose(numpy(y), x @ numpy(layer.kernel) + numpy(layer.bias), atol=tolerance * 3)
    np.testing.assert_allclose(numpy(kernel), x.reshape(-1, 8).T @ upstream.reshape(-1, 3), atol=tolerance * 8)
    np.testing.assert_allclose(numpy(bias), upstream.sum((0, 1)), atol=tolerance * 4)


def test_dense_without_bias():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    layer = layers.Dense(3, use_bias=False)
    np.testing.assert_allclose(numpy(layer(x)), x @ numpy(layer.kernel), atol=1e-5)
    assert len(layer.weights) == 1


@pytest.mark.tensorflow
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6)])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_float_tables_with_lora_match_the_layer(shape, policy):
    """Compared with the sum of table and update in NumPy; the float table is not rounded to bfloat16."""
    rng = np.random.default_rng(0)
    dense, table = layers.Dense(5, dtype=policy), layers.TokenEmbedding(7, 6, dtype=policy)
    dense.build(shape)
    table.build()
    for layer in (dense, table):
        layer.enable_lora(2, lora_alpha=3)
        randomize(layer, rng)
    kernel = numpy(dense._kernel) + 1.5 * numpy(dense.lora_kernel_a) @ numpy(dense.lora_kernel_b)
    rows = numpy(table._embeddings) + 1.5 * numpy(table.lora_embeddings_a) @ numpy(table.lora_embeddings_b)
    np.testing.assert_allclose(numpy(dense.float_table()), kernel, atol=1e-6)
    np.testing.assert_allclose(numpy(table.float_table()), rows, atol=1e-6)
    x = rng.normal(size=shape).astype("float32")
    tolerance = 1e-5 if policy == "float32" else 0.1
    np.testing.assert_allclose(numpy(dense(x)), x @ kernel + numpy(dense.bias), atol=tolerance)
    np.testing.assert_allclose(numpy(table(np.arange(7))), rows, atol=tolerance)
    np.testing.assert_allclose(numpy(table(x, reverse=True)), x @ rows.T, atol=tolerance)


@pytest.mark.parametrize("mode", ["int8", "int4", "int4 in groups"])
def test_float_tables_with_quantization_match_the_layer(mode):
    """The layer maps an identity matrix to its kernel, up to the quantization of the inputs."""
    dense, table = layers.Dense(6, use_bias=False), layers.TokenEmbedding(7, 8)
    dense.build((None, 8))
    table.build()
    randomize(dense, np.random.default_rng(0))
    before = [numpy(layer.float_table()) for layer in (dense, table)]
    for layer in (dense, table):
        groups = keras.quantizers.Int4QuantizationConfig(block_size=4)
        layer.quantize(**({"config": groups} if mode == "int4 in groups" else {"mode": mode}))
    if mode != "int4 in groups":  # Keras clips groups whose values all have the same sign.
        step = {"int8": 1 / 127, "int4": 1 / 7}[mode]
        for layer, value in zip((dense, table), before, strict=True):
            assert np.abs(numpy(layer.float_table()) - value).max() <= step * np.abs(value).max()
    for lora in (False, True):
        for layer in (dense, table) if lora else ():
            layer.enable_lora(2)
            layer.trainable_variables[-1].assign(np.full(layer.trainable_variables[-1].shape, 0.01, "float32"))
        np.testing.assert_allclose(numpy(dense.float_table()), numpy(dense(np.eye(8, dtype="float32"))), atol=1e-6)
        np.testing.assert_allclose(numpy(table.float_table()), numpy(table(np.arange(7))), atol=1e-6)


def test_an_id_outside_a_quantized_table_does_not_wrap():
    table = layers.TokenEmbedding(7, 8)
    table.build()
    table.quantize("int8")
    # An error on CPU, NaN in JAX, but never the last row.
    with pytest.raises(Exception, match=r"not in \[0, 7\)|out of range|not equal"):
        np.testing.assert_array_equal(numpy(table(np.array([-1]))), numpy(table(np.array([6]))), "not equal")


def test_sinusoid_positions_follow_the_paper():
    expected = [[f(pos / 10000 ** (2 * i / 6)) for i in range(3) for f in (np.sin, np.cos)] for pos in range(50)]
    bert = layers.BertEmbeddings(hidden_size=6, max_length=50, positions="sinusoid")
    np.testing.assert_allclose(numpy(bert.fixed_positions()), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(layers.ScaledEmbeddings(6, 50).table()), expected, atol=1e-5)


def test_masked_positions_are_gathered():
    layer = layers.MaskedLMTransform(4, activation="linear")
    layer.build((None, None, 4))
    layer.dense.kernel.assign(np.eye(4, dtype="float32"))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    picked = np.stack([x[0, [2, 0]], x[1, [1, 1]]])
    expected = (picked - picked.mean(-1, keepdims=True)) / picked.std(-1, keepdims=True)
    np.testing.assert_allclose(numpy(layer(x, np.array([[2, 0], [1, 1]], "int32"))), expected, atol=1e-5)


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
POOLED = {
    "cls": lambda tokens: tokens[0],
    "max": lambda tokens: tokens.max(0),
    "mean": lambda tokens: tokens.mean(0),
    "mean_sqrt_len_tokens": lambda tokens: tokens.sum(0) / len(tokens) ** 0.5,
    "weightedmean": lambda tokens: np.average(tokens, axis=0, weights=range(1, len(tokens) + 1)),
    "lasttoken": lambda tokens: tokens[-1],
}


def test_sentence_pooling():
    hidden = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    rows = [tokens[real == 1] for tokens, real in zip(hidden, mask, strict=True)]
    for normalize in (False, True):
        found = layers.SentencePooling(tuple(POOLED), normalize)(hidden, mask)
        expected = np.stack([np.concatenate([pool(tokens) for pool in POOLED.values()]) for tokens in rows])
        if normalize:
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found), expected, atol=1e-6)
    (zeros,) = keras.ops.convert_to_numpy(layers.SentencePooling("mean", True)(hidden[:1], mask[:1] * 0))
    np.testing.assert_array_equal(zeros, np.zeros(4))


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
