"""Training steps: equal for any number of replicas and micro-batches, and equal to those of Keras' fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.losses import Loss, classification_loss, in_batch_loss, regression_loss
from keras_bert.training.step import RunInputs, StepOptions, TrainStep
from keras_bert.training.trainer import Trainer
from tests.conftest import eagerly
from tests.training import small_run, small_towers
from tests.training.small_run import arrays, linear, metrics, numbered

NUMBERS = (3, 1, 4)  # Of the batches that are compared with Keras' fit.


def train(directory, **options):
    """Trains a small BERT; returns the losses of each of 3 steps and the final weights."""
    run = small_run.trainer(directory, **options)
    run.fit(small_run.data(), log_every=1)
    numbers = []
    for line in metrics(directory):
        numbers.append([line["mlm_loss"], line["nsp_loss"], line["gradient_norm"]])
    return np.array(numbers), small_run.weights(run)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One replica without micro-batches, eagerly."""
    with eagerly():
        numbers, weights = train(tmp_path_factory.mktemp("alone"))
    assert numbers[:, 2].min() > 1.0, "clipping must be active"
    return numbers, weights


@pytest.mark.slow
def test_xla_changes_nothing(alone, tmp_path):
    assert_same_training(train(tmp_path, jit_compile=True), alone)


def test_replicas_and_micro_batches_change_nothing(alone, tmp_path, mirrored):
    assert_same_training(train(tmp_path, strategy=mirrored, micro_batches=2), alone)


def assert_same_training(found, expected):
    numbers, weights = found
    expected_numbers, expected_weights = expected
    np.testing.assert_allclose(numbers, expected_numbers, rtol=1e-5)
    small_run.assert_same_weights(weights, expected_weights)


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_16_bits_train_like_float32(alone, tmp_path, dtype):
    in_float32, _ = alone
    numbers, _ = train(tmp_path, dtype=dtype)
    np.testing.assert_allclose(numbers[:, :2], in_float32[:, :2], rtol=0.05)


@pytest.mark.usefixtures("eager")
def test_dropout_differs_between_rows_steps_and_seeds(mirrored):
    """The gradient of a linear layer after dropout counts how often each of 256 inputs was kept in 4 rows."""

    def model():
        x = keras.Input((256,))
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        return keras.Model(x, {"sum": dense(keras_bert.layers.Dropout(0.5)(x))})

    def fit(steps, **options):
        # Without moments, and with an epsilon that dominates the second one.
        settings = {"beta_1": 0.0, "beta_2": 0.0, "epsilon": 1e6, "weight_decay": 0.0, "bias_correction": False}
        loss = Loss("sum", lambda targets, outputs: -outputs["sum"][:, 0])
        run = Trainer(model, lambda _: keras_bert.AdamW(1e5, **settings), loss, **options)
        batch = (tf.ones([4, 256]), tf.zeros([4]))
        run.fit(tf.data.Dataset.from_tensors(batch), epochs=steps)
        (kernel,) = run.model.get_weights()
        return np.round(kernel[:, 0] * 10 * 4 / 2).astype(int)

    # Each row is kept with probability 1/2 in two steps of four parts: binomial. With the same mask in both steps, all
    # counts would be even; with the same mask for all parts, multiples of 4.
    counts = np.bincount(fit(2, strategy=mirrored, micro_batches=2), minlength=9)
    binomial = np.array([1, 8, 28, 56, 70, 56, 28, 8, 1])
    np.testing.assert_allclose(counts / 256, binomial / 256, atol=0.1)
    assert (fit(1, seed=0) != fit(1, seed=1)).any()


@pytest.mark.usefixtures("eager")
def test_frozen_weights_stay_equal(config, batch):
    """Of a classifier with LoRA adapters, recomputed; the optimizer has moments of what is trained only."""
    inputs = {name: tf.RaggedTensor.from_tensor(ids) for name, ids in batch.items()}
    before = []

    def build():
        encoder = keras_bert.build_encoder(config, dtype="mixed_bfloat16", remat=True)
        model = keras_bert.build_classifier(encoder, 3)
        keras_bert.enable_lora(model, 2)
        before.extend(weight.numpy() for weight in model.weights)
        return model

    def optimizer(model):
        return keras_bert.create_optimizer(model, 1e-2, 4, kind="lamb")

    run = Trainer(build, optimizer, classification_loss(), micro_batches=2)
    run.fit(keras_bert.data.Batches(inputs, np.array([0, 2, 1]), batch_size=2))
    trained_ids = {id(weight) for weight in run.model.trainable_weights}
    for weight, start in zip(run.model.weights, before, strict=True):
        is_frozen = id(weight) not in trained_ids
        assert np.array_equal(weight.numpy(), start) == is_frozen, weight.path
    # Two adapters of rank 2, the pooler and a head for 3 classes, on one block of width 32; two moments of each.
    size = 2 * (32 + 96) + 2 * (32 + 32) + 32 * 32 + 32 + 32 * 3 + 3
    moments = [variable for variable in run.optimizer.variables if len(variable.shape)]
    assert sum(np.prod(variable.shape) for variable in moments) == 2 * size


class Counts(keras.layers.Layer):
    """Adds the mean square of its inputs to the loss, and counts the calls."""

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x):
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
        self.calls.assign_add(1.0)
        return x


class Noise(keras.layers.Layer):
    """Draws from Keras' global generator, which belongs to no layer."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x))


def extras(*layers):
    """A model with `layers` after a kernel with a regularizer and a constraint."""
    x = keras.Input((3,), name="x")
    regularizer = keras.regularizers.L2(0.3)
    constraint = keras.constraints.MaxNorm(0.4)
    y = keras.layers.Dense(4, name="first", kernel_regularizer=regularizer, kernel_constraint=constraint)(x)
    for layer in layers:
        y = layer(y)
    return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(y)})


def default_optimizer():
    return keras_bert.AdamW(0.1)


def trained(layers, weights=None, make_optimizer=default_optimizer, **options):
    """A trainer of `extras` after the batches of `NUMBERS`."""
    run = Trainer(lambda: extras(*layers), lambda model: make_optimizer(), regression_loss(), **options)
    if weights is not None:
        run.model.set_weights(weights)
    run.fit(numbered(*NUMBERS), log_every=1)
    return run


def fit_in_keras(model, optimizer):
    """Returns the losses of the same batches."""
    model.compile(optimizer, "mse", run_eagerly=True)
    inputs, targets = arrays(*NUMBERS)
    losses = []
    for x, y in zip(inputs["x"], targets[..., None], strict=True):
        losses.append(float(model.train_on_batch({"x": x}, {"logits": y})))
    return losses


def assert_equal_weights(found, expected, atol=1e-6):
    for weight, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(weight.numpy(), other.numpy(), rtol=1e-4, atol=atol, err_msg=weight.path)


def test_one_replica_trains_like_keras_fit(tmp_path):
    def layers():
        dense = keras.layers.Dense(4, "tanh", activity_regularizer="l2")
        return Counts(), keras.layers.BatchNormalization(), dense

    def optimizer():
        # With a small epsilon, the rounding of gradients near 0, such as of a bias before a norm, decides its update.
        return keras_bert.AdamW(0.1, weight_decay=0.1, global_clipnorm=0.5, epsilon=1e-2)

    model = extras(*layers())
    run = trained(layers(), directory=tmp_path, weights=model.get_weights(), make_optimizer=optimizer)
    expected = fit_in_keras(model, optimizer())
    lines = metrics(tmp_path)
    losses = [line["loss"] + line["regularization"] for line in lines]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert min(line["regularization"] for line in lines) > 0.01
    assert_equal_weights(run.model, model, atol=1e-5)  # Of updates of about 0.1.
    kernel = run.model.get_layer("first").kernel.numpy()
    assert kernel.max() < 0.41


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("kind", "has_replicas", "clip"), [("AdamW", True, {"clipnorm": 0.5}), ("LAMB", False, {"clipvalue": 0.1})]
)
def test_parts_train_like_keras_fit(mirrored, kind, has_replicas, clip):
    """Regularizers, constraints, clipping; batches of two rows: one of the two replicas gets only filler."""

    def optimizer():
        make_optimizer = getattr(keras_bert, kind)
        return make_optimizer(0.1, weight_decay=0.1, **clip)

    model = extras()
    options = {"micro_batches": 2}
    if has_replicas:
        options["strategy"] = mirrored
    run = trained([], model.get_weights(), optimizer, **options)
    fit_in_keras(model, optimizer())
    assert_equal_weights(run.model, model)


def test_the_step_compiles_for_a_tpu():
    """XLA compiles it with static shapes, and it contains no strings or Python calls."""
    model = extras(keras_bert.layers.Dropout(0.1))
    optimizer = keras_bert.AdamW(0.1, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    step = tf.function(TrainStep(model, optimizer, [regression_loss()]), jit_compile=True)
    batch = {
        "inputs": {"x": tf.ones([2, 3])},
        "targets": tf.ones(2),
        "weights": tf.ones(2),
        "totals": tf.constant([2.0]),
        "step": tf.constant(0),
        "stop": tf.constant(0.0),
        "run": RunInputs(tf.constant([0, 0]), tf.constant([])),
    }
    assert step.experimental_get_compiler_ir(**batch)(stage="hlo").startswith("HloModule")
    graph = step.get_concrete_function(**batch).graph.as_graph_def()
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes.extend(function.node_def)
    assert len(nodes) > 100
    for node in nodes:
        assert "Py" not in node.op, node.name
        assert "Print" not in node.op, node.name
        types = [value.type for value in node.attr.values()]
        assert tf.string.as_datatype_enum not in types, node.name


def spectral():
    return keras.layers.SpectralNormalization(keras.layers.Dense(4, name="inner"))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("make_layer", "replicas", "micro_batches", "message"),
    [
        (Counts, 1, 2, "calls `add_loss` or has an `activity_regularizer`.* Received: replicas=1, micro_batches=2"),
        (keras.layers.BatchNormalization, 2, 1, "which would depend on .* Received: replicas=2, micro_batches=1"),
        (Noise, 1, 1, "updates a variable that is neither a .* Received: the state of a generator"),
        (spectral, 1, 1, "train with model.fit. Received: .*inner/kernel"),
    ],
)
def test_unsupported_layers(mirrored, make_layer, replicas, micro_batches, message):
    strategy = tf.distribute.get_strategy()
    if replicas == 2:
        strategy = mirrored
    with pytest.raises(ValueError, match=message), strategy.scope():
        trained([make_layer()], strategy=strategy, micro_batches=micro_batches)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras.optimizers.SGD(0.1), "`optimizer_fn` must return keras_bert's `AdamW` .* Received: keras.*SGD"),
        (lambda: keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(0.1)), "without a wrapper; .*LossScaleOptimiz"),
        (lambda: keras_bert.AdamW(0.1, use_ema=True), "`use_ema` of the optimizer is not supported by `Trainer`"),
        (lambda: keras_bert.LAMB(0.1, gradient_accumulation_steps=2), "set `micro_batches`"),
        (lambda: keras_bert.AdamW(0.1, loss_scale_factor=8.0), "scaled automatically. Received: loss_scale_factor=8"),
    ],
)
def test_unsupported_optimizers(make, message):
    with pytest.raises(ValueError, match=message):
        Trainer(extras, lambda model: make(), regression_loss())


@pytest.mark.usefixtures("eager")
def test_float16_skips_steps_that_overflow(tmp_path, mirrored):
    """The gradient is 16 times the scale, which starts at 2 ** 15: above 65504 until the scale is 2 ** 11.

    One of the two replicas has only filler.
    """
    loss = Loss("loss", lambda targets, outputs: outputs["logits"][:, 0])
    run = linear(tmp_path, dtype="mixed_float16", loss=loss, strategy=mirrored)
    run.model.set_weights([np.ones([3, 1]), np.zeros(1)])
    inputs = {"x": np.full([1, 3], 16.0, "float32")}
    data = tf.data.Dataset.from_tensors((inputs, np.zeros(1)))
    run.fit(data.repeat(7), log_every=1)
    lines = metrics(tmp_path)
    assert [line["skipped"] for line in lines] == [1, 1, 1, 1, 0, 0, 0]
    assert [line["loss"] for line in lines[:6]] == [48] * 6  # The first step taken has a learning rate of 0.
    assert lines[6]["loss"] < 48
    rates = [0, 0, 0, 0, 0, 0.1 / 3, 0.2 / 3]  # The schedule counts three steps.
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates)
    assert lines[6]["gradient_norm"] == pytest.approx((3 * 16**2 + 1) ** 0.5)


@pytest.mark.usefixtures("eager")
def test_losses_of_all_rows_together(tmp_path, mirrored):
    """They are equal for any number of replicas and micro-batches."""
    alone = small_towers.train(tmp_path / "alone")
    assert len(alone.steps) == 2
    for loss, _ in alone.steps:
        assert loss > 0
    two = small_towers.train(tmp_path / "two", strategy=mirrored, micro_batches=2)
    small_towers.assert_same(two, alone)


def towers_with_dropout():
    query = keras.Input((4,), name="query")
    passage = keras.Input((2, 4), name="passage")
    drop = keras_bert.layers.Dropout(0.5)
    dense = keras.layers.Dense(6, use_bias=False)
    outputs = {"query_embedding": drop(dense(query)), "passage_embedding": drop(dense(passage))}
    return keras.Model({"query": query, "passage": passage}, outputs)


def test_both_passes_have_the_same_dropout():
    """Both computations of a micro-batch have the same dropout: the gradient is the finite difference of the loss."""
    keras.utils.set_random_seed(2)
    model = towers_with_dropout()
    optimizer = keras_bert.AdamW(0.0)
    optimizer.build(model.trainable_variables)
    step = TrainStep(model, optimizer, [in_batch_loss(1.0)], StepOptions(micro_batches=3, seed=1))
    rng = np.random.default_rng(2)
    queries = tf.constant(rng.normal(size=(6, 4)), tf.float32)
    passages = tf.constant(rng.normal(size=(6, 2, 4)), tf.float32)
    batch = {
        "inputs": {"query": queries, "passage": passages},
        "targets": {"query_ids": tf.range(6), "passage_ids": tf.reshape(tf.range(12), (6, 2))},
        "weights": tf.ones(6),
        "totals": tf.constant([6.0]),
        "step": tf.constant(0),
        "stop": tf.constant(0.0),
        "run": step.run_inputs(),
    }
    compute = tf.function(lambda: step(**batch), autograph=False)
    _, _, norm, _ = compute().numpy()
    (kernel,) = model.trainable_variables
    start = kernel.numpy()

    def loss_with(index, change):
        moved = start.copy()
        moved[index] += change
        kernel.assign(moved)
        _, loss, _, _ = compute().numpy()
        return loss

    differences = []
    for index in np.ndindex(start.shape):
        rise = loss_with(index, 1e-2) - loss_with(index, -1e-2)
        differences.append(rise / 2e-2)
    assert np.linalg.norm(differences) == pytest.approx(norm, rel=1e-3)


def test_xla_is_refused_for_losses_of_all_rows(tmp_path):
    with pytest.raises(ValueError, match="a loss of all rows together. Received: 'loss'"):
        small_towers.train(tmp_path, jit_compile=True)
