"""Products in int8 on x86 processors, from two ops of oneDNN.

Weights have a scale for each output channel, activations a range for all rows that are computed together. TensorFlow's
Python API has no names for the two oneDNN ops used here, but every x86 build registers their kernels, also with
`TF_ENABLE_ONEDNN_OPTS=0`. They can only run in graphs.
"""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from keras_bert.exporting.fused_layers import for_size
from keras_bert.layers.activations import activate

# Weights have 7 bits, -64 to 64: processors without VNNI (Intel before 2019, AMD before 2022) add pairs of products in
# 16 bits, where larger weights would silently overflow.
_WEIGHT_STEPS = 64
_SMALLEST = 1e-30  # The width of the range of no rows, or of zeros.
# The ops of activations that are computed with the product.
FUSED = {"gelu": "GeluExact", "gelu_new": "GeluApproximate", "relu": "Relu"}


class Int8Weight:
    """A float32 matrix in int8; `axis` is that of the output channels, each of which has its own scale."""

    def __init__(self, table, axis: int):
        table = np.asarray(table, "float32")
        if not np.isfinite(table).all():
            raise ValueError("the model has weights that are not finite: int8 cannot represent them")
        largest = np.abs(table).max(1 - axis, keepdims=True)
        scale = np.where(largest > 0, largest, 1) / _WEIGHT_STEPS
        values = tf.constant(np.rint(table / scale).astype("int8"))
        sums = tf.reduce_sum(tf.cast(values, tf.float32), 1 - axis) * scale.ravel()
        self.axis = axis
        self.channels = table.shape[axis]
        self.values = tf.Variable(tf.bitcast(values, tf.qint8), trainable=False)
        self.value_of_127 = tf.Variable(127 * scale.ravel(), trainable=False)
        self.sums = tf.Variable(sums, trainable=False)

    @property
    def variables(self):
        """The variables that graphs read."""
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
        self.weight = weight
        self.limits = limits
        self.factors = factors
        self.outliers = outliers
        self.bias = tf.zeros([weight.channels]) if bias is None else bias
        self.largest_factor = 1.0 if factors is None else float(np.max(factors))

    @property
    def variables(self):
        """The variables that graphs read, without the bias, which is one of the model."""
        variables = list(self.weight.variables)
        if self.factors is not None:
            variables.append(self.factors)
        if self.outliers is not None:
            variables.append(self.outliers.weight)
        return variables

    def __call__(self, rows, activation=None, low=None):
        """Returns float32 `(rows, channels)`; `low` is a lower bound of the scaled rows, by default the smallest."""
        rows = tf.cast(rows, tf.float32)
        if self.factors is not None:
            rows = rows * self.factors
        low, high = self._range(rows, low)

        def multiply_few():
            quantized = _quantized_by_ops(rows, low, high)
            if self.limits:
                return self._multiply(quantized, low, high, activation)
            return self._multiply_steps(quantized, low, high, activation)

        def multiply_many():
            return self._multiply(_quantized_at_once(rows, low, high), low, high, activation)

        results = for_size(rows, multiply_few, multiply_many)
        if self.outliers is not None:
            results = results + self.outliers.excess(rows, low, high)
        return results

    def _range(self, rows, low=None):
        """Returns the values of 0 and 255."""
        if self.limits is not None:
            return _exact_range(*self.limits)
        if self.outliers is None:
            high = tf.reduce_max(rows)
        else:
            high = self.outliers.largest_other(rows)
        if low is None:
            low = tf.reduce_min(rows)
        return _exact_range(low, high)

    def _multiply_steps(self, values, low, high, activation):
        """Multiplies 8-bit values with the range of 0 to 255: for each new range, oneDNN would set up the op again."""
        no_bias = tf.zeros([self.weight.channels])
        steps = self._run(values, tf.constant(0.0), tf.constant(255.0), no_bias, ["BiasAdd"])
        results = steps * ((high - low) / 255) + (low * self.weight.sums + self.bias)
        return results if activation is None else activate(results, activation)

    def _multiply(self, values, low, high, activation):
        """Multiplies 8-bit values with the range of the rows, with bias and activation in the same op."""
        fused_ops = ["BiasAdd"]
        if activation is not None:
            fused_ops.append(FUSED[activation])
        return self._run(values, low, high, self.bias, fused_ops)

    def _run(self, values, low, high, bias, fused_ops):
        """Adds the op of oneDNN to the graph, and returns its float32 output."""
        largest = tf.convert_to_tensor(self.weight.value_of_127)
        tensors = [values, tf.convert_to_tensor(self.weight.values), tf.convert_to_tensor(bias)]
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
            "fused_ops": [*fused_ops, "Dequantize"],
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
    """Returns rows as 8-bit values, by several ops, which cost little to set up."""
    steps = tf.round((rows - low) * (255 / (high - low)))
    return tf.bitcast(tf.cast(tf.clip_by_value(steps, 0.0, 255.0), tf.uint8), tf.quint8)


def _quantized_at_once(rows, low, high):
    """Returns rows as 8-bit values, by one op."""
    quantized = tf.raw_ops.QuantizeV2(
        input=rows,
        min_range=low,
        max_range=high,
        T=tf.quint8,
        mode="MIN_FIRST",
        round_mode="HALF_AWAY_FROM_ZERO",
        ensure_minimum_range=0.0,
    )
    return quantized[0]


def _exact_range(low, high):
    """Returns the values of 0 and 255 for numbers between two: a multiple of the step, so that 0.0 is exact."""
    low = tf.minimum(low, 0.0)
    high = tf.maximum(high, 0.0)
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
    values = {name: _attribute(value) for name, value in attributes.items()}
    name = op.strip("_").lower()  # Names must not start with an underscore.
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(op, inputs, dtypes, attrs=values, name=name).outputs


def _attribute(value):
    """Returns an attribute of a node: of Python, a type, or a list of these."""
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
