"""Int8 weights and products for the graphs of SavedModels, on x86 processors.

Weights have a scale for each output channel, activations one for all rows that are computed together. TensorFlow's
Python API has no names for the two oneDNN ops used here, but every x86 build registers their kernels, also with
`TF_ENABLE_ONEDNN_OPTS=0`. They can only run in graphs.
"""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

# Weights have 7 bits, -64 to 64: processors without VNNI (Intel before 2019, AMD before 2022) add pairs of products in
# 16 bits, where larger weights would silently overflow.
_WEIGHT_STEPS = 64
_ACTIVATION_STEPS = 127
_SMALLEST = 1e-30  # The largest absolute value of no rows, or of zeros.
_FUSED = {"gelu": "GeluExact", "gelu_new": "GeluApproximate", "relu": "Relu"}


class Int8Weight:
    """A matrix in int8.

    Args:
        table: float32 matrix.
        axis: int, the axis of the output channels, each of which has its own scale.
    """

    def __init__(self, table, axis):
        table = np.asarray(table, "float32")
        if not np.isfinite(table).all():
            raise ValueError("the model has weights that are not finite: int8 cannot represent them")
        largest = np.abs(table).max(1 - axis, keepdims=True)
        scale = np.where(largest > 0, largest, 1) / _WEIGHT_STEPS
        values = tf.constant(np.rint(table / scale).astype("int8"))
        self.axis = axis
        self.values = tf.Variable(tf.bitcast(values, tf.qint8), trainable=False)
        self.scale = tf.Variable(scale.ravel(), trainable=False)

    @property
    def variables(self):
        return [self.values, self.scale]

    def rows(self, ids):
        """Returns the float32 rows of a table with a scale for each row."""
        values = tf.bitcast(tf.gather(tf.convert_to_tensor(self.values), ids), tf.int8)
        return tf.cast(values, tf.float32) * tf.gather(self.scale, ids)[..., None]


class Int8Product:
    """The product of float rows and an int8 matrix, plus a bias.

    Args:
        weight: an `Int8Weight` `(inputs, channels)`, or `(channels, inputs)` if its `axis` is 0.
        bias: float vector `(channels,)`, or `None`.
        limit: float, the largest absolute value of the rows that is represented. Defaults to `None`, that of the rows.
    """

    def __init__(self, weight, bias=None, limit=None):
        self.weight = weight
        self.bias = tf.zeros(weight.scale.shape) if bias is None else bias
        self.limit = limit

    def __call__(self, rows, activation=None, dtype=tf.float32):
        """Returns `(rows, channels)`; for `activation` see `is_fused`."""
        fused = [] if activation is None else [_FUSED[activation]]
        return self._run(*self._quantized(rows), ["BiasAdd", *fused, "Dequantize"], dtype)[0]

    def into(self, other, rows, activation):
        """Returns another product of this one's results; with its `limit` known, they never leave int8."""
        if other.limit is None:
            return other(self(rows, activation))
        limit = tf.constant(max(other.limit, _SMALLEST), tf.float32)
        fused = ["BiasAdd", _FUSED[activation], "Requantize"]
        values = self._run(*self._quantized(rows), fused, tf.qint8, [-limit, limit])[0]
        return other._run(values, limit, ["BiasAdd", "Dequantize"], tf.float32)[0]

    def _quantized(self, rows):
        """Returns rows in int8, and the value of 127."""
        rows = tf.cast(rows, tf.float32)
        if self.limit is None:
            # Two reductions are faster than the largest absolute value, which would be written first.
            largest = tf.maximum(tf.reduce_max(rows), -tf.reduce_min(rows))
            limit = tf.maximum(largest, _SMALLEST)
        else:
            limit = tf.constant(max(self.limit, _SMALLEST), tf.float32)
        # Without `narrow_range`, oneDNN would use -128 but scale as for -127.
        values = tf.raw_ops.QuantizeV2(
            input=rows,
            min_range=-limit,
            max_range=limit,
            T=tf.qint8,
            mode="SCALED",
            round_mode="HALF_TO_EVEN",
            narrow_range=True,
            ensure_minimum_range=0.0,
        )[0]
        return values, limit

    def _run(self, values, limit, fused, dtype, output_range=()):
        scale = tf.convert_to_tensor(self.weight.scale) * _ACTIVATION_STEPS
        tensors = [values, tf.convert_to_tensor(self.weight.values), tf.convert_to_tensor(self.bias)]
        ranges = [-limit, limit, -scale, scale, *output_range]
        results, result_ranges = [dtype], [tf.float32] * len(output_range)
        attributes = {
            "T1": tf.qint8,
            "T2": tf.qint8,
            "Tbias": tf.float32,
            "U": tf.float32,
            "Tout": dtype,
            "Tdevice_inputs": [tensor.dtype for tensor in tensors],
            "Thost_inputs": [tensor.dtype for tensor in ranges],
            "Tdevice_outputs": results,
            "Thost_outputs": result_ranges,
            "transpose_b": self.weight.axis == 0,
            "fused_ops": fused,
        }
        return _node("_QuantizedMatMul", tensors + ranges, results + result_ranges, attributes)


def is_fused(activation):
    """Returns whether an activation with a name from `BertConfig.hidden_act` is computed with the product."""
    return activation in _FUSED


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
        case [str(), *_]:
            return attr_value_pb2.AttrValue(list={"s": [item.encode() for item in value]})
        case _:
            return attr_value_pb2.AttrValue(list={"type": [item.as_datatype_enum for item in value]})
