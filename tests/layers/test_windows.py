"""Windows of documents in parts: outputs and gradients beside all at once, and beside a loop with the same masks."""

import keras
import numpy as np
import pytest
from scipy import special

import keras_bert
from keras_bert.layers import windows as layer
from keras_bert.layers.graphs import in_parts
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


def generators(model):
    return [value for value in model.non_trainable_variables if value.path.endswith("seed_generator_state")]


def loss_of(logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, logits))


def trained(model, inputs, *, training=False, jit_compile=False):
    """Returns the logits of a step in a graph that knows no sizes, and the gradients of all weights."""
    windowed = build_windowed(model)
    weights = [weight.value for weight in model.trainable_weights]

    def step(inputs):
        states = [(state, tf.constant([7, number], "uint32")) for number, state in enumerate(generators(model))]
        with tf.GradientTape() as tape:
            with keras.StatelessScope(state_mapping=states):
                logits = windowed(inputs, training=training)["logits"]
            loss = loss_of(logits)
        return logits, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]

    signature = [{name: tf.TensorSpec([None, None, None], tf.int32, name) for name in inputs}]
    return tf.function(step, input_signature=signature, autograph=False, jit_compile=jit_compile)(inputs)


def in_loop(model, inputs, size):
    """Returns the same for documents of equally many windows by a plain loop over parts of `size` windows."""
    weights = [weight.value for weight in model.trainable_weights]
    flat = {name: tf.reshape(values, [-1, LENGTH]) for name, values in inputs.items()}
    parts = []
    with tf.GradientTape() as tape:
        for part, first in enumerate(range(0, len(flat["token_ids"]), size)):
            # Each part draws from the states of the step, moved by its number.
            states = [
                (state, tf.constant([7 + part, number], "uint32")) for number, state in enumerate(generators(model))
            ]
            with keras.StatelessScope(state_mapping=states):
                some = {name: values[first : first + size] for name, values in flat.items()}
                parts.append(model(some, training=True)["logits"])
        logits = tf.math.log(tf.reduce_mean(tf.exp(tf.reshape(tf.concat(parts, 0), [4, -1, 3])), 1))
        loss = loss_of(logits)
    return logits, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]


def assert_same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_parts_are_the_whole(model, monkeypatch, jit_compile):
    inputs = batch([1, 9, 2, 4])  # Of 36 windows, 16 are there.
    whole = trained(model, inputs)
    monkeypatch.setattr(layer, "_MOST_TOKENS", 1)
    monkeypatch.setattr(layer, "_PART_TOKENS", 3 * LENGTH)
    assert_same(trained(model, inputs, jit_compile=jit_compile), whole)


def test_parts_of_texts_with_choices(monkeypatch):
    """Windows `(batch, windows, choices, length)`, of which a choice is absent in one row."""
    keras.utils.set_random_seed(3)
    model = keras_bert.build_multiple_choice(keras_bert.build_encoder(CONFIG))
    inputs = {}
    for name, values in batch([1, 5, 2, 3]).items():
        inputs[name] = tf.stack([values, values[..., ::-1], values], axis=2)
    mask = inputs["padding_mask"].numpy()
    mask[1, :, 1] = 0
    inputs["padding_mask"] = tf.constant(mask)
    windowed = build_windowed(model)
    weights = [weight.value for weight in model.trainable_weights]

    def step(inputs):
        with tf.GradientTape() as tape:
            logits = windowed(inputs, training=False)["logits"]
            loss = loss_of(logits)
        return logits, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]

    whole = step(inputs)
    assert (whole[0][1, 1] == -1e9).numpy()
    monkeypatch.setattr(layer, "_MOST_TOKENS", 1)
    monkeypatch.setattr(layer, "_PART_TOKENS", 3 * 3 * LENGTH)
    signature = [{name: tf.TensorSpec([None] * 4, tf.int32, name) for name in inputs}]
    assert_same(tf.function(step, input_signature=signature, autograph=False)(inputs), whole)


def test_parts_have_the_same_dropout_in_the_backward_pass(model, monkeypatch):
    inputs = batch([4, 4, 4, 4])
    monkeypatch.setattr(layer, "_MOST_TOKENS", 1)
    monkeypatch.setattr(layer, "_PART_TOKENS", 4 * LENGTH)
    found = trained(model, inputs, training=True)
    assert_same(found, in_loop(model, inputs, 4))
    without = trained(model, inputs)
    assert np.abs(found[0] - without[0]).max() > 1e-4


@pytest.mark.parametrize(("rows", "size", "computed"), [(16, 409, 16), (10, 4, 4), (9, 8, 5), (5, 0, 1)])
def test_parts_have_equally_many_rows(rows, size, computed):
    spec = {"rows": keras.KerasTensor((None,), "float32")}

    @tf.function(input_signature=[tf.TensorSpec([None], "float32")])
    def sizes(values):
        def count(part):
            return {"rows": tf.fill(tf.shape(part["x"]), tf.cast(tf.size(part["x"]), "float32"))}

        options = {"most": None, "size": size, "variables": [], "generators": []}
        return in_parts(count, {"x": values}, spec, is_there=values > 0, **options)["rows"]

    assert sizes(tf.ones([rows])).numpy().tolist() == [computed] * rows


def test_frozen_layers_have_no_gradients(model, monkeypatch):
    inputs = batch([3, 1, 2, 2])
    model.get_layer("block_0").trainable = False
    try:
        whole = trained(model, inputs)
        monkeypatch.setattr(layer, "_MOST_TOKENS", 1)
        assert_same(trained(model, inputs), whole)
    finally:
        model.get_layer("block_0").trainable = True


def test_updates_of_the_forward_pass_are_refused():
    inputs = {"padding_mask": keras.Input((None,), dtype="int32", name="padding_mask")}
    pooled = keras.ops.mean(keras.ops.cast(inputs["padding_mask"], "float32"), axis=1, keepdims=True)
    model = keras.Model(inputs, {"logits": keras.layers.BatchNormalization()(keras.layers.Dense(2)(pooled))})

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
    monkeypatch.setattr(layer, "_MOST_TOKENS", 1000 * LENGTH)
    inputs = batch([60, 60, 60, 60])
    gradients = []
    for name in ("float32", "mixed_bfloat16"):
        policy(name)
        keras.utils.set_random_seed(3)
        model = keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 3)
        for weight in model.trainable_weights:
            weight.assign(weight * 8 if len(weight.shape) > 1 else weight)
        gradients.append(trained(model, inputs)[1])
    expected, found = gradients
    difference = tf.linalg.global_norm([one - other for one, other in zip(found, expected, strict=True)])
    assert difference < 0.01 * tf.linalg.global_norm(expected)


@pytest.mark.parametrize("join", [layer.MeanOfWindows, layer.LogMeanExpOfWindows])
def test_logits_of_any_size(join):
    """Beside SciPy in float64; absent windows, also all of a document, do not reach outputs or gradients."""
    rng = np.random.default_rng(5)
    counts = [1, 3, 2, 0]
    mask = np.zeros([4, 3, 2], "int32")
    for row, count in enumerate(counts):
        mask[row, :count, 0] = 1
    logits = rng.normal(size=(4, 3, 5)).astype("float32") * 3
    logits[1] -= 300  # Whose exponentials are 0 in float32, while those of absent windows of zeros would overflow.
    logits[2] += 300
    flat = tf.constant(logits.reshape(12, 5) * (mask.any(-1).reshape(12, 1)))
    with tf.GradientTape() as tape:
        tape.watch(flat)
        found = join()(flat, mask)
    gradients = tape.gradient(found, flat).numpy().reshape(4, 3, 5)
    for row, count in enumerate(counts):
        some = logits[row, :count].astype("float64")
        if join is layer.MeanOfWindows or not count:
            expected = some.sum(0) / max(count, 1)
            weights = np.ones([count, 5]) / max(count, 1)
        else:
            expected = special.logsumexp(some, 0) - np.log(count)
            weights = special.softmax(some, 0)
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)
        np.testing.assert_allclose(gradients[row, :count], weights, atol=1e-6)
        assert not gradients[row, count:].any()
    assert (found[0].numpy() == logits[0, 0]).all()  # One window keeps its bits.


def test_a_saved_model_of_windows(model, tmp_path):
    inputs = batch([1, 3, 2, 1])
    windowed = build_windowed(model)
    windowed.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(inputs)["logits"], windowed(inputs)["logits"], atol=1e-6)
