"""SavedModels in int8 on x86 processors: the layers that are traced with products in int8, and the ranges of these."""

import contextlib
import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.exporting.fused_layers import attend, calling, layers_of, normalize, rows_of, unflattened
from keras_bert.exporting.int8_products import FUSED, Int8Product, Int8Weight, Outliers, layer_norm
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Dense
from keras_bert.layers.embeddings import TokenEmbedding
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.transformer import FeedForward

LOWEST = {"gelu": -0.17, "gelu_new": -0.1701, "relu": 0.0}  # Of the results of activations.
# A head stays in float, unless it is about as large as a layer of the encoder: that over a vocabulary.
_LARGE_HEAD = 2**20
_UNEVEN = 3.0  # From this ratio of the largest to the median input on, factors are worth a pass over the rows.
_FAR = 2.0  # From this ratio to the others on, an input is an outlier.
_SMALL_ACTIVATION = 1e-3  # Smaller ones count as this.
_SMALL_WEIGHT = 1e-4


class Balance(NamedTuple):
    """How a product is made of inputs of different sizes."""

    power: float  # Of the largest value of an input, which moves into its weights: SmoothQuant (Xiao et al., 2023).
    outliers: int  # Number of inputs whose excess is multiplied in float32, see `Outliers`.


_AFTER_NORM = Balance(0.6, outliers=0)
_AFTER_ACTIVATION = Balance(0.2, outliers=16)


@contextlib.contextmanager
def in_int8(model, limits=None, dynamic: bool = False, tables: bool = True):
    """Makes functions that are traced in this context call the model in int8; yields the variables that they read.

    Products with weights are in int8, self-attention in bfloat16, residual connections and LayerNorm in float32.

    `limits` are the smallest and largest inputs of a dense layer by layer, from `observed`. Without, they are those of
    each batch, so that an answer depends a little on the others of its batch; with `dynamic` too: then `limits` only
    tell the inputs that are outliers. `tables` tells whether the token table is in int8.
    """
    _check_float32(model)
    products = _products(model, limits or {}, dynamic)
    tables_in_int8 = {}
    if tables:
        for layer in layers_of(model, TokenEmbedding):
            tables_in_int8[layer] = Int8Weight(layer.float_table(), axis=0)
    with calling(_calls(model, products, tables_in_int8)):
        yield _variables(model, products, tables_in_int8)


def _variables(model, products, tables_in_int8):
    """Returns the variables that graphs read: those of the model that are not replaced, and those in int8."""
    replaced = set()
    added = []
    for layer, in_int8 in [*products.items(), *tables_in_int8.items()]:
        replaced.add(id(getattr(layer, f"_{layer.table_name}")))
        added += in_int8.variables
    kept = [weight.value for weight in model.weights if id(weight) not in replaced]
    return kept + added


def _calls(model, products, tables_in_int8):
    """Returns the functions that compute layers in int8, by layer."""
    calls = {}
    for layer, product in products.items():
        calls[layer] = functools.partial(_dense, layer, product)
    for layer, table in tables_in_int8.items():
        calls[layer] = functools.partial(_embed, table)
    for layer in layers_of(model, LayerNorm):
        calls[layer] = functools.partial(normalize, layer, _as_one_op)
    for layer in layers_of(model, FeedForward):
        if layer.activation in FUSED:
            first = products[layer.intermediate_dense]
            second = products[layer.output_dense]
            calls[layer] = functools.partial(_feed_forward, layer, first, second)
    for layer in layers_of(model, MultiHeadAttention):
        if not layer.cross_attention:
            project = products[layer.query_key_value]
            output = products[layer.output_dense]
            calls[layer] = functools.partial(attend, layer, project, output)
    return calls


@contextlib.contextmanager
def observed(model):
    """Yields a dict, to which eager calls of the model in this context add the `limits` of `in_int8`."""
    _check_float32(model)
    limits = {}

    def call(layer, inputs, **options):
        rows = rows_of(inputs).numpy()
        if len(rows):  # A text without [MASK] has none for the masked-LM head.
            low, high = limits.get(layer, (0.0, 0.0))
            limits[layer] = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        return type(layer).call(layer, inputs, **options)

    with calling({layer: functools.partial(call, layer) for layer in _dense_layers(model)}):
        yield limits


def _check_float32(model):
    """Raises an error for a model with layers in another precision, or quantized ones."""
    for layer in layers_of(model, object):
        if layer.compute_dtype != "float32" or layer.quantization_mode is not None:
            received = layer.quantization_mode or layer.compute_dtype
            raise ValueError(
                "the model to export in int8 must be in float32, such as from `keras_bert.load(path)`. "
                f"Received: a layer {layer.name!r} in {received}"
            )


def _dense_layers(model):
    """Returns the dense layers to compute in int8: all but small heads."""
    small_heads = set()
    for layer in model.layers:
        if isinstance(layer, Dense):
            inputs, outputs = layer.kernel.shape
            if inputs * outputs < _LARGE_HEAD:
                small_heads.add(id(layer))
    return [layer for layer in layers_of(model, Dense) if id(layer) not in small_heads]


def _products(model, limits, dynamic):
    """Returns the `Int8Product` of each dense layer."""
    balances = {}
    for layer in layers_of(model, MultiHeadAttention):
        if not layer.cross_attention:
            balances[layer.query_key_value] = _AFTER_NORM
    for layer in layers_of(model, FeedForward):
        balances[layer.intermediate_dense] = _AFTER_NORM
        if layer.activation in FUSED:
            balances[layer.output_dense] = _AFTER_ACTIVATION
    products = {}
    for layer in _dense_layers(model):
        if layer in limits:
            products[layer] = _limited_product(layer, limits[layer], balances.get(layer), dynamic)
        else:  # Layers that read no rows have no limits.
            products[layer] = Int8Product(Int8Weight(layer.float_table(), axis=1), _bias(layer))
    return products


def _bias(layer):
    return layer.bias.value if layer.use_bias else None


def _limited_product(layer, limits, balance, dynamic):
    """Returns the `Int8Product` of a dense layer whose inputs have limits, balanced as `balance` says, if it does."""
    low, high = limits
    table = np.asarray(layer.float_table())
    most_outliers = 0
    factors = None
    if balance is not None:
        most_outliers = min(balance.outliers, len(high) // 16)
        factors = _factors(low, high, table, balance.power, most_outliers)
    if factors is not None:
        low = low * factors
        high = high * factors
        table = table / factors[:, None]
    outliers = _outliers(high, most_outliers)
    options = {}
    if not dynamic:
        options["limits"] = float(low.min()), float(np.delete(high, outliers).max())
    if factors is not None:
        options["factors"] = tf.Variable(factors, trainable=False)
    if outliers:
        options["outliers"] = Outliers(outliers, table)
    return Int8Product(Int8Weight(table, axis=1), _bias(layer), **options)


def _factors(low, high, table, power, outliers):
    """Returns the factors of SmoothQuant, or `None` if the inputs but for `outliers` of them are of similar size."""
    sizes = np.maximum(np.maximum(-low, high), _SMALL_ACTIVATION)
    if np.sort(sizes)[-1 - outliers] < _UNEVEN * np.median(sizes):
        return None
    return np.maximum(np.abs(table).max(1), _SMALL_WEIGHT) ** (1 - power) / sizes**power


def _outliers(high, most):
    """Returns the numbers of the inputs that are far larger than the others."""
    largest_first = np.argsort(high)[::-1]
    outliers = []
    for number in largest_first[:most]:
        if high[number] > _FAR * high[largest_first[most]]:
            outliers.append(number)
    return outliers


def _dense(layer, product, inputs, training=None):
    """Computes a dense layer in int8."""
    return unflattened(layer.activation(product(rows_of(inputs))), inputs, layer.units)


def _embed(weight, inputs, reverse=False):
    """Looks ids up in a table in int8, or multiplies by it."""
    if not reverse:
        return weight.rows(inputs)
    return unflattened(Int8Product(weight)(rows_of(inputs)), inputs, weight.channels)


def _as_one_op(layer, rows):
    return layer_norm(rows, layer.gamma.value, layer.beta.value, layer.epsilon)


def _feed_forward(layer, first, second, hidden, training=None):
    """Computes a feed-forward network by two products, the first with the activation."""
    activations = first(rows_of(hidden), layer.activation)
    low = LOWEST[layer.activation] * second.largest_factor
    return tf.reshape(second(activations, low=low), tf.shape(hidden))
