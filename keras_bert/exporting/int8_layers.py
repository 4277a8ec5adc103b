"""Traces a Keras model with dense layers and token table in int8; finds the ranges of its activations with texts."""

import contextlib
import functools
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.exporting import assets
from keras_bert.exporting.fused_layers import attend, calling, layers_of, normalize, rows_of, unflattened
from keras_bert.exporting.int8 import LOWEST, Int8Product, Int8Weight, Outliers, is_fused, layer_norm
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Dense
from keras_bert.layers.embeddings import TokenEmbedding
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.transformer import FeedForward


class Balance(NamedTuple):
    """How a product is made of inputs of different sizes."""

    power: float  # Of the largest value of an input, which moves into its weights: SmoothQuant (Xiao et al., 2023).
    outliers: int  # Number of inputs whose excess is multiplied in float32, see `Outliers`.


# A head stays in float, unless it is about as large as a layer of the encoder: that over a vocabulary.
_LARGE_HEAD = 2**20
_AFTER_NORM, _AFTER_ACTIVATION = Balance(0.6, outliers=0), Balance(0.2, outliers=16)
_UNEVEN = 3.0  # From this ratio of the largest to the median input on, factors are worth a pass over the rows.
_FAR = 2.0  # From this ratio to the others on, an input is an outlier.
_SMALL = 1e-3, 1e-4  # Smaller activations and weights count as these.
_TOGETHER = 8  # Texts in a call of the model that finds ranges.


@contextlib.contextmanager
def in_int8(model, limits=None, dynamic: bool = False, tables: bool = True):
    """Makes functions that are traced in this context call the model in int8; yields the variables that they read.

    Products with weights are in int8, self-attention in bfloat16, residual connections and LayerNorm in float32.

    `limits` are the smallest and largest inputs of a dense layer by layer, from `observed`. Without, they are those of
    each batch, so that an answer depends a little on the others of its batch; with `dynamic` too: then `limits` only
    tell the inputs that are outliers. `tables` tells whether the token table is in int8.
    """
    _check(model)
    dense = _products(model, limits or {}, dynamic)
    embeddings = layers_of(model, TokenEmbedding) if tables else []
    weights = {layer: Int8Weight(layer.float_table(), axis=0) for layer in embeddings}
    calls = {layer: functools.partial(_dense, layer, product) for layer, product in dense.items()}
    calls |= {layer: functools.partial(_embed, weight) for layer, weight in weights.items()}
    calls |= {layer: functools.partial(normalize, layer, _as_one_op) for layer in layers_of(model, LayerNorm)}
    for layer in layers_of(model, FeedForward):
        if is_fused(layer.activation):
            products = dense[layer.intermediate_dense], dense[layer.output_dense]
            calls[layer] = functools.partial(_feed_forward, layer, *products)
    for layer in layers_of(model, MultiHeadAttention):
        if not layer.cross_attention:
            products = dense[layer.query_key_value], dense[layer.output_dense]
            calls[layer] = functools.partial(attend, layer, *products)
    replaced = {id(getattr(layer, f"_{layer.table_name}")) for layer in [*dense, *weights]}
    kept = [weight.value for weight in model.weights if id(weight) not in replaced]
    added = [*dense.values(), *weights.values()]
    with calling(calls):
        yield kept + [variable for each in added for variable in each.variables]


@contextlib.contextmanager
def observed(model):
    """Yields a dict, to which eager calls of the model in this context add the `limits` of `in_int8`."""
    _check(model)
    limits = {}

    def call(layer, inputs, **options):
        rows = rows_of(inputs).numpy()
        if len(rows):  # A text without [MASK] has none for the masked-LM head.
            low, high = limits.get(layer, (0.0, 0.0))
            limits[layer] = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        return type(layer).call(layer, inputs, **options)

    with calling({layer: functools.partial(call, layer) for layer in _dense_layers(model)}):
        yield limits


def _check(model):
    for layer in layers_of(model, object):
        if layer.compute_dtype != "float32" or layer.quantization_mode is not None:
            received = layer.quantization_mode or layer.compute_dtype
            raise ValueError(
                "the model to export in int8 must be in float32, such as from `keras_bert.load(path)`. "
                f"Received: a layer {layer.name!r} in {received}"
            )


def _dense_layers(model):
    heads = [layer for layer in model.layers if isinstance(layer, Dense)]
    small = {id(layer) for layer in heads if layer.kernel.shape[0] * layer.kernel.shape[1] < _LARGE_HEAD}
    return [layer for layer in layers_of(model, Dense) if id(layer) not in small]


def _products(model, limits, dynamic):
    """Returns the `Int8Product` of each dense layer."""
    attention = [layer for layer in layers_of(model, MultiHeadAttention) if not layer.cross_attention]
    networks = layers_of(model, FeedForward)
    after_norm = [*(layer.query_key_value for layer in attention), *(layer.intermediate_dense for layer in networks)]
    after_activation = [layer.output_dense for layer in networks if is_fused(layer.activation)]
    balances = dict.fromkeys(after_norm, _AFTER_NORM) | dict.fromkeys(after_activation, _AFTER_ACTIVATION)
    return {layer: _product(layer, limits.get(layer), balances.get(layer), dynamic) for layer in _dense_layers(model)}


def _product(layer, limits, balance, dynamic):
    bias, table = layer.bias.value if layer.use_bias else None, np.asarray(layer.float_table())
    if limits is None:  # Layers that read no rows have none.
        return Int8Product(Int8Weight(table, axis=1), bias)
    low, high = limits
    most = 0 if balance is None else min(balance.outliers, len(high) // 16)
    factors = None if balance is None else _factors(low, high, table, balance.power, most)
    if factors is not None:
        low, high, table = low * factors, high * factors, table / factors[:, None]
    outliers = _outliers(high, most)
    return Int8Product(
        Int8Weight(table, axis=1),
        bias,
        None if dynamic else (float(low.min()), float(np.delete(high, outliers).max())),
        None if factors is None else tf.Variable(factors, trainable=False),
        Outliers(outliers, table) if len(outliers) else None,
    )


def _factors(low, high, table, power, outliers):
    """Returns the factors of SmoothQuant, or `None` if the inputs but for `outliers` of them are of similar size."""
    sizes = np.maximum(np.maximum(-low, high), _SMALL[0])
    if np.sort(sizes)[-1 - outliers] < _UNEVEN * np.median(sizes):
        return None
    return np.maximum(np.abs(table).max(1), _SMALL[1]) ** (1 - power) / sizes**power


def _outliers(high, most):
    """Returns the numbers of the inputs that are far larger than the others."""
    order = np.argsort(high)[::-1]
    return [number for number in order[:most] if high[number] > _FAR * high[order[most]]]


def _dense(layer, product, inputs, training=None):
    return unflattened(layer.activation(product(rows_of(inputs))), inputs, layer.units)


def _embed(weight, inputs, reverse=False):
    if not reverse:
        return weight.rows(inputs)
    return unflattened(Int8Product(weight)(rows_of(inputs)), inputs, weight.channels)


def _as_one_op(layer, rows):
    return layer_norm(rows, layer.gamma.value, layer.beta.value, layer.epsilon)


def _feed_forward(layer, first, second, hidden, training=None):
    activations = first(rows_of(hidden), layer.activation)
    low = LOWEST[layer.activation] * second.largest_factor
    return tf.reshape(second(activations, low=low), tf.shape(hidden))


def calibrated(model, signature, texts):
    """Returns the `limits` of `in_int8`, the largest values that occur in answering texts by a signature on strings.

    `texts` are strings, or tuples with a value for each input of the signature; choices are a list.
    """
    specs = signature.input_signature
    rows = [row if isinstance(row, tuple) else (row,) for row in texts]
    if not rows:
        raise ValueError("`calibration` must be a list of texts. Received: no texts")
    for number, row in enumerate(rows):
        if len(row) != len(specs) or not all(map(_is_input, row, specs)):
            expected = " and ".join(spec.name for spec in specs)
            raise ValueError(
                f"`calibration` must be a list with {expected} of each text. Received: {row!r:.200} at index {number}"
            )
    parts = (zip(*rows[start : start + _TOGETHER], strict=True) for start in range(0, len(rows), _TOGETHER))
    return _limits(model, signature, (map(_tensor, columns, specs) for columns in parts))


def probed(model, signature):
    """Returns the `limits` of `in_int8` in the probe and `passages.txt`: they show what inputs are large in English."""
    probe = assets.probe_inputs("serving_default", signature).values()
    starts = range(0, len(_passages()[1]), _TOGETHER)
    return _limits(
        model, signature, [probe, *([_column(spec, start) for spec in signature.input_signature] for start in starts)]
    )


def _limits(model, signature, batches):
    """Returns the limits of the batches, lists of the inputs of the signature."""
    with observed(model) as limits:
        for inputs in batches:
            signature.python_function(*inputs)
    return limits


@functools.cache
def _passages():
    """Returns the sentences and the passages of `passages.txt`."""
    _, *parts = pathlib.Path(__file__).with_name("passages.txt").read_text(encoding="utf-8").split("\n\n")
    return [part.splitlines() for part in parts]


def _column(spec, start):
    """Returns an input of a signature for some passages: the passages, or sentences for what is short."""
    sentences, passages = _passages()
    passages = passages[start : start + _TOGETHER]
    each = [sentences[index % len(sentences)] for index in range(start, start + len(passages))]
    texts = {"choices": [sentences[:2]] * len(passages), "question": each, "pair": each}
    texts["text"] = [f"{passage} [MASK]." for passage in passages]
    return tf.constant(texts.get(spec.name, passages))


def _tensor(column, spec):
    return tf.constant(column) if spec.shape.rank == 1 else tf.ragged.constant(column, tf.string).to_tensor("")


def _is_input(value, spec):
    if spec.shape.rank == 1:
        return isinstance(value, str)
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
