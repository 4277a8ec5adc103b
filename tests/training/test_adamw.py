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
    for step in range(5):
        np.add.at(added[step], ids, rows[step])
    cases = {
        "plain": (gradients, 0.01, 0.1),
        "bias": (gradients, 0.01, 0.0),
        "slow": (gradients, 0.0025, 0.1),
        "table": (added, 0.01, 0.1),
    }
    variables = [keras.Variable(start.astype("float32"), name=name) for name in cases]
    options = {"epsilon": 1e-8, "beta_1": 0.8, "beta_2": 0.95}
    optimizer = keras_bert.AdamW(0.01, weight_decay=0.1, undecayed=["bias"], rates={"slow": 0.25}, **options)
    for gradient, values in zip(gradients.astype("float32"), rows.astype("float32"), strict=True):
        dense = tf.constant(gradient)
        sparse = tf.IndexedSlices(tf.constant(values), tf.constant(ids), tf.constant([4, width]))
        optimizer.apply([dense, dense, dense, sparse], variables)
    for variable in variables:
        expected = numpy_steps(start, *cases[variable.name], **options)
        np.testing.assert_allclose(variable, expected, atol=1e-6, err_msg=variable.name)


@pytest.mark.parametrize("decay", [0.1, 0.0])
def test_lamb_equals_numpy(decay):
    """Weights excluded from weight decay are not scaled; all others are, even with a decay of 0. Zeros are updated."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(5, 4, 6))
    values = rng.normal(size=(4, 6))
    start = {"plain": values, "query_key_value": values, "bias": values, "excluded": values}
    start["zeros"] = np.zeros((4, 6))
    variables = [keras.Variable(value.astype("float32"), name=name) for name, value in start.items()]
    optimizer = keras_bert.LAMB(0.01, weight_decay=decay, epsilon=1e-6, fused=["query_key_value"], undecayed=["bias"])
    optimizer.exclude_from_weight_decay(var_list=[variables[3].value])
    for gradient in gradients.astype("float32"):
        optimizer.apply([tf.constant(gradient)] * 5, variables)
    lamb = {"kind": "LAMB", "weight_decay": decay}
    adamw = {"kind": "AdamW", "weight_decay": 0.0}
    cases = {"plain": lamb, "query_key_value": lamb | {"parts": 3}, "bias": adamw, "excluded": adamw, "zeros": lamb}
    for variable in variables:
        expected = numpy_steps(start[variable.name], gradients, 0.01, **cases[variable.name])
        np.testing.assert_allclose(variable, expected, atol=1e-6, err_msg=variable.name)


@pytest.mark.parametrize("size", [4, 70_000], ids=["kernel", "XLA"])
@pytest.mark.parametrize(
    ("gradient", "decay", "expected"), [(0.0, 0.1, 0.9), (1e-49, 0.0, 1 - 1 / (np.sqrt(0.001) + 0.1))]
)
def test_float64(size, gradient, decay, expected):
    """Weight decay and epsilon are not rounded to float32: 1 - 0.1, then 1 - g / (sqrt(0.001 g g) + 0.1 g)."""
    weight = keras.Variable(np.ones(size), dtype="float64")
    options = {"epsilon": 1e-50, "bias_correction": False, "beta_1": 0.0}
    optimizer = keras_bert.AdamW(1.0, weight_decay=decay, **options)
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
    rows = tf.constant([[3.0, 4.0], [3.0, 4.0], [3.0, 4.0], [-3.0, 4.0]])
    gradient = tf.IndexedSlices(rows, ids, tf.constant([4, 2]))
    make_optimizer = getattr(keras_bert, kind)
    options = {"beta_1": 0.0, "bias_correction": False, clip: 5.0}
    optimizer = make_optimizer(1.0, weight_decay=0, **options)
    optimizer.apply([gradient], [keras.Variable(np.zeros((4, 2), "float32"))])
    whole = np.array([[0, 0], [9, 12], [-3, 4], [0, 0]])
    expected = whole * 5 / 250**0.5
    if clip == "clipvalue":
        expected = np.clip(whole, -5, 5)
    moments = [slot for slot in optimizer.variables if "momentum" in slot.path]
    assert len(moments) == 1
    np.testing.assert_allclose(moments[0], expected, rtol=1e-5)


@pytest.mark.usefixtures("eager")
def test_fit_on_two_replicas_equals_keras_adamw(mirrored):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 5)).astype("float32")
    y = rng.normal(size=(16, 1)).astype("float32")

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


def test_averages_are_not_supported_in_16_bits():
    variable = keras.Variable(np.zeros(2), dtype="bfloat16")
    with pytest.raises(ValueError, match="`use_ema`"):
        keras_bert.AdamW(1e-3, use_ema=True).build([variable])


@pytest.fixture
def in_float16():
    keras.config.set_floatx("float16")
    yield
    keras.config.set_floatx("float32")


@pytest.mark.usefixtures("in_float16")
def test_a_learning_rate_in_16_bits_is_refused():
    with pytest.raises(ValueError, match="`learning_rate` must not be in 16 bits. .*floatx.*='float16'"):
        keras_bert.AdamW(1e-3)


@pytest.mark.parametrize(("dtype", "kind", "rounding"), [("bfloat16", "AdamW", 2**-8), ("float16", "LAMB", 2**-11)])
def test_weights_in_16_bits(dtype, kind, rounding):
    """With steps of a third of the bfloat16 spacing, the weights equal the rounded weights of a float64 run.

    The second half of the steps is that of a new optimizer.
    """
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 2, (3, 4))
    gradients = 1e-3 * np.abs(rng.normal(size=(40, 3, 4)))
    variable = keras.Variable(weights, dtype=dtype)
    make_optimizer = getattr(keras_bert, kind)
    optimizer = make_optimizer(2e-3, weight_decay=0.1, epsilon=1e-6, global_clipnorm=1e9)
    rounded = to_numpy(keras.ops.cast(gradients, dtype)).astype("float64")
    for half in (rounded[:20], rounded[20:]):
        start = to_numpy(variable).astype("float64")
        fresh = make_optimizer.from_config(optimizer.get_config())
        for gradient in half:
            fresh.apply([keras.ops.cast(gradient, dtype)], [variable])
        expected = numpy_steps(start, half, 2e-3, 0.1, kind=kind)
        np.testing.assert_allclose(to_numpy(variable), expected, rtol=rounding)
        assert (to_numpy(variable) != start).all()
        assert {slot.dtype for slot in fresh.variables} == {"int64", "float32"}
        variable.assign(1.5 * variable)  # Weights set elsewhere replace their copy.


def test_saved_and_loaded(tmp_path):
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(3, name="dense")(x))
    kernel, bias = [weight.path for weight in model.weights]
    options = {"undecayed": [bias], "rates": {kernel: 0.9}, "fused": [kernel], "bias_correction": False}
    schedule = keras_bert.LinearSchedule(1e-3, 10, warmup_steps=2)
    optimizer = keras_bert.LAMB(schedule, epsilon=1e-5, **options)
    model.compile(optimizer, "mse")
    optimizer.apply([tf.ones(weight.shape) for weight in model.weights], model.trainable_variables)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras").optimizer
    config = again.get_config()
    assert type(again) is keras_bert.LAMB
    assert config == optimizer.get_config()
    assert int(again.iterations) == 1
    assert {name: config[name] for name in options} == options
    for left, right in zip(again.variables, optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(left), to_numpy(right))
