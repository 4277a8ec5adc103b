"""AdamW and LAMB against NumPy and Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from tests.conftest import to_numpy
from tests.training.numpy_optimizer import numpy_steps


@pytest.mark.parametrize("width", [3, 20_000], ids=["kernel", "XLA"])
def test_adamw_equals_numpy(width):
    """Dense and sparse gradients: Keras' own AdamW squares the rows of a repeated token one by one."""
    rng = np.random.default_rng(0)
    ids = np.array([1, 1, 3, 1])
    rows = rng.normal(size=(5, 4, width))
    start = rng.normal(size=(4, width))
    gradients = rng.normal(size=(5, 4, width))
    added = np.zeros((5, 4, width))
    options = {"beta_1": 0.8, "beta_2": 0.95}
    for step in range(5):
        np.add.at(added[step], ids, rows[step])
    variables = [keras.Variable(start.astype("float32"), name=name) for name in ("plain", "bias", "slow", "table")]
    optimizer = keras_bert.AdamW(
        0.01, weight_decay=0.1, epsilon=1e-8, undecayed=["bias"], rates={"slow": 0.25}, **options
    )
    for gradient, values in zip(gradients.astype("float32"), rows.astype("float32"), strict=True):
        sparse = tf.IndexedSlices(tf.constant(values), tf.constant(ids), tf.constant([4, width]))
        optimizer.apply([*[tf.constant(gradient)] * 3, sparse], variables)
    cases = (gradients, 0.01, 0.1), (gradients, 0.01, 0.0), (gradients, 0.0025, 0.1), (added, 0.01, 0.1)
    for variable, case in zip(variables, cases, strict=True):
        np.testing.assert_allclose(variable, numpy_steps(start, *case, epsilon=1e-8, **options), atol=1e-6)


@pytest.mark.parametrize("decay", [0.1, 0.0])
def test_lamb_equals_numpy(decay):
    """Weights excluded from weight decay are not scaled; all others are, even with a decay of 0. Zeros are updated."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(5, 4, 6))
    start = dict.fromkeys(("plain", "query_key_value", "bias", "excluded"), rng.normal(size=(4, 6)))
    start["zeros"] = np.zeros((4, 6))
    variables = [keras.Variable(value.astype("float32"), name=name) for name, value in start.items()]
    optimizer = keras_bert.LAMB(0.01, weight_decay=decay, epsilon=1e-6, fused=["query_key_value"], undecayed=["bias"])
    optimizer.exclude_from_weight_decay(var_list=[variables[3].value])
    for gradient in gradients.astype("float32"):
        optimizer.apply([tf.constant(gradient)] * 5, variables)
    for variable in variables:
        excluded = variable.name in ("bias", "excluded")
        parts = 3 if variable.name == "query_key_value" else 1
        options = {"kind": "AdamW" if excluded else "LAMB", "parts": parts}
        expected = numpy_steps(start[variable.name], gradients, 0.01, 0.0 if excluded else decay, **options)
        np.testing.assert_allclose(variable, expected, atol=1e-6, err_msg=variable.name)


@pytest.mark.parametrize("size", [4, 70_000], ids=["kernel", "XLA"])
def test_float64(size):
    """Weight decay and epsilon are not rounded to float32: 1 - 0.1, then 1 - g / (sqrt(0.001 g g) + 0.1 g)."""
    for gradient, decay, expected in ((0.0, 0.1, 0.9), (1e-49, 0.0, 1 - 1 / (np.sqrt(0.001) + 0.1))):
        weight = keras.Variable(np.ones(size), dtype="float64")
        optimizer = keras_bert.AdamW(1.0, weight_decay=decay, epsilon=1e-50, bias_correction=False, beta_1=0.0)
        optimizer.apply([keras.ops.full([size], gradient, "float64")], [weight])
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-12)


def test_lamb_on_a_scalar():
    """The first step of Adam is 1; its trust ratio is 2."""
    weight = keras.Variable(2.0)
    keras_bert.LAMB(0.01, weight_decay=0).apply([keras.ops.ones(())], [weight])
    np.testing.assert_allclose(to_numpy(weight), 1.98, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "clip"),
    [("AdamW", "clipvalue"), ("AdamW", "clipnorm"), ("AdamW", "global_clipnorm"), ("LAMB", "clipnorm")],
)
def test_repeated_tokens_are_summed_before_clipping(kind, clip):
    """The gradient has rows (9, 12) and (-3, 4), with norm sqrt(250); each of the four summands is at most 5."""
    ids = tf.constant([1, 1, 1, 2])
    rows = tf.constant([[3.0, 4.0]] * 3 + [[-3.0, 4.0]])
    gradient = tf.IndexedSlices(rows, ids, tf.constant([4, 2]))
    optimizer = getattr(keras_bert, kind)(1.0, weight_decay=0, beta_1=0.0, bias_correction=False, **{clip: 5.0})
    optimizer.apply([gradient], [keras.Variable(np.zeros((4, 2), "float32"))])
    whole = np.array([[0, 0], [9, 12], [-3, 4], [0, 0]])
    expected = np.clip(whole, -5, 5) if clip == "clipvalue" else whole * 5 / 250**0.5
    (moment,) = [slot for slot in optimizer.variables if "momentum" in slot.path]
    np.testing.assert_allclose(moment, expected, rtol=1e-5)


@pytest.mark.usefixtures("eager")
def test_fit_on_two_replicas_equals_keras_adamw(mirrored):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 5)).astype("float32"), rng.normal(size=(16, 1)).astype("float32")

    def trained(kind):
        """Returns the weights after three steps."""
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        schedule = keras.optimizers.schedules.PolynomialDecay(4e-3, 20)
        model.compile(kind(schedule, weight_decay=0.01, beta_1=0.8, epsilon=1e-9), "mse")
        model.fit(tf.data.Dataset.from_tensors((x, y)).repeat(3), shuffle=False, verbose=0)
        return model.get_weights()

    expected = trained(keras.optimizers.AdamW)
    with mirrored.scope():
        found = trained(keras_bert.AdamW)
    for weight, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(weight, other, atol=1e-6)


def test_settings_not_supported_in_16_bits():
    variable = keras.Variable(np.zeros(2), dtype="bfloat16")
    with pytest.raises(ValueError, match="`use_ema` is not supported for weights in 16 bits. Received: use_ema=True"):
        keras_bert.AdamW(1e-3, use_ema=True).build([variable])
    keras.config.set_floatx("float16")
    try:
        with pytest.raises(ValueError, match="`learning_rate` must not be in 16 bits. .*floatx.*='float16'"):
            keras_bert.AdamW(1e-3)
    finally:
        keras.config.set_floatx("float32")


@pytest.mark.parametrize(("dtype", "kind"), [("bfloat16", "AdamW"), ("float16", "LAMB")])
def test_weights_in_16_bits(dtype, kind):
    """With steps of a third of the bfloat16 spacing, the weights equal the rounded weights of a float64 run."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 2, (3, 4))
    gradients = 1e-3 * np.abs(rng.normal(size=(40, 3, 4)))
    variable = keras.Variable(weights, dtype=dtype)
    optimizer = getattr(keras_bert, kind)(2e-3, weight_decay=0.1, epsilon=1e-6, global_clipnorm=1e9)
    for index in range(2):
        start = to_numpy(variable).astype("float64")
        part = np.float64(to_numpy(keras.ops.cast(gradients, dtype)))[20 * index :][:20]
        fresh = getattr(keras_bert, kind).from_config(optimizer.get_config())
        for gradient in part:
            fresh.apply([keras.ops.cast(gradient, dtype)], [variable])
        expected = numpy_steps(start, part, 2e-3, 0.1, kind=kind)
        np.testing.assert_allclose(to_numpy(variable), expected, rtol=2**-8 if dtype == "bfloat16" else 2**-11)
        assert (to_numpy(variable) != start).all()
        assert {slot.dtype for slot in fresh.variables} == {"int64", "float32"}
        variable.assign(1.5 * variable)  # Weights set elsewhere replace their copy.


def test_saved_and_loaded(tmp_path):
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(3, name="dense")(x))
    kernel, bias = (weight.path for weight in model.weights)
    options = {"undecayed": [bias], "rates": {kernel: 0.9}, "fused": [kernel], "bias_correction": False}
    optimizer = keras_bert.LAMB(keras_bert.LinearSchedule(1e-3, 10, warmup_steps=2), epsilon=1e-5, **options)
    model.compile(optimizer, "mse")
    optimizer.apply([tf.ones(weight.shape) for weight in model.weights], model.trainable_variables)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras").optimizer
    config = again.get_config()
    assert (type(again), config, int(again.iterations)) == (keras_bert.LAMB, optimizer.get_config(), 1)
    assert {name: config[name] for name in options} == options
    for left, right in zip(again.variables, optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(left), to_numpy(right))
