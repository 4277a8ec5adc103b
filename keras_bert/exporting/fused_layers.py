"""Traces a Keras model in forms that TensorFlow's graph optimizer fuses.

A product, its bias and GELU become one op, and so does LayerNorm: fewer passes over memory. Graphs run on all devices.
"""

import contextlib
import functools

import tensorflow as tf

from keras_bert.layers.activations import activate
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Dense
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import attention_bias
from keras_bert.layers.transformer import FeedForward

_FEW = 256


@contextlib.contextmanager
def fused(model):
    """Makes functions that are traced in this context call the model in these forms; yields the variables they read."""
    calls = {}
    for layer in layers_of(model, Dense):
        if type(layer).call is Dense.call:  # Not a subclass that computes something else.
            calls[layer] = functools.partial(_dense, layer)
    for layer in layers_of(model, LayerNorm):
        calls[layer] = functools.partial(normalize, layer, _as_one_op)
    for layer in layers_of(model, FeedForward):
        calls[layer] = functools.partial(_feed_forward, layer)
    for layer in layers_of(model, MultiHeadAttention):
        if layer.compute_dtype == "bfloat16" and not layer.cross_attention:
            calls[layer] = functools.partial(attend, layer, layer.query_key_value, layer.output_dense)
    with calling(calls):
        yield [weight.value for weight in model.weights]


@contextlib.contextmanager
def calling(calls):
    """Replaces the `call` of layers in this context; `calls` are functions by layer."""
    # An attribute of the layer comes before the method of its class: Keras' `__call__` still casts the inputs and opens
    # the name scope of the layer, and then calls the function, which closes over the variables that the layer has.
    # Without this trick, a second model of other layers would have to be built around the same variables, for which
    # Keras has no way: `clone_model` copies them. Keras tracks layers and variables that are assigned, not functions,
    # so the model is the same afterwards.
    for layer, call in calls.items():
        layer.call = call
    try:
        yield
    finally:
        for layer in calls:
            del layer.call


class ReadByGraphs(tf.Module):
    """What the graphs of a SavedModel read: variables, and the tables of a tokenizer, if it has some."""

    def __init__(self, weights, tables=None):
        super().__init__()
        self.tables = tables
        self.weights = weights


def layers_of(model, layer_class):
    """Returns the layers of a class in a model, also nested ones."""
    all_layers = model._flatten_layers(include_self=False)
    return [layer for layer in all_layers if isinstance(layer, layer_class)]


def rows_of(inputs):
    """Returns a tensor of rank 2 with the last dimension of `inputs`."""
    return tf.reshape(inputs, [-1, inputs.shape[-1]])


def unflattened(rows, inputs, width):
    """Returns rows of a width in the shape of the inputs whose `rows_of` they are."""
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [width]], 0))


def for_size(rows, few, many):
    """Returns the result of one of two functions, `few` for less than 256 rows."""
    # Some ops of oneDNN are set up again in each call, which takes up to 0.2 ms: a third of the time of a short text.
    return tf.cond(tf.shape(rows)[0] < _FEW, few, many)


def attend(layer, project, output, hidden, attention_mask=None, score_bias=None, **training):
    """Computes self-attention in bfloat16; `project` and `output` are its products, functions of rows."""
    batch, length, width = tf.unstack(tf.shape(hidden))
    size = layer.hidden_size // layer.num_heads
    projected = tf.cast(project(rows_of(hidden)), tf.bfloat16)
    heads = tf.reshape(projected, [batch, length, 3, layer.num_heads, size])
    query, key, value = tf.unstack(tf.transpose(heads, (2, 0, 3, 1, 4)))  # Each (batch, heads, length, size).
    scores = tf.matmul(query, key, transpose_b=True) * tf.cast(size**-0.5, tf.bfloat16)
    if score_bias is not None:
        scores += tf.cast(score_bias, tf.bfloat16)
    if attention_mask is not None:
        scores += tf.cast(attention_bias(attention_mask), tf.bfloat16)
    probabilities = tf.nn.softmax(scores)
    context = tf.transpose(tf.matmul(probabilities, value), (0, 2, 1, 3))
    attended = output(tf.reshape(context, [-1, layer.hidden_size]))
    return tf.reshape(attended, [batch, length, width]), tf.cast(probabilities, layer.compute_dtype)


def _dense(layer, inputs, training=None):
    """Computes a dense layer on rows, with its bias in an op that is fused with the product."""
    rows = layer.multiply(rows_of(inputs))
    if layer.use_bias:
        rows = tf.nn.bias_add(rows, tf.convert_to_tensor(layer.bias))
    rows = layer.activation(rows)
    if inputs.shape.rank == 2:
        return rows
    return unflattened(rows, inputs, layer.units)


def _feed_forward(layer, hidden, training=None):
    """Computes a feed-forward network on rows."""
    rows = layer.intermediate_dense(rows_of(hidden))
    # The optimizer sorts inputs by name and only finds GELU if its ops come after the product, "intermediate".
    with tf.name_scope("nonlinearity"):
        rows = activate(rows, layer.activation)
    return tf.reshape(layer.output_dense(rows), tf.shape(hidden))


def normalize(layer, as_one_op, inputs):
    """Computes a LayerNorm, of many rows by a function of the layer and the rows."""
    rows = rows_of(inputs)
    normal = for_size(rows, lambda: LayerNorm.call(layer, rows), lambda: as_one_op(layer, rows))
    return tf.reshape(normal, tf.shape(inputs))


def _as_one_op(layer, rows):
    # Each row is a channel of a batch normalization: TensorFlow has no op for LayerNorm, but makes one of these.
    count = tf.shape(rows)[0]
    nothing = tf.constant([], tf.float32)
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(rows, [1, count, rows.shape[-1], 1]),
        scale=tf.ones([count]),
        offset=tf.zeros([count]),
        mean=nothing,
        variance=nothing,
        epsilon=layer.epsilon,
        data_format="NCHW",
    )
    gamma = tf.cast(layer.gamma.value, rows.dtype)
    beta = tf.cast(layer.beta.value, rows.dtype)
    return tf.reshape(normalized.y, tf.shape(rows)) * gamma + beta
