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
    return {name: keras.tree.map_structure(to_numpy, value) for name, value in model(inputs).items()}


def ones(*shape):
    return {name: np.ones(shape, "int32") for name in ("token_ids", "segment_ids", "padding_mask")}


def fit(model, data, optimizer, epochs=1, **options):
    """Returns the losses of `model.fit`; eager on TensorFlow, where tracing takes longer than so short a run."""
    inputs, targets, losses = data
    if "jit_compile" not in options:
        options["run_eagerly"] = keras.backend.backend() == "tensorflow"
    model.compile(optimizer, losses, **options)
    model.optimizer.build(model.trainable_variables)  # Creating variables in a graph causes a second trace.
    return model.fit(inputs, targets, epochs=epochs, verbose=0).history["loss"]


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
    difference = np.abs(run(model, batch)["sequence_output"] - run(model, changed)["sequence_output"])[0].max(-1)
    assert difference[8:].min() > 1e-4
    assert difference[:8].max() == 0  # To the bit.


def test_only_without_positions_order_does_not_matter(build, batch):
    order = np.array([0, 3, 1, 2, *range(4, 12)])
    shuffled = {name: value[:, order] for name, value in batch.items()}
    for positions in ("sinusoid", "none"):
        model = build("encoder", positions=positions)
        got = run(model, shuffled)["sequence_output"]
        expected = run(model, batch)["sequence_output"]
        assert np.allclose(got[0], expected[0][order], atol=1e-5) == (positions == "none")
    assert np.isfinite(run(model, ones(1, 41))["pooled_output"]).all()  # There is no maximum length either.


def test_absent_choices_change_nothing(build, task):
    """Rows padded with masked choices keep the logits of their real choices; a row without any trains in float16."""
    inputs, targets, losses = task("multiple_choice")
    model = build("multiple_choice", dtype="mixed_float16")
    padded = {name: np.concatenate([value, value[:, :1]], 1) for name, value in inputs.items()}
    padded["padding_mask"][:, 2] = 0
    logits = run(model, padded)["logits"]
    np.testing.assert_allclose(logits[:, :2], run(model, inputs)["logits"], atol=1e-3)
    assert (logits[:, 2] == -1e9).all()
    padded["padding_mask"][1] = 0
    # SGD: auto loss scaling would hide a NaN by skipping the step.
    assert np.isfinite(fit(model, (padded, targets, losses), keras.optimizers.SGD(0.1), auto_scale_loss=False)).all()
    assert all(np.isfinite(to_numpy(weight)).all() for weight in model.weights)


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_remat_keeps_the_gradients_with_dropout(jit):
    hidden, targets = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype("float32")
    data = ([hidden, np.tri(5)[[4, 3, 1], None, None] > 0], targets, "mse")
    results = []
    for remat in (False, True):
        keras.utils.set_random_seed(5)
        block = keras_bert.layers.TransformerBlock(8, 2, 16, "gelu", 0.1, 0.1, 0.2, remat=remat)
        inputs = [keras.Input((5, 8)), keras.Input((1, 1, 5), dtype="bool")]
        model = keras.Model(inputs, block(inputs[0], attention_mask=inputs[1]))
        options = {"jit_compile": True} if jit else {}  # XLA draws other masks, also without remat.
        losses = fit(model, data, keras.optimizers.SGD(0.1), epochs=2, **options)
        results.append((losses, model.get_weights()))
    (expected_losses, expected), (losses, weights) = results
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for left, right in zip(weights, expected, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6 * max(1.0, np.abs(right).max()))
    # Dropout is active.
    first = to_numpy(model(data[0], training=True))
    second = to_numpy(model(data[0], training=True))
    assert np.abs(first - second).max() > 0.01


def test_bad_arguments_of_heads(encoder):
    for num_classes in (0, 2.0, None):
        with pytest.raises(ValueError, match="`num_classes` must be a positive integer"):
            keras_bert.build_classifier(encoder, num_classes)
    model = keras_bert.build_classifier(encoder, 2)
    assert model.get_layer("token_embedding").embeddings is encoder.get_layer("token_embedding").embeddings
    with pytest.raises(ValueError, match="`encoder` must be a model from build_encoder. Received: a model with the"):
        keras_bert.build_classifier(model, 2)


@pytest.mark.filterwarnings("ignore:The use of `x.T`")  # In Keras, on PyTorch.
def test_int8_is_close_and_kept_by_keras_files(build, task, tmp_path):
    inputs, _, _ = task("pretraining")
    model = build("pretraining")
    expected = run(model, inputs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model.quantize("int8")
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    assert [message for message in messages if "InputLayer" not in message] == []  # Keras warns about its own layer.
    quantized = {weight.path for weight in model.weights if weight.dtype == "int8"}
    assert len(quantized) >= 1 + 4 + 1  # The token table, four kernels in the block, one in the head.
    got = run(model, inputs)
    for name, value in expected.items():
        assert 0 < relative(got[name], value) < 0.1
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert {weight.path for weight in copy.weights if weight.dtype == "int8"} == quantized
    keras.tree.map_structure(np.testing.assert_array_equal, run(copy, inputs), got)
    described = dataclasses.replace(keras_bert.describe(copy), layers={})
    same = dataclasses.replace(keras_bert.describe(model), layers={})
    assert described == same


def test_an_unsupported_quantization_mode_changes_nothing(build):
    model = build("classification")
    with pytest.warns(UserWarning, match="InputLayer"), pytest.raises(ValueError, match="Received: mode='float8'"):
        model.quantize("float8")
    assert not any(layer.quantization_mode for layer in model._flatten_layers())


def test_two_encoders_in_one_model(config, batch):
    query = keras_bert.build_encoder(config, name="query")
    document = keras_bert.build_encoder(config, name="document")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in batch}
    vectors = [encoder(inputs)["pooled_output"] for encoder in (query, document)]
    model = keras.Model(inputs, keras.ops.sum(vectors[0] * vectors[1], -1))
    assert len({variable.path for variable in model.variables}) == len(model.variables)
    expected = (run(query, batch)["pooled_output"] * run(document, batch)["pooled_output"]).sum(-1)
    np.testing.assert_allclose(to_numpy(model(batch)), expected, rtol=1e-4, atol=1e-5)


TOO_LONG = r"longer than the position table. Expected at most 40 positions .*truncate it. Received: length="


def test_too_long_a_sequence(build):
    for use in ("__call__", "predict"):
        model = build("regression")  # On JAX, Keras leaves a model without values after an error.
        with pytest.raises(ValueError, match=f"{TOO_LONG}41"):
            getattr(model, use)(ones(1, 41))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "mask_positions"])
def test_ids_outside_their_table_raise(encoder, task, name):
    import tensorflow as tf

    model = keras_bert.build_pretrainer(encoder, next_sentence=False)
    (inputs, _, _) = task("mlm")
    for value in ({"token_ids": 50, "segment_ids": 2, "mask_positions": 12}[name], -1):
        wrong = inputs | {name: inputs[name].copy()}
        wrong[name][0, 2] = value
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, "):
            model(wrong)


@pytest.mark.tensorflow
def test_a_sequence_that_is_too_long_in_a_graph_of_unknown_length(build):
    """Raises a TensorFlow error, since the length is only known at run time; the message is the same."""
    import tensorflow as tf

    encoder = build("encoder", positions="sinusoid")
    spec = {name: tf.TensorSpec([None, None], "int32") for name in encoder.input}
    graph = tf.function(encoder, input_signature=[spec], autograph=False)
    longest = dict.fromkeys(spec, tf.ones((1, 40), "int32"))
    too_long = dict.fromkeys(spec, tf.ones((1, 41), "int32"))
    np.testing.assert_allclose(graph(longest)["pooled_output"], run(encoder, longest)["pooled_output"], atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{TOO_LONG}\] \[41\]"):
        graph(too_long)


def test_the_pooled_token_of_left_to_right_encoders(config, batch):
    encoder = keras_bert.build_encoder(config, causal=True)
    pooled = to_numpy(encoder(batch)["pooled_output"])
    padded = batch["padding_mask"].sum(1)
    for row, length in enumerate(padded):
        alone = encoder({name: value[row : row + 1, :length] for name, value in batch.items()})["pooled_output"]
        np.testing.assert_allclose(to_numpy(alone)[0], pooled[row], atol=1e-6)
    empty = encoder(batch | {"padding_mask": np.zeros_like(batch["padding_mask"])})["pooled_output"]
    assert np.isfinite(to_numpy(empty)).all()


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
