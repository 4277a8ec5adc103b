"""An ONNX graph of single operators, computed by ONNX Runtime."""

import keras
import numpy as np
import pytest
from scipy.special import erf, expit

onnx = pytest.importorskip("onnx", reason="`make convert` installs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

from keras_bert.exporting.onnx_graph import Graph, array_of  # noqa: E402

pytestmark = pytest.mark.tensorflow
NUMBERS = np.array([-3.0, -0.5, 0.0, 0.5, 3.0], "float32")


def values_of(graph):
    """The constants of a graph by name."""
    return {constant.name: numpy_helper.to_array(constant) for constant in graph.constants}


def computed(graph, inputs, outputs):
    """Runs a graph on inputs, and returns its outputs, float32, by name."""
    value = helper.make_tensor_value_info
    float_type = onnx.TensorProto.FLOAT
    made_inputs = [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), None) for name, array in inputs.items()]
    made_outputs = [value(name, float_type, None) for name in outputs]
    proto = helper.make_graph(graph.nodes, "graph", made_inputs, made_outputs, graph.constants)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1, "int64", ()),
        (2.5, "float32", ()),
        (True, "bool", ()),
        (np.arange(4, dtype="int8"), "int64", (4,)),
        (np.ones((2, 3), "float64"), "float32", (2, 3)),
        (np.ones((2, 3), "float32").T, "float32", (3, 2)),
    ],
)
def test_types_of_constants(value, dtype, shape):
    graph = Graph()
    name = graph.constant(value)
    constant = values_of(graph)[name]
    assert (constant.dtype, constant.shape) == (dtype, shape)
    np.testing.assert_array_equal(constant, value)


def test_a_name_is_used_once():
    graph = Graph(names=["kernel"])
    assert [graph.constant(1, "kernel"), graph.constant(2, "kernel"), graph.constant(3, "bias")] == [
        "kernel_2",
        "kernel_3",
        "bias",
    ]


def test_numbers_and_arrays_are_inputs_of_nodes():
    graph = Graph()
    doubled = graph.add("Mul", "x", 2.0)
    graph.rename_outputs({"y": graph.add("Add", doubled, np.ones(5))})
    np.testing.assert_array_equal(computed(graph, {"x": NUMBERS}, ["y"])["y"], 2 * NUMBERS + 1)


def test_outputs_that_are_the_same_an_input_or_a_constant():
    graph = Graph()
    doubled = graph.add("Mul", "x", 2.0)
    graph.rename_outputs({"first": doubled, "second": doubled, "third": "x", "fourth": graph.constant(1.0)})
    outputs = computed(graph, {"x": NUMBERS}, ["first", "second", "third", "fourth"])
    np.testing.assert_array_equal(outputs["first"], 2 * NUMBERS)
    np.testing.assert_array_equal(outputs["second"], 2 * NUMBERS)
    np.testing.assert_array_equal(outputs["third"], NUMBERS)
    assert outputs["fourth"] == 1


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("gelu", lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
        ("gelu_new", lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ("silu", lambda x: x * expit(x)),
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("linear", lambda x: x),
    ],
)
def test_activations(activation, formula):
    graph = Graph()
    graph.rename_outputs({"y": graph.activate("x", activation)})
    np.testing.assert_allclose(computed(graph, {"x": NUMBERS}, ["y"])["y"], formula(NUMBERS), rtol=1e-5, atol=1e-7)


def test_an_unknown_activation():
    with pytest.raises(KeyError, match="swish2"):
        Graph().activate("x", "swish2")


def test_positions_of_ids():
    graph = Graph()
    graph.rename_outputs({"y": graph.cast(graph.positions("ids"), "float32")})
    ids = np.zeros((2, 3), "int64")
    np.testing.assert_array_equal(computed(graph, {"ids": ids}, ["y"])["y"], [0, 1, 2])


def test_variables_become_float32_or_stay_integers():
    narrow = keras.Variable([0.5, 1.5], dtype="bfloat16")
    assert array_of(narrow).dtype == "float32"
    whole = keras.Variable([1, 2], dtype="int8", trainable=False)
    np.testing.assert_array_equal(array_of(whole), np.array([1, 2], "int8"))
    assert array_of(whole).dtype == "int8"
