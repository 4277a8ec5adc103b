"""Windows of documents in parts: outputs and gradients beside all at once, and beside a loop with the same masks."""

import keras
import numpy as np
import pytest
from scipy import special

import keras_bert
from keras_bert.layers import windows as layer
from keras_bert.rewirings.windowed import build_windowed

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

CONFIG = keras_bert.BertConfig(50, 16, 1, 2, 32, max_position_embeddings=16)
LENGTH = 10
LABELS = tf.constant([0, 2, 1, 1])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 3)


def batch(counts):
    """Returns four documents with these numbers of windows."""
    rng = np.random.default_rng(1)
    mask = np.zeros([4, max(counts), LENGTH], "int32")
    for row, count in enumerate(counts):
        mask[row, :count, : LENGTH - row] = 1
    ids = rng.integers(1, 50, mask.shape).astype("int32") * mask
    inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}
    return {name: tf.constant(values) for name, values in inputs.items()}


def dropout_states(model, number):
    """Pairs of the states of the model's generators and the seeds of a step."""
    states = []
    for variable in model.non_trainable_variables:
        if variable.path.endswith("seed_generator_state"):
            states.append((variable, tf.constant([number, len(states)], "uint32")))
    return states


def loss_of(logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, logits))


def gradients_of(tape, loss, weights):
    return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]


def values_of(model):
    return [weight.value for weight in model.trainable_weights]


def trained(model, inputs, *, training=False, jit_compile=False):
    """Returns the logits of a step in a graph that knows no sizes, and the gradients of all weights."""
    windowed = build_windowed(model)
    weights = values_of(model)

    def step(inputs):
        with tf.GradientTape() as tape:
            with keras.StatelessScope(state_mapping=dropout_states(model, 7)):
                logits = windowed(inputs, training=training)["logits"]
            loss = loss_of(logits)
        return logits, gradients_of(tape, loss, weights)

    spec = {}
    for name, values in inputs.items():
        spec[name] = tf.TensorSpec([None] * values.shape.rank, tf.int32, name)
    graph = tf.function(step, input_signature=[spec], autograph=False, jit_compile=jit_compile)
    return graph(inputs)


def in_loop(model, inputs, size):
    """Returns the same for documents of equally many windows by a plain loop over parts of `size` windows."""
    flat = {name: tf.reshape(values, [-1, LENGTH]) for name, values in inputs.items()}
    parts = []
    with tf.GradientTape() as tape:
        for first in range(0, len(flat["token_ids"]), size):
            part = {name: values[first : first + size] for name, values in flat.items()}
            # Each part draws from the states of the step, moved by its number.
            with keras.StatelessScope(state_mapping=dropout_states(model, 7 + len(parts))):
                parts.append(model(part, training=True)["logits"])
        of_windows = tf.reshape(tf.concat(parts, 0), [4, -1, 3])
        logits = tf.math.log(tf.reduce_mean(tf.exp(of_windows), 1))
        loss = loss_of(logits)
    return logits, gradients_of(tape, loss, values_of(model))


def assert_same(found, expected):
    """Compares logits and gradients."""
    logits, gradients = found
    expected_logits, expected_gradients = expected
    np.testing.assert_allclose(logits, expected_logits, atol=1e-6)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, other, atol=1e-6)


@pytest.fixture
def cut(monkeypatch):
    """Makes parts of so many tokens of all that is computed from then on."""

    def in_parts_of(tokens):
        monkeypatch.setattr(layer, "MOST_TOKENS", 1)
        monkeypatch.setattr(layer, "PART_TOKENS", tokens)

    return in_parts_of


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_parts_are_the_whole(model, cut, jit_compile):
    inputs = batch([1, 9, 2, 4])  # Of 36 windows, 16 are there.
    whole = trained(model, inputs)
    cut(3 * LENGTH)
    assert_same(trained(model, inputs, jit_compile=jit_compile), whole)


def test_parts_of_texts_with_choices(cut):
    """Windows `(batch, windows, choices, length)`, of which a choice is absent in one row."""
    keras.utils.set_random_seed(3)
    model = keras_bert.build_multiple_choice(keras_bert.build_encoder(CONFIG))
    inputs = {}
    for name, values in batch([1, 5, 2, 3]).items():
        inputs[name] = tf.stack([values, values[..., ::-1], values], axis=2)
    mask = inputs["padding_mask"].numpy()
    mask[1, :, 1] = 0
    inputs["padding_mask"] = tf.constant(mask)
    with tf.GradientTape() as tape:
        logits = build_windowed(model)(inputs, training=False)["logits"]
        loss = loss_of(logits)
    assert (logits[1, 1] == -1e9).numpy()
    cut(3 * 3 * LENGTH)
    assert_same(trained(model, inputs), (logits, gradients_of(tape, loss, values_of(model))))


def test_parts_have_the_same_dropout_in_the_backward_pass(model, cut):
    inputs = batch([4, 4, 4, 4])
    cut(4 * LENGTH)
    found = trained(model, inputs, training=True)
    assert_same(found, in_loop(model, inputs, 4))
    without, _ = trained(model, inputs)
    assert np.abs(found[0] - without).max() > 1e-4


def test_frozen_layers_have_no_gradients(model, monkeypatch):
    inputs = batch([3, 1, 2, 2])
    monkeypatch.setattr(model.get_layer("block_0"), "trainable", False)
    whole = trained(model, inputs)
    monkeypatch.setattr(layer, "MOST_TOKENS", 1)
    assert_same(trained(model, inputs), whole)


def test_updates_of_the_forward_pass_are_refused():
    inputs = {"padding_mask": keras.Input((None,), dtype="int32", name="padding_mask")}
    mask = keras.ops.cast(inputs["padding_mask"], "float32")
    pooled = keras.ops.mean(mask, axis=1, keepdims=True)
    logits = keras.layers.BatchNormalization()(keras.layers.Dense(2)(pooled))
    model = keras.Model(inputs, {"logits": logits})

    @tf.function
    def step(mask):
        return layer.Windows(model)({"padding_mask": mask}, training=True)

    with pytest.raises(ValueError, match="BatchNormalization"):
        step(tf.ones([2, 3, 4], "int32"))


@pytest.fixture
def policy():
    """Sets the precision of new layers."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.mark.slow
def test_sums_of_gradients_in_mixed_precision(policy, monkeypatch):
    """The values of variables stay float32: the gradients are as near to those in float32 as bfloat16 allows."""
    monkeypatch.setattr(layer, "MOST_TOKENS", 1000 * LENGTH)
    inputs = batch([60, 60, 60, 60])
    gradients = []
    for name in ("float32", "mixed_bfloat16"):
        policy(name)
        keras.utils.set_random_seed(3)
        model = keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 3)
        for weight in model.trainable_weights:
            if len(weight.shape) > 1:
                weight.assign(weight * 8)
        _, found = trained(model, inputs)
        gradients.append(found)
    in_float32, in_bfloat16 = gradients
    differences = [one - other for one, other in zip(in_bfloat16, in_float32, strict=True)]
    assert tf.linalg.global_norm(differences) < 0.01 * tf.linalg.global_norm(in_float32)


def mean_of_windows(logits):
    """The mean, and its gradients."""
    return logits.mean(0), np.full(logits.shape, 1 / len(logits))


def log_mean_exp(logits):
    return special.logsumexp(logits, 0) - np.log(len(logits)), special.softmax(logits, 0)


@pytest.mark.parametrize(
    ("join", "formula"), [(layer.MeanOfWindows, mean_of_windows), (layer.LogMeanExpOfWindows, log_mean_exp)]
)
def test_logits_of_any_size(join, formula):
    """Beside SciPy in float64; absent windows, also all of a document, do not reach outputs or gradients."""
    rng = np.random.default_rng(5)
    counts = [1, 3, 2, 0]
    mask = np.zeros([4, 3, 2], "int32")
    for row, count in enumerate(counts):
        mask[row, :count, 0] = 1
    logits = rng.normal(size=(4, 3, 5)).astype("float32") * 3
    logits[1] -= 300  # Whose exponentials are 0 in float32, while those of absent windows of zeros would overflow.
    logits[2] += 300
    is_there = mask.any(-1).reshape(12, 1)
    flat = tf.constant(logits.reshape(12, 5) * is_there)
    with tf.GradientTape() as tape:
        tape.watch(flat)
        found = join()(flat, mask)
    gradients = tape.gradient(found, flat).numpy().reshape(4, 3, 5)
    for row, count in enumerate(counts):
        assert not gradients[row, count:].any()
        if count == 0:
            assert not found[row].numpy().any()
            continue
        expected, slopes = formula(logits[row, :count].astype("float64"))
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)
        np.testing.assert_allclose(gradients[row, :count], slopes, atol=1e-6)
    assert (found[0].numpy() == logits[0, 0]).all()  # One window keeps its bits.


def test_a_saved_model_of_windows(model, tmp_path):
    inputs = batch([1, 3, 2, 1])
    windowed = build_windowed(model)
    windowed.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(inputs)["logits"], windowed(inputs)["logits"], atol=1e-6)
