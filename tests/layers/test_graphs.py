"""Features of TensorFlow's graphs: gradients of one's own, recomputation, rows in parts. All are as without them."""

import keras
import numpy as np
import pytest

from keras_bert.layers.graphs import compiled, custom_gradient, in_parts, remat

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@custom_gradient
def tripled(x):
    """A function whose gradient is told to be another one."""
    return 2 * x, lambda upstream: 3 * upstream


def gradient_of(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_gradient_of_ones_own(in_graph):
    def compute(x):
        return gradient_of(tripled, x)

    if in_graph:
        compute = tf.function(compute, autograph=False)
    assert compute(tf.constant(5.0)).numpy() == 3
    assert tripled(tf.constant(5.0)).numpy() == 10


def test_recomputation_reaches_inputs_and_variables():
    """Of `w * x ** 2`: the gradients are `2 * w * x` and `x ** 2`."""
    weight = tf.Variable(3.0)
    calls = []

    def function(x):
        calls.append(x)
        return weight * x**2

    @tf.function(autograph=False)
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = remat(function)(x)
        return tape.gradient(y, [x, weight])

    of_input, of_weight = gradients(tf.constant(5.0))
    assert of_input.numpy() == 30
    assert of_weight.numpy() == 25
    assert len(calls) == 2


@pytest.mark.parametrize("width", [3, 512], ids=["as it is", "in one pass"])
def test_compiled_functions_keep_values_and_shapes(width):
    @tf.function(input_signature=[tf.TensorSpec([None, width])], autograph=False)
    def run(x):
        y = compiled(lambda x: x * 2 + 1)(x)
        assert y.shape[-1] == width
        return y

    np.testing.assert_array_equal(run(tf.ones([2, width])), np.full([2, width], 3.0))


@pytest.mark.parametrize(("rows", "size", "computed"), [(16, 409, 16), (10, 4, 4), (9, 8, 5), (5, 0, 1)])
def test_parts_have_equally_many_rows(rows, size, computed):
    spec = {"rows": keras.KerasTensor((None,), "float32")}

    def count(part):
        x = part["x"]
        return {"rows": tf.fill(tf.shape(x), tf.cast(tf.size(x), "float32"))}

    @tf.function(input_signature=[tf.TensorSpec([None], "float32")])
    def sizes(values):
        options = {"most": None, "size": size, "variables": [], "generators": []}
        return in_parts(count, {"x": values}, spec, is_there=values > 0, **options)["rows"]

    assert sizes(tf.ones([rows])).numpy().tolist() == [computed] * rows
