"""Traces a Keras model with its dense layers and its token table in int8, without changing it."""

import contextlib
import functools

import numpy as np
import tensorflow as tf

from keras_bert.exporting.int8 import LOWEST, Int8Product, Int8Weight, is_fused, layer_norm
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.dense import Dense
from keras_bert.layers.embeddings import TokenEmbedding
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import attention_bias
from keras_bert.layers.transformer import FeedForward

# A head stays in float, unless it is about as large as a layer of the encoder: that over a vocabulary.
_LARGE_HEAD = 2**20
# SmoothQuant (Xiao et al., 2023): this power of the largest activation of a channel moves into the weights.
_AFTER_NORM, _AFTER_ACTIVATION = 0.6, 0.85
_SMALL = 1e-3, 1e-4  # Smaller activations and weights count as these.


@contextlib.contextmanager
def in_int8(model, limits=None, tables=True):
    """Makes functions that are traced in this context call the model with int8 weights.

    Products with weights are in int8, self-attention in bfloat16, residual connections and LayerNorm in float32.

    Args:
        model: a float32 model from one of the builders.
        limits: dict, the smallest and largest inputs of a dense layer by layer, from `observed`. Without, they are
            those of each batch, so that an answer depends a little on the others of its batch. Defaults to `None`.
        tables: bool, whether the token table is in int8. Defaults to `True`.

    Yields:
        The variables that the functions read.
    """
    _check(model)
    powers = _powers(model)
    dense = {layer: _product(layer, limits, powers.get(layer)) for layer in _dense_layers(model)}
    embeddings = _layers(model, TokenEmbedding) if tables else []
    weights = {layer: Int8Weight(layer.float_table(), axis=0) for layer in embeddings}
    calls = {layer: functools.partial(_dense, layer, product) for layer, product in dense.items()}
    calls |= {layer: functools.partial(_embed, weight) for layer, weight in weights.items()}
    calls |= {layer: functools.partial(_normalize, layer) for layer in _layers(model, LayerNorm)}
    for layer in _layers(model, FeedForward):
        if is_fused(layer.activation):
            products = dense[layer.intermediate_dense], dense[layer.output_dense]
            calls[layer] = functools.partial(_feed_forward, layer, *products)
    for layer in _layers(model, MultiHeadAttention):
        if not layer.cross_attention:
            products = dense[layer.query_key_value], dense[layer.output_dense]
            calls[layer] = functools.partial(_attend, layer, *products)
    replaced = {id(getattr(layer, f"_{layer.table_name}")) for layer in [*dense, *weights]}
    kept = [weight.value for weight in model.weights if id(weight) not in replaced]
    added = [*dense.values(), *weights.values()]
    with _calling(calls):
        yield kept + [variable for each in added for variable in each.variables]


@contextlib.contextmanager
def observed(model):
    """Yields a dict, to which eager calls of the model in this context add the `limits` of `in_int8`."""
    _check(model)
    limits = {}

    def call(layer, inputs, **options):
        rows = _rows(inputs).numpy()
        if len(rows):  # A text without [MASK] has none for the masked-LM head.
            low, high = limits.get(layer, (0.0, 0.0))
            limits[layer] = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        return type(layer).call(layer, inputs, **options)

    with _calling({layer: functools.partial(call, layer) for layer in _dense_layers(model)}):
        yield limits


def _check(model):
    for layer in _layers(model, object):
        if layer.compute_dtype != "float32" or layer.quantization_mode is not None:
            found = layer.quantization_mode or layer.compute_dtype
            raise ValueError(
                "the model to export in int8 must be in float32, such as from `keras_bert.load(path)`. "
                f"Received: a layer {layer.name!r} in {found}"
            )


def _layers(model, kind):
    return [layer for layer in model._flatten_layers(include_self=False) if isinstance(layer, kind)]


def _dense_layers(model):
    heads = [layer for layer in model.layers if isinstance(layer, Dense)]
    small = {id(layer) for layer in heads if layer.kernel.shape[0] * layer.kernel.shape[1] < _LARGE_HEAD}
    return [layer for layer in _layers(model, Dense) if id(layer) not in small]


@contextlib.contextmanager
def _calling(calls):
    """Replaces the `call` of layers, past Keras' tracking of attributes."""
    for layer, call in calls.items():
        vars(layer)["call"] = call
    try:
        yield
    finally:
        for layer in calls:
            del vars(layer)["call"]


def _powers(model):
    """Returns the power of SmoothQuant of the layers whose inputs have a few channels of large values."""
    attention = [layer.query_key_value for layer in _layers(model, MultiHeadAttention) if not layer.cross_attention]
    networks = _layers(model, FeedForward)
    after_norm = [*attention, *(layer.intermediate_dense for layer in networks)]
    after_activation = [layer.output_dense for layer in networks]
    return dict.fromkeys(after_norm, _AFTER_NORM) | dict.fromkeys(after_activation, _AFTER_ACTIVATION)


def _product(layer, limits, power):
    bias, table = layer.bias.value if layer.use_bias else None, np.asarray(layer.float_table())
    if limits is None or layer not in limits:
        return Int8Product(Int8Weight(table, axis=1), bias)
    low, high = limits[layer]
    if power is None:
        return Int8Product(Int8Weight(table, axis=1), bias, (float(low.min()), float(high.max())))
    activations = np.maximum(np.maximum(-low, high), _SMALL[0])
    factors = np.maximum(np.abs(table).max(1), _SMALL[1]) ** (1 - power) / activations**power
    limits = float((low * factors).min()), float((high * factors).max())
    weight = Int8Weight(table / factors[:, None], axis=1)
    return Int8Product(weight, bias, limits, tf.Variable(factors, trainable=False))


def _rows(inputs):
    return tf.reshape(inputs, [-1, inputs.shape[-1]])


def _dense(layer, product, inputs, training=None):
    rows = layer.activation(product(_rows(inputs)))
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [layer.units]], 0))


def _embed(weight, inputs, reverse=False):
    if not reverse:
        return weight.rows(inputs)
    logits = Int8Product(weight)(_rows(inputs))
    return tf.reshape(logits, tf.concat([tf.shape(inputs)[:-1], [weight.channels]], 0))


def _normalize(layer, inputs):
    rows = layer_norm(_rows(inputs), layer.gamma.value, layer.beta.value, layer.epsilon)
    return tf.reshape(rows, tf.shape(inputs))


def _feed_forward(layer, first, second, hidden, training=None):
    activations = first(_rows(hidden), layer.activation)
    return tf.reshape(second(activations, low=LOWEST[layer.activation]), tf.shape(hidden))


def _attend(layer, project, output, hidden, attention_mask=None, memory=None, seed=None, training=None):
    batch, length, width = tf.unstack(tf.shape(hidden))
    size = layer.hidden_size // layer.num_heads
    projected = tf.cast(project(_rows(hidden)), tf.bfloat16)  # On AVX2, oneDNN dies of a bfloat16 result.
    heads = tf.reshape(projected, [batch, length, 3, layer.num_heads, size])
    query, key, value = tf.unstack(tf.transpose(heads, (2, 0, 3, 1, 4)))  # Each (batch, heads, length, size).
    scores = tf.matmul(query, key, transpose_b=True) * tf.cast(size**-0.5, tf.bfloat16)
    if attention_mask is not None:
        scores += tf.cast(attention_bias(attention_mask), tf.bfloat16)
    probabilities = tf.nn.softmax(scores)
    context = tf.transpose(tf.matmul(probabilities, value), (0, 2, 1, 3))
    attended = output(tf.reshape(context, [-1, layer.hidden_size]))
    return tf.reshape(attended, [batch, length, width]), tf.cast(probabilities, tf.float32)
