"""Graphs in fused forms equal the eager model, which is unchanged, and TensorFlow fuses them with oneDNN."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import relative, to_numpy

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]

from tensorflow.python.eager import context  # noqa: E402

from keras_bert.exporting.fused_layers import fused  # noqa: E402


def model_and_inputs(config, hidden_act, dtype):
    keras.utils.set_random_seed(4)
    config = dataclasses.replace(config, hidden_act=hidden_act, layer_norm_eps=1e-2, initializer_range=0.2)
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, attention_scores=True, dtype=dtype), 3)
    rng = np.random.default_rng(4)
    for weight in model.weights:  # LayerNorms that scale and shift.
        if "norm" in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    mask = (np.arange(12) < rng.integers(0, 13, (8, 1))).astype("int32")
    inputs = {"token_ids": rng.integers(5, 50, (8, 12)) * mask, "segment_ids": 0 * mask, "padding_mask": mask}
    return model, {name: tf.constant(value, tf.int32) for name, value in inputs.items()}


def traced(model, inputs):
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in inputs}
    return tf.function(lambda inputs: model(inputs, training=False), input_signature=[specs], autograph=False)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "hidden_act"),
    [("float32", 1e-5, "gelu_new"), ("bfloat16", 4e-2, "silu"), ("mixed_bfloat16", 4e-2, "gelu")],
)
def test_answers_are_those_of_the_model(config, hidden_act, dtype, tolerance):
    model, inputs = model_and_inputs(config, hidden_act, dtype)
    many = {name: tf.tile(value, (3, 1)) for name, value in inputs.items()}  # Few and many rows have other ops.
    expected = model(inputs)
    with fused(model) as variables:
        run = traced(model, inputs)
        run.get_concrete_function()
    for batch, wanted in ((inputs, expected), (many, model(many))):
        outputs = run(batch)
        for name, value in wanted.items():
            assert outputs[name].dtype == value.dtype
            assert relative(to_numpy(outputs[name]), to_numpy(value)) < tolerance, name
    np.testing.assert_array_equal(to_numpy(model(inputs)["logits"]), to_numpy(expected["logits"]))
    read = {id(variable.handle) for variable in run.get_concrete_function().variables}
    assert read <= {id(variable.handle) for variable in variables}


def ops_run(function, *inputs):
    """Returns the types of the ops that TensorFlow runs for a traced function, after its graph optimizer."""
    context.enable_graph_collection()
    try:
        function(*inputs)
        graphs = context.export_run_metadata().partition_graphs
    finally:
        context.disable_graph_collection()
    ops = []
    for graph in graphs:
        ops += [node.op for node in graph.node]
        for inner in graph.library.function:
            ops += [node.op for node in inner.node_def]
    return ops


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
def test_tensorflow_fuses_the_ops(config, hidden_act, dtype):
    """Where it multiplies in oneDNN: if that is on, and for bfloat16 on processors with AVX-512."""
    square = tf.ones((8, 8), dtype)
    if "MatMul" in ops_run(tf.function(tf.matmul), square, square):
        pytest.skip(f"TensorFlow multiplies {dtype} without oneDNN on this machine")
    model, inputs = model_and_inputs(config, hidden_act, dtype)
    with fused(model):
        run = traced(model, inputs)
        run.get_concrete_function()
    ops = ops_run(run, inputs)
    assert not {"Erf", "Erfc", "Pow", "Tanh", "FusedBatchNormV3"} & set(ops), sorted(set(ops))
    assert ops.count("_MklLayerNorm") >= 1 + 2 * config.num_hidden_layers
