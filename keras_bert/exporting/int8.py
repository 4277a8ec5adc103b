"""SavedModels in int8 on x86 processors: products, layers that are traced with them, ranges of their activations.

Weights have a scale for each output channel, activations a range for all rows that are computed together. TensorFlow's
Python API has no names for the two oneDNN ops used here, but every x86 build registers their kernels, also with
`TF_ENABLE_ONEDNN_OPTS=0`. They can only run in graphs.
"""

import contextlib
import functools
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from keras_bert.exporting import assets
from keras_bert.exporting.fused_layers import attend, calling, for_size, layers_of, normalize, rows_of, unflattened
from keras_bert.layers.activations import activate
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Dense
from keras_bert.layers.embeddings import TokenEmbedding
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.transformer import FeedForward

# Weights have 7 bits, -64 to 64: processors without VNNI (Intel before 2019, AMD before 2022) add pairs of products in
# 16 bits, where larger weights would silently overflow.
_WEIGHT_STEPS = 64
_SMALLEST = 1e-30  # The width of the range of no rows, or of zeros.
# The ops of activations that are computed with the product.
_FUSED = {"gelu": "GeluExact", "gelu_new": "GeluApproximate", "relu": "Relu"}
LOWEST = {"gelu": -0.17, "gelu_new": -0.1701, "relu": 0.0}  # Of the results of activations.
# A head stays in float, unless it is about as large as a layer of the encoder: that over a vocabulary.
_LARGE_HEAD = 2**20
_UNEVEN = 3.0  # From this ratio of the largest to the median input on, factors are worth a pass over the rows.
_FAR = 2.0  # From this ratio to the others on, an input is an outlier.
_SMALL = 1e-3, 1e-4  # Smaller activations and weights count as these.
_TOGETHER = 8  # Texts in a call of the model that finds ranges.


class Int8Weight:
    """A float32 matrix in int8; `axis` is that of the output channels, each of which has its own scale."""

    def __init__(self, table, axis: int):
        table = np.asarray(table, "float32")
        if not np.isfinite(table).all():
            raise ValueError("the model has weights that are not finite: int8 cannot represent them")
        largest = np.abs(table).max(1 - axis, keepdims=True)
        scale = np.where(largest > 0, largest, 1) / _WEIGHT_STEPS
        values = tf.constant(np.rint(table / scale).astype("int8"))
        self.axis, self.channels = axis, table.shape[axis]
        self.values = tf.Variable(tf.bitcast(values, tf.qint8), trainable=False)
        self.value_of_127 = tf.Variable(127 * scale.ravel(), trainable=False)
        self.sums = tf.Variable(tf.reduce_sum(tf.cast(values, tf.float32), 1 - axis) * scale.ravel(), trainable=False)

    @property
    def variables(self):
        return [self.values, self.value_of_127, self.sums]

    def rows(self, ids):
        """Returns the float32 rows of a table with a scale for each row."""
        values = tf.bitcast(tf.gather(tf.convert_to_tensor(self.values), ids), tf.int8)
        return tf.cast(values, tf.float32) * (tf.gather(self.value_of_127, ids)[..., None] / 127)


class Int8Product:
    """The product of float rows, multiplied by `factors`, and an int8 matrix, plus a bias.

    Rows are mapped to 0 to 255, with a value of its own for 0.0: after GELU, few are negative. `limits` are the
    smallest and the largest value that is represented, `None` for those of the rows.
    """

    def __init__(self, weight, bias=None, limits=None, factors=None, outliers=None):
        self.weight, self.limits, self.factors, self.outliers = weight, limits, factors, outliers
        self.bias = tf.zeros([weight.channels]) if bias is None else bias
        self.largest_factor = 1.0 if factors is None else float(np.max(factors))

    @property
    def variables(self):
        own = [] if self.factors is None else [self.factors]
        return self.weight.variables + own + ([] if self.outliers is None else [self.outliers.weight])

    def __call__(self, rows, activation=None, low=None):
        """Returns float32 `(rows, channels)`; `low` is a lower bound of the scaled rows, by default the smallest."""
        rows = tf.cast(rows, tf.float32)
        rows = rows if self.factors is None else rows * self.factors
        low, high = self._range(rows, low)
        product = self._multiply if self.limits else self._multiply_steps
        results = for_size(
            rows,
            lambda: product(_quantized_by_ops(rows, low, high), low, high, activation),
            lambda: self._multiply(_quantized_at_once(rows, low, high), low, high, activation),
        )
        return results if self.outliers is None else results + self.outliers.excess(rows, low, high)

    def _range(self, rows, low=None):
        """Returns the values of 0 and 255."""
        if self.limits is not None:
            return _range(*self.limits)
        high = tf.reduce_max(rows) if self.outliers is None else self.outliers.largest_other(rows)
        return _range(tf.reduce_min(rows) if low is None else low, high)

    def _multiply_steps(self, values, low, high, activation):
        """Multiplies 8-bit values with the range of 0 to 255: for each new range, oneDNN would set up the op again."""
        steps = self._run(values, tf.constant(0.0), tf.constant(255.0), tf.zeros([self.weight.channels]), ["BiasAdd"])
        results = steps * ((high - low) / 255) + (low * self.weight.sums + self.bias)
        return results if activation is None else activate(results, activation)

    def _multiply(self, values, low, high, activation):
        fused = [] if activation is None else [_FUSED[activation]]
        return self._run(values, low, high, self.bias, ["BiasAdd", *fused])

    def _run(self, values, low, high, bias, fused):
        largest = tf.convert_to_tensor(self.weight.value_of_127)
        tensors = [tf.convert_to_tensor(tensor) for tensor in (values, self.weight.values, bias)]
        ranges = [low, high, -largest, largest]
        attributes = {
            "T1": tf.quint8,
            "T2": tf.qint8,
            "Tbias": tf.float32,
            "U": tf.float32,
            "Tout": tf.float32,
            "Tdevice_inputs": [tensor.dtype for tensor in tensors],
            "Thost_inputs": [tensor.dtype for tensor in ranges],
            "Tdevice_outputs": [tf.float32],
            "transpose_b": self.weight.axis == 0,
            "fused_ops": [*fused, "Dequantize"],
            "input_quant_mode": "MIN_FIRST",
        }
        return _node("_QuantizedMatMul", tensors + ranges, [tf.float32], attributes)[0]


class Outliers:
    """Inputs whose values are far larger than those of the others: what exceeds the range is multiplied in float32.

    A few neurons of a feed-forward network do so for every text (LLM.int8, Dettmers et al., 2022). `inputs` are their
    numbers; `table` is the float32 matrix `(all inputs, channels)`.
    """

    def __init__(self, inputs, table):
        self.inputs = np.asarray(inputs, "int32")
        self.weight = tf.Variable(table[self.inputs], trainable=False)
        self._others = np.isin(np.arange(len(table)), self.inputs, invert=True)

    def largest_other(self, rows):
        """Returns the largest value of the other inputs, at least 0."""
        return tf.reduce_max(tf.where(self._others, tf.reduce_max(rows, 0), 0.0))

    def excess(self, rows, low, high):
        """Returns the product of what exceeds a range."""
        values = tf.gather(rows, self.inputs, axis=1)
        return tf.matmul(values - tf.clip_by_value(values, low, high), self.weight)


def _quantized_by_ops(rows, low, high):
    steps = tf.round((rows - low) * (255 / (high - low)))
    return tf.bitcast(tf.cast(tf.clip_by_value(steps, 0.0, 255.0), tf.uint8), tf.quint8)


def _quantized_at_once(rows, low, high):
    options = {"mode": "MIN_FIRST", "round_mode": "HALF_AWAY_FROM_ZERO", "ensure_minimum_range": 0.0}
    return tf.raw_ops.QuantizeV2(input=rows, min_range=low, max_range=high, T=tf.quint8, **options)[0]


def _range(low, high):
    """Returns the values of 0 and 255 for numbers between two: a multiple of the step, so that 0.0 is exact."""
    low, high = tf.minimum(low, 0.0), tf.maximum(high, 0.0)
    step = tf.maximum(high - low, _SMALLEST) / 254
    zero = tf.round(-low / step)
    return -zero * step, (255 - zero) * step


def layer_norm(rows, gamma, beta, epsilon):
    """Returns normalized float32 rows of rank 2, from one op in place of seven."""
    # TensorFlow's own fusion of these ops, of constant weights, ignores epsilon.
    attributes = {"T": tf.float32, "epsilon": epsilon}
    inputs = [tf.convert_to_tensor(value) for value in (rows, gamma, beta)]
    return _node("_MklLayerNorm", inputs, [tf.float32], attributes)[0]


def _node(op, inputs, dtypes, attributes):
    """Returns the outputs of a new node of the graph that is being traced."""
    attributes = {name: _attribute(value) for name, value in attributes.items()}
    name = op.strip("_").lower()  # Names must not start with an underscore.
    return tf.compat.v1.get_default_graph().create_op(op, inputs, dtypes, attrs=attributes, name=name).outputs


def _attribute(value):
    match value:
        case bool():
            return attr_value_pb2.AttrValue(b=value)
        case float():
            return attr_value_pb2.AttrValue(f=value)
        case tf.DType():
            return attr_value_pb2.AttrValue(type=value.as_datatype_enum)
        case str():
            return attr_value_pb2.AttrValue(s=value.encode())
        case [str(), *_]:
            return attr_value_pb2.AttrValue(list={"s": [item.encode() for item in value]})
        case _:
            return attr_value_pb2.AttrValue(list={"type": [item.as_datatype_enum for item in value]})


class Balance(NamedTuple):
    """How a product is made of inputs of different sizes."""

    power: float  # Of the largest value of an input, which moves into its weights: SmoothQuant (Xiao et al., 2023).
    outliers: int  # Number of inputs whose excess is multiplied in float32, see `Outliers`.


_AFTER_NORM, _AFTER_ACTIVATION = Balance(0.6, outliers=0), Balance(0.2, outliers=16)


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
        if layer.activation in _FUSED:
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
    after_activation = [layer.output_dense for layer in networks if layer.activation in _FUSED]
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
