"""The builders: outputs, masks, ablations, training, saving, memory of rematerialization."""

import dataclasses
import pathlib
import warnings

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import relative, to_numpy


@pytest.fixture(scope="module")
def encoder(config):
    """An encoder that tests must not modify."""
    return keras_bert.build_encoder(config)


def run(model, inputs):
    return keras.tree.map_structure(to_numpy, dict(model(inputs)))


def ones(*shape):
    return dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), np.ones(shape, "int32"))


def test_outputs_of_every_layer(build, batch):
    outputs = run(build("encoder", hidden_states=True, attention_scores=True), batch)
    assert [state.shape for state in outputs["hidden_states"]] == [(3, 12, 32)] * 2
    np.testing.assert_array_equal(outputs["hidden_states"][-1], outputs["sequence_output"])
    (scores,) = outputs["attention_scores"]
    assert scores.shape == (3, 4, 12, 12)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    assert (scores[1, :, :, 7:] == 0).all(), "padding is attended to"


def test_shortest_longest_and_empty_batches(encoder):
    model = keras_bert.build_classifier(encoder, 3)
    for shape in ((2, 1), (2, 40), (0, 7)):
        logits = run(model, ones(*shape))["logits"]
        assert logits.shape == (shape[0], 3)
        assert np.isfinite(logits).all()


def test_causal_sees_only_the_left(build, batch):
    model = build("encoder", causal=True)
    changed = batch | {"token_ids": batch["token_ids"].copy()}
    changed["token_ids"][0, 8] = 6 + changed["token_ids"][0, 8] % 40
    before = run(model, batch)["sequence_output"][0]
    after = run(model, changed)["sequence_output"][0]
    difference = np.abs(before - after).max(-1)
    assert difference[8:].min() > 1e-4
    assert difference[:8].max() == 0  # To the bit.


@pytest.mark.parametrize(("positions", "is_equal"), [("sinusoid", False), ("none", True)])
def test_only_without_positions_order_does_not_matter(build, batch, positions, is_equal):
    order = np.array([0, 3, 1, 2, *range(4, 12)])
    shuffled = {name: value[:, order] for name, value in batch.items()}
    model = build("encoder", positions=positions)
    found = run(model, shuffled)["sequence_output"][0]
    expected = run(model, batch)["sequence_output"][0][order]
    assert np.allclose(found, expected, atol=1e-5) == is_equal


def test_without_positions_there_is_no_maximum_length(build):
    model = build("encoder", positions="none")
    assert np.isfinite(run(model, ones(1, 41))["pooled_output"]).all()


def test_absent_choices_change_nothing(build, task):
    """Rows padded with masked choices keep the logits of their real choices."""
    inputs, _, _ = task("multiple_choice")
    model = build("multiple_choice", dtype="mixed_float16")
    logits = run(model, with_an_absent_choice(inputs))["logits"]
    np.testing.assert_allclose(logits[:, :2], run(model, inputs)["logits"], atol=1e-3)
    assert (logits[:, 2] == -1e9).all()


def test_a_row_without_choices_trains_in_float16(build, task):
    inputs, targets, losses = task("multiple_choice")
    inputs = with_an_absent_choice(inputs)
    inputs["padding_mask"][1] = 0
    model = build("multiple_choice", dtype="mixed_float16")
    # SGD: auto loss scaling would hide a NaN by skipping the step. Tracing takes longer than so short a run.
    is_eager = keras.backend.backend() == "tensorflow"
    model.compile(keras.optimizers.SGD(0.1), losses, run_eagerly=is_eager, auto_scale_loss=False)
    model.optimizer.build(model.trainable_variables)  # Creating variables in a graph causes a second trace.
    assert np.isfinite(model.fit(inputs, targets, verbose=0).history["loss"]).all()
    for weight in model.weights:
        assert np.isfinite(to_numpy(weight)).all(), weight.path


def with_an_absent_choice(inputs):
    padded = {name: np.concatenate([value, value[:, :1]], 1) for name, value in inputs.items()}
    padded["padding_mask"][:, 2] = 0
    return padded


@pytest.mark.parametrize("num_classes", [0, 2.0, None])
def test_numbers_of_classes_that_are_none(encoder, num_classes):
    with pytest.raises(ValueError, match="`num_classes` must be a positive integer"):
        keras_bert.build_classifier(encoder, num_classes)


def test_a_head_shares_the_encoder_and_takes_nothing_else(encoder):
    model = keras_bert.build_classifier(encoder, 2)
    table = encoder.get_layer("token_embedding").embeddings
    assert model.get_layer("token_embedding").embeddings is table
    with pytest.raises(ValueError, match="`encoder` must be a model from build_encoder. Received: a model with the"):
        keras_bert.build_classifier(model, 2)


def int8_weights(model):
    return {weight.path for weight in model.weights if weight.dtype == "int8"}


@pytest.fixture
def quantized(build):
    """A pretrainer in 8 bits, and the outputs of the same one in floats."""

    def quantize(inputs):
        model = build("pretraining")
        in_floats = run(model, inputs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model.quantize("int8")
        for warning in caught:
            is_keras_own = "InputLayer" in str(warning.message)  # Keras warns about its own layer.
            assert is_keras_own or not issubclass(warning.category, UserWarning), warning.message
        return model, in_floats

    return quantize


@pytest.mark.filterwarnings("ignore:The use of `x.T`")  # In Keras, on PyTorch.
def test_int8_is_close_and_kept_by_keras_files(quantized, task, tmp_path):
    inputs, _, _ = task("pretraining")
    model, in_floats = quantized(inputs)
    assert len(int8_weights(model)) >= 1 + 4 + 1  # The token table, four kernels in the block, one in the head.
    outputs = run(model, inputs)
    for name, expected in in_floats.items():
        assert 0 < relative(outputs[name], expected) < 0.1
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert int8_weights(copy) == int8_weights(model)
    keras.tree.map_structure(np.testing.assert_array_equal, run(copy, inputs), outputs)
    described = dataclasses.replace(keras_bert.describe(copy), layers={})
    assert described == dataclasses.replace(keras_bert.describe(model), layers={})


def test_an_unsupported_quantization_mode_changes_nothing(build):
    model = build("classification")
    with pytest.warns(UserWarning, match="InputLayer"), pytest.raises(ValueError, match="Received: mode='float8'"):
        model.quantize("float8")
    assert not any(layer.quantization_mode for layer in model._flatten_layers())


def test_two_encoders_in_one_model(config, batch):
    query = keras_bert.build_encoder(config, name="query")
    document = keras_bert.build_encoder(config, name="document")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in batch}
    products = query(inputs)["pooled_output"] * document(inputs)["pooled_output"]
    model = keras.Model(inputs, keras.ops.sum(products, -1))
    paths = {variable.path for variable in model.variables}
    assert len(paths) == len(model.variables)
    expected = (run(query, batch)["pooled_output"] * run(document, batch)["pooled_output"]).sum(-1)
    np.testing.assert_allclose(to_numpy(model(batch)), expected, rtol=1e-4, atol=1e-5)


TOO_LONG = r"longer than the position table. Expected at most 40 positions .*truncate it. Received: length="


@pytest.mark.parametrize("use", ["__call__", "predict"])
def test_too_long_a_sequence(build, use):
    model = build("regression")
    with pytest.raises(ValueError, match=f"{TOO_LONG}41"):
        getattr(model, use)(ones(1, 41))


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "value"),
    [("token_ids", 50), ("segment_ids", 2), ("mask_positions", 12)]
    + [("token_ids", -1), ("segment_ids", -1), ("mask_positions", -1)],
)
def test_ids_outside_their_table_raise(pretrainer, task, name, value):
    import tensorflow as tf

    inputs, _, _ = task("mlm")
    inputs[name] = inputs[name].copy()
    inputs[name][0, 2] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, "):
        pretrainer(inputs)


@pytest.fixture(scope="module")
def pretrainer(encoder):
    return keras_bert.build_pretrainer(encoder, next_sentence=False)


@pytest.mark.tensorflow
def test_a_sequence_that_is_too_long_in_a_graph_of_unknown_length(build):
    """Raises a TensorFlow error, since the length is only known at run time; the message is the same."""
    import tensorflow as tf

    encoder = build("encoder", positions="sinusoid")
    spec = {name: tf.TensorSpec([None, None], "int32") for name in encoder.input}
    graph = tf.function(encoder, input_signature=[spec], autograph=False)
    longest = ones(1, 40)
    expected = run(encoder, longest)["pooled_output"]
    np.testing.assert_allclose(graph(longest)["pooled_output"], expected, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{TOO_LONG}\] \[41\]"):
        graph(ones(1, 41))


def test_the_pooled_token_of_left_to_right_encoders(config, batch):
    """It is the last one, of each row its own; a row without any stays finite."""
    encoder = keras_bert.build_encoder(config, causal=True)
    pooled = run(encoder, batch)["pooled_output"]
    for row, length in enumerate(batch["padding_mask"].sum(1)):
        alone = {name: value[row : row + 1, :length] for name, value in batch.items()}
        np.testing.assert_allclose(run(encoder, alone)["pooled_output"][0], pooled[row], atol=1e-6)
    empty = batch | {"padding_mask": np.zeros_like(batch["padding_mask"])}
    assert np.isfinite(run(encoder, empty)["pooled_output"]).all()


MEMORY = r"""
import re
import tensorflow as tf, keras_bert

def peak():  # in kB; getrusage would report the parent's if that is larger
    return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read()).group(1))

@tf.function(autograph=False)
def step(rows):
    inputs = {name: tf.ones((rows, 512), "int32") for name in encoder.input}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"])
    return tape.gradient(loss, encoder.trainable_variables)

encoder = keras_bert.build_encoder(keras_bert.BertConfig(20, 16, 4, 4, 32), remat=True)
step(tf.constant(1))  # Trace first.
before = peak()
step(tf.constant(8))
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads the peak memory from Linux' /proc")
def test_remat_saves_memory():
    from tests.pipelines import programs

    output, _ = programs.run("keras_bert.version", before=MEMORY)
    # Otherwise, each block keeps the probabilities of attention before and after dropout.
    kept = 4 * 2 * (8 * 4 * 512 * 512 * 4) / 1024
    assert int(output) < kept
