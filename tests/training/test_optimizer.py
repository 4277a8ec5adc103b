"""Our AdamW against Keras'."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from tests.conftest import to_numpy  # noqa: E402

pytestmark = pytest.mark.tensorflow

# Keras adds epsilon before it corrects the bias, we after: a small one tells nothing of that.
OPTIONS = {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-9}


def numpy_adamw(weight, gradients, learning_rate, weight_decay, beta_1, beta_2, epsilon):
    """The algorithm as its paper has it, with bias correction."""
    m = v = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        corrected = (m / (1 - beta_1**step)) / (np.sqrt(v / (1 - beta_2**step)) + epsilon)
        weight = weight - learning_rate * (corrected + weight_decay * weight)
    return weight


def train(optimizer, build, inputs, targets, losses, steps=5):
    keras.utils.set_random_seed(5)
    model = build("pretraining")
    model.compile(optimizer, losses)
    losses = [model.train_on_batch(inputs, targets) for _ in range(steps)]
    return losses, {weight.path: to_numpy(weight) for weight in model.trainable_weights}


def test_trains_as_keras_adamw_does(build, task):
    data = task("pretraining")
    schedule = keras.optimizers.schedules.PolynomialDecay(3e-3, 10)
    # A clip that never bites makes Keras' gradients of embeddings dense, see the test of repeated tokens.
    expected_losses, expected = train(keras.optimizers.AdamW(schedule, global_clipnorm=1e9, **OPTIONS), build, *data)
    losses, got = train(keras_bert.AdamW(schedule, **OPTIONS), build, *data)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, value in expected.items():
        if "query_key_value/bias" not in name:  # The key's gradient is rounding alone, which Adam blows up.
            np.testing.assert_allclose(got[name], value, atol=2e-5, err_msg=name)


def test_equals_numpy():
    """Dense gradients, and those of a lookup: Keras' own AdamW squares the rows of a repeated token one by one."""
    rng = np.random.default_rng(0)
    start, ids, rows = rng.normal(size=(4, 3)), np.array([1, 1, 3, 1]), rng.normal(size=(5, 4, 3))
    dense = np.zeros((5, 4, 3))
    for step in range(5):
        np.add.at(dense[step], ids, rows[step])
    options = {"learning_rate": 0.01, "weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-8}
    variables = [keras.Variable(start.astype("float32"), name=name) for name in ("kernel", "table")]
    optimizer = keras_bert.AdamW(**options)
    gradients = rng.normal(size=(5, 4, 3))
    for gradient, values in zip(gradients, rows, strict=True):
        sparse = tf.IndexedSlices(tf.constant(values, "float32"), tf.constant(ids), tf.constant([4, 3]))
        optimizer.apply([tf.constant(gradient, "float32"), sparse], variables)
    np.testing.assert_allclose(variables[0], numpy_adamw(start, gradients, **options), atol=1e-6)
    np.testing.assert_allclose(variables[1], numpy_adamw(start, dense, **options), atol=1e-6)


@pytest.mark.parametrize("kind", ["AdamW", "LAMB"])
@pytest.mark.parametrize("clip", ["clipvalue", "clipnorm", "global_clipnorm"])
def test_repeated_tokens_are_added_before_they_are_clipped(kind, clip):
    """Rows 1 and 2 of the whole gradient are (9, 12) and (-3, 4), of norm root 250; each of the four is below 5."""
    ids, rows = tf.constant([1, 1, 1, 2]), tf.constant([[3.0, 4.0]] * 3 + [[-3.0, 4.0]])
    gradient = tf.IndexedSlices(rows, ids, tf.constant([4, 2]))
    optimizer = getattr(keras_bert, kind)(1.0, weight_decay=0, beta_1=0.0, bias_correction=False, **{clip: 5.0})
    optimizer.apply([gradient], [keras.Variable(np.zeros((4, 2), "float32"))])
    whole = np.array([[0, 0], [9, 12], [-3, 4], [0, 0]])
    expected = np.clip(whole, -5, 5) if clip == "clipvalue" else whole * 5 / 250**0.5
    (moment,) = [slot for slot in optimizer.variables if "momentum" in slot.path]
    np.testing.assert_allclose(moment, expected, rtol=1e-5)


def test_excluded_variables_do_not_decay():
    variables = [keras.Variable(np.full((2, 3), 2.0, "float32"), name=name) for name in ("kernel", "bias")]
    optimizer = keras_bert.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=variables[1:])
    optimizer.apply([keras.ops.zeros((2, 3))] * 2, variables)
    np.testing.assert_allclose(variables[0].numpy(), 0.95 * 2.0, rtol=1e-6)
    np.testing.assert_allclose(variables[1].numpy(), 2.0, rtol=1e-6)


def test_two_replicas_in_fit(mirrored):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)).astype("float32"), rng.normal(size=(6, 1)).astype("float32")
    weights = []
    for strategy in (tf.distribute.get_strategy(), mirrored):
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras_bert.AdamW(1e-2, weight_decay=0.1), "mse")
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(6), epochs=3, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for found, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fit_of_a_model_in_16_bits_is_close_to_float32(dtype):
    """Keras' AdamW in float32 beside ours; a learning rate whose steps vanish in 16 bits."""
    rng = np.random.default_rng(0)
    x, y, losses = rng.normal(size=(16, 5)).astype("float32"), rng.normal(size=(16, 1)).astype("float32"), {}
    weights = [rng.normal(scale=0.5, size=size) for size in ((5, 8), 8, (8, 1), 1)]
    options = {"weight_decay": 0.01, "beta_1": 0.8, "epsilon": 1e-6, "clipnorm": 1.0}
    for policy, kind in (("float32", keras.optimizers.AdamW), (dtype, keras_bert.AdamW)):
        layers = [keras.layers.Dense(8, "tanh", dtype=policy), keras.layers.Dense(1, dtype=policy)]
        model = keras.Sequential([keras.Input((5,)), *layers])
        model.set_weights(weights)
        model.compile(kind(1e-3, **options), "mse")
        losses[policy] = model.fit(x, y, batch_size=16, epochs=30, verbose=0).history["loss"]
    np.testing.assert_allclose(losses[dtype], losses["float32"], rtol=0.02)


def test_what_cannot_be_in_16_bits():
    variable = keras.Variable(np.zeros(2), dtype="bfloat16")
    with pytest.raises(ValueError, match="`use_ema` is not supported for weights in 16 bits. Received: use_ema=True"):
        keras_bert.AdamW(1e-3, use_ema=True).build([variable])
    keras.config.set_floatx("float16")
    try:
        with pytest.raises(ValueError, match="`learning_rate` must not be in 16 bits. .*floatx.*='float16'"):
            keras_bert.AdamW(1e-3)
    finally:
        keras.config.set_floatx("float32")


def test_the_schedule_is_googles():
    schedule = keras_bert.LinearSchedule(1.0, total_steps=10, warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0], atol=1e-6)
    assert float(keras_bert.LinearSchedule(2.0, 10)(0)) == 2.0
    assert keras_bert.LinearSchedule.from_config(schedule.get_config()).get_config() == schedule.get_config()


def test_weights_of_bert_tiny_that_are_not_decayed():
    model = keras_bert.build_pretrainer(keras_bert.build_encoder(keras_bert.BERT_TINY))
    blocks = [
        f"block_{block}/{name}"
        for block in range(2)
        for name in (
            "attention/query_key_value/bias",
            "attention/output/bias",
            "attention_norm/gamma",
            "attention_norm/beta",
            "feed_forward/intermediate/bias",
            "feed_forward/output/bias",
            "output_norm/gamma",
            "output_norm/beta",
        )
    ]
    assert keras_bert.create_optimizer(model, 1e-4, 10).undecayed == [
        "embeddings/norm/gamma",
        "embeddings/norm/beta",
        *blocks,
        "mlm_transform/dense/bias",
        "mlm_transform/norm/gamma",
        "mlm_transform/norm/beta",
        "pooler/dense/bias",
        "mlm_bias/bias",
        "next_sentence/bias",
    ]


@pytest.mark.parametrize("head", ["classification", "multiple_choice"])
def test_layer_rates(build, config, head):
    model = build(head)
    rates = keras_bert.create_optimizer(model, 1e-4, 10, layer_decay=0.5).rates
    layers = config.num_hidden_layers
    found = {weight.path: rates.get(weight.path, 1.0) for weight in model.trainable_variables}
    for path, rate in found.items():
        part = next(
            part
            for part in path.split("/")
            if part.startswith(("token_", "embed", "block_", "pooler", "classif", "logit", "choice_"))
        )
        if part.startswith("block_"):
            assert rate == 0.5 ** (layers - int(part.removeprefix("block_")))
        else:
            assert rate == (0.5 ** (layers + 1) if part.startswith(("token_", "embed")) else 1.0)


def test_rates_and_decay_reach_the_weights():
    options = {"learning_rate": 0.01, "weight_decay": 0.1, "beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-6}
    rng = np.random.default_rng(0)
    variables = [keras.Variable(rng.normal(size=(3, 4)).astype("float32"), name=name) for name in "abc"]
    starts = [variable.numpy() for variable in variables]
    optimizer = keras_bert.AdamW(**options, undecayed=["b"], rates={"c": 0.25})
    gradients = rng.normal(size=(4, 3, 3, 4)).astype("float32")
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(part) for part in gradient], variables)
    changes = [{}, {"weight_decay": 0.0}, {"learning_rate": 0.0025}]
    for index, change in enumerate(changes):
        expected = numpy_adamw(starts[index], gradients[:, index], **{**options, **change})
        np.testing.assert_allclose(variables[index].numpy(), expected, atol=1e-6)


def numpy_lamb(weight, gradients, learning_rate, decay, ratio, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    m = v = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        update = (m / (1 - beta_1**step)) / (np.sqrt(v / (1 - beta_2**step)) + epsilon) + decay * weight
        trust = np.linalg.norm(weight) / np.linalg.norm(update) if ratio else 1.0
        weight = weight - learning_rate * trust * update
    return weight


def test_lamb_equals_numpy():
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(4, 6)), rng.normal(size=(5, 4, 6))
    variables = [keras.Variable(start.astype("float32"), name=name) for name in ("plain", "query_key_value", "bias")]
    optimizer = keras_bert.LAMB(0.01, weight_decay=0.1, epsilon=1e-6, fused=["query_key_value"], undecayed=["bias"])
    for gradient in gradients.astype("float32"):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)] * 3, variables)
    plain, fused, bias = (variable.numpy() for variable in variables)
    np.testing.assert_allclose(plain, numpy_lamb(start, gradients, 0.01, 0.1, True), atol=1e-6)
    np.testing.assert_allclose(bias, numpy_lamb(start, gradients, 0.01, 0.0, False), atol=1e-6)
    for part in (slice(0, 2), slice(2, 4), slice(4, 6)):
        expected = numpy_lamb(start[:, part], gradients[..., part], 0.01, 0.1, True)
        np.testing.assert_allclose(fused[:, part], expected, atol=1e-6)


@pytest.mark.parametrize("exclude", ["undecayed", "var_list"])
def test_lamb_without_decay_scales_its_steps(exclude):
    """As the authors' program does: what is left out of the decay is left out of the scaling, not all without decay."""
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(4, 6)), rng.normal(size=(5, 4, 6))
    plain, bias = (keras.Variable(start.astype("float32"), name=name) for name in ("plain", "bias"))
    undecayed = ["bias"] if exclude == "undecayed" else []
    optimizer = keras_bert.LAMB(0.01, weight_decay=0, epsilon=1e-6, undecayed=undecayed)
    if exclude == "var_list":
        optimizer.exclude_from_weight_decay(var_list=[bias.value])
    for gradient in gradients.astype("float32"):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)] * 2, [plain, bias])
    np.testing.assert_allclose(plain.numpy(), numpy_lamb(start, gradients, 0.01, 0.0, True), atol=1e-6)
    np.testing.assert_allclose(bias.numpy(), numpy_lamb(start, gradients, 0.01, 0.0, False), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["AdamW", "LAMB"])
def test_weights_in_16_bits(dtype, kind):
    """Steps of a third of the distance between two bfloat16 numbers, far from their end: the rounded float64 run."""
    rng = np.random.default_rng(0)
    weights, gradients = rng.uniform(1, 2, (3, 4)), 1e-3 * np.abs(rng.normal(size=(40, 3, 4)))
    variable = keras.Variable(weights, dtype=dtype)
    optimizer = getattr(keras_bert, kind)(2e-3, weight_decay=0.1, epsilon=1e-6, global_clipnorm=1e9)
    for index in range(2):
        start = to_numpy(variable).astype("float64")
        part = np.float64(to_numpy(keras.ops.cast(gradients, dtype)))[20 * index :][:20]
        fresh = getattr(keras_bert, kind).from_config(optimizer.get_config())
        for gradient in part:
            fresh.apply([keras.ops.cast(gradient, dtype)], [variable])
        if kind == "AdamW":
            expected = numpy_adamw(start, part, 2e-3, 0.1, 0.9, 0.999, 1e-6)
        else:
            expected = numpy_lamb(start, part, 2e-3, 0.1, True)
        np.testing.assert_allclose(to_numpy(variable), expected, rtol=2**-8 if dtype == "bfloat16" else 2**-11)
        assert (to_numpy(variable) != start).all()
        assert {slot.dtype for slot in fresh.variables} == {"int64", "float32"}
        variable.assign(1.5 * variable)  # Weights that are set from outside count, not their copy.


def test_lamb_of_a_model_knows_the_fused_weights(build):
    optimizer = keras_bert.create_optimizer(build("classification"), 1e-3, 10, kind="lamb")
    assert optimizer.fused[0] == "block_0/attention/query_key_value/kernel"
    assert all(path.split("/")[-2] == "query_key_value" for path in optimizer.fused)


def test_a_weight_of_zeros_moves_under_lamb():
    variable = keras.Variable(np.zeros(3, "float32"))
    keras_bert.LAMB(0.1, weight_decay=0.1).apply([keras.ops.ones(3)], [variable])
    np.testing.assert_allclose(variable.numpy(), -0.1, atol=1e-4)


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
def test_saved_and_loaded(build, task, tmp_path, kind):
    inputs, targets, losses = task("classification")
    model = build("classification")
    optimizer = keras_bert.create_optimizer(
        model, 1e-3, 10, 2, layer_decay=0.9, bias_correction=False, kind=kind, epsilon=1e-5
    )
    assert type(optimizer).from_config(optimizer.get_config()).get_config() == optimizer.get_config()
    model.compile(optimizer, losses)
    assert np.isfinite(model.train_on_batch(inputs, targets))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is type(optimizer)
    assert again.optimizer.get_config() == optimizer.get_config()
    assert int(again.optimizer.iterations) == 1
    for left, right in zip(again.optimizer.variables, optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(left), to_numpy(right))


def test_bad_arguments(build):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for arguments, message in (
        ({"kind": "adam"}, "`kind` must be 'adamw' or 'lamb'. Received: kind='adam'"),
        ({"layer_decay": 0}, "`layer_decay` must be above 0 and at most 1. Received: layer_decay=0"),
        ({"layer_decay": 0.9}, "`layer_decay` needs a model with Transformer blocks"),
        ({"total_steps": 0}, "`total_steps` must be at least 1"),
        ({"warmup_steps": 11}, "`warmup_steps` must be between 0 and `total_steps`. Received: warmup_steps=11"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.create_optimizer(model, **{"learning_rate": 1e-3, "total_steps": 10, **arguments})
    optimizer = keras_bert.create_optimizer(build("classification"), 1e-3, 10)
    with pytest.raises(ValueError, match="the optimizer was created for another model: it knows of '"):
        optimizer.build(model.trainable_variables)
    with pytest.raises(ValueError, match="`amsgrad` is not supported"):
        keras_bert.AdamW(1e-3, amsgrad=True)
