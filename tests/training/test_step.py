"""Training steps: equal for any number of replicas and micro-batches, and equal to those of Keras' fit."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training.input_pipeline import Stream  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss, regression_loss  # noqa: E402
from keras_bert.training.step import TrainStep  # noqa: E402
from keras_bert.training.trainer import Trainer  # noqa: E402
from tests.conftest import eagerly  # noqa: E402
from tests.training import small_run  # noqa: E402
from tests.training.small_run import arrays, linear, metrics, numbered  # noqa: E402

pytestmark = pytest.mark.tensorflow
NUMBERS = 3, 1, 4  # Of the batches that are compared with Keras' fit.


def train(directory, **options):
    """Trains a small BERT; returns the losses of each of 4 steps, in two epochs, and the final weights."""
    run = small_run.trainer(directory, **options)
    run.fit(small_run.data(), steps=4, log_every=1)
    losses = [[line[name] for name in ("mlm_loss", "nsp_loss", "gradient_norm")] for line in metrics(directory)]
    return losses, small_run.weights(run)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One replica without micro-batches, eagerly."""
    with eagerly():
        losses, weights = train(tmp_path_factory.mktemp("alone"))
    assert min(norm for *_, norm in losses) > 1.0, "clipping must be active"
    return losses, weights


@pytest.mark.parametrize("way", [pytest.param("XLA", marks=pytest.mark.slow), "two replicas"])
def test_how_steps_are_computed_changes_nothing(alone, tmp_path, mirrored, way):
    options = {"jit_compile": True} if way == "XLA" else {"strategy": mirrored, "micro_batches": 2}
    losses, weights = train(tmp_path, **options)
    np.testing.assert_allclose(losses, alone[0], rtol=1e-5)
    small_run.assert_same_weights(weights, alone[1])


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_two_replicas_change_nothing_in_float16(mirrored, tmp_path):
    options = {"dtype": "mixed_float16", "kind": "lamb", "layer_decay": 0.8}
    expected, _ = train(tmp_path / "one", **options)
    losses, _ = train(tmp_path / "two", strategy=mirrored, **options)
    np.testing.assert_allclose(losses, expected, rtol=1e-2)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_16_bits_train_like_float32(alone, tmp_path, dtype):
    losses, _ = train(tmp_path, dtype=dtype)
    np.testing.assert_allclose(np.array(losses)[:, :2], np.array(alone[0])[:, :2], rtol=0.05)


@pytest.mark.usefixtures("eager")
def test_class_weights_on_two_replicas(mirrored, tmp_path):
    """The loss of a step is the weighted mean over its rows, on any number of replicas."""
    rng, weights = np.random.default_rng(1), np.array([0.25, 1.0, 4.0])
    inputs, labels = {"x": rng.normal(size=(2, 4, 3)).astype("float32")}, np.array([[0, 0, 2, 1], [1, 1, 0, 0]])
    batches = Stream(tf.data.Dataset.from_tensor_slices((inputs, labels)))
    losses, options = [], {"classes": 3, "loss": classification_loss(weights.tolist())}
    for name, strategy, parts in (("one", None, 1), ("two", mirrored, 2)):
        run = linear(tmp_path / name, strategy=strategy, micro_batches=parts, **options)
        kernel, bias = run.model.get_weights()
        run.fit(batches, steps=2, log_every=1)
        losses.append([line["loss"] for line in metrics(tmp_path / name)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
    logits = inputs["x"][0] @ kernel + bias
    each = np.log(np.exp(logits).sum(-1)) - logits[np.arange(4), labels[0]]
    assert losses[0][0] == pytest.approx(np.average(each, weights=weights[labels[0]]))


@pytest.mark.usefixtures("eager")
def test_replicas_and_micro_batches_draw_different_masks(mirrored):
    """The gradient of a linear layer after dropout counts how often each of 256 inputs was kept in 4 rows."""

    def model():
        x = keras.Input((256,))
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        return keras.Model(x, {"sum": dense(keras_bert.layers.Dropout(0.5)(x))})

    def trainer(seed):
        # Without moments, and with an epsilon that dominates the second one.
        options = {"beta_1": 0.0, "beta_2": 0.0, "epsilon": 1e6, "weight_decay": 0.0, "bias_correction": False}
        loss = Loss("sum", lambda targets, outputs: -outputs["sum"][:, 0])
        return Trainer(
            model, lambda _: keras_bert.AdamW(1e5, **options), loss, strategy=mirrored, micro_batches=2, seed=seed
        )

    def fit(run, steps=1):
        before = run.model.get_weights()[0]
        run.fit(tf.data.Dataset.from_tensors((tf.ones([4, 256]), tf.zeros([4]))), epochs=steps)
        return np.round((run.model.get_weights()[0] - before)[:, 0] * 10 * 4 / 2).astype(int)

    run = trainer(seed=0)
    once = fit(run)
    # Each row is kept with probability 1/2: binomial. With the same mask for all, only 0 and 4 would occur.
    np.testing.assert_allclose(np.bincount(once, minlength=5) / 256, np.array([1, 4, 6, 4, 1]) / 16, atol=0.1)
    assert (fit(run, steps=2) - once != once).any()
    assert (fit(trainer(seed=1)) != once).any()


@pytest.mark.parametrize(
    ("dtype", "kind", "micro_batches"),
    [(None, "adamw", 1), pytest.param("mixed_bfloat16", "lamb", 2, marks=pytest.mark.slow)],
)
def test_frozen_weights_stay_equal(config, batch, dtype, kind, micro_batches):
    """Of a classifier with LoRA adapters; the optimizer has moments of what is trained only."""
    inputs = {name: tf.RaggedTensor.from_tensor(ids) for name, ids in batch.items()}
    before = []

    def build():
        model = keras_bert.build_classifier(keras_bert.build_encoder(config, dtype=dtype, remat=micro_batches > 1), 3)
        keras_bert.enable_lora(model, 2)
        before.extend(weight.numpy() for weight in model.weights)
        return model

    def optimizer(model):
        return keras_bert.create_optimizer(model, 1e-2, 4, kind=kind)

    run = Trainer(build, optimizer, classification_loss(), micro_batches=micro_batches)
    run.fit(keras_bert.Batches(inputs, np.array([0, 2, 1]), batch_size=2), epochs=2)
    trained = {id(weight) for weight in run.model.trainable_weights}
    for weight, start in zip(run.model.weights, before, strict=True):
        assert np.array_equal(weight.numpy(), start) == (id(weight) not in trained), weight.path
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
    options = {"kernel_regularizer": keras.regularizers.L2(0.3), "kernel_constraint": keras.constraints.MaxNorm(0.4)}
    y = keras.layers.Dense(4, name="first", **options)(x)
    for layer in layers:
        y = layer(y)
    return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(y)})


def trained(
    layers, strategy=None, micro_batches=1, directory=None, weights=None, optimizer=lambda: keras_bert.AdamW(0.1)
):
    """A trainer of `extras` after the batches of `NUMBERS`."""
    run = Trainer(
        lambda: extras(*layers),
        lambda model: optimizer(),
        regression_loss(),
        strategy=strategy,
        micro_batches=micro_batches,
        directory=directory,
    )
    if weights is not None:
        run.model.set_weights(weights)
    run.fit(numbered(*NUMBERS), log_every=1)
    return run


def fit_in_keras(model, optimizer):
    """Returns the losses of the same batches."""
    model.compile(optimizer, "mse", run_eagerly=True)
    inputs, targets = arrays(*NUMBERS)
    batches = zip(inputs["x"], targets[..., None], strict=True)
    return [float(model.train_on_batch({"x": x}, {"logits": y})) for x, y in batches]


def assert_equal_weights(found, expected):
    for weight, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(weight.numpy(), other.numpy(), rtol=1e-4, atol=1e-6, err_msg=weight.path)


def test_one_replica_trains_like_keras_fit(tmp_path):
    def layers():
        return Counts(), keras.layers.BatchNormalization(), keras.layers.Dense(4, "tanh", activity_regularizer="l2")

    def optimizer():
        return keras_bert.AdamW(0.1, weight_decay=0.1, global_clipnorm=0.5)

    model = extras(*layers())
    run = trained(layers(), directory=tmp_path, weights=model.get_weights(), optimizer=optimizer)
    losses = fit_in_keras(model, optimizer())
    lines = metrics(tmp_path)
    np.testing.assert_allclose([line["loss"] + line["regularization"] for line in lines], losses, rtol=1e-5)
    assert min(line["regularization"] for line in lines) > 0.01
    assert_equal_weights(run.model, model)
    assert float(run.model.get_layer("first").kernel.numpy().max()) < 0.41


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("kind", "clip"), [("AdamW", {"clipnorm": 0.5}), ("LAMB", {"clipvalue": 0.1})])
def test_two_replicas_train_like_keras_fit(mirrored, kind, clip):
    """Regularizers, constraints, clipping; batches of two rows in four parts, so that one replica gets only filler."""

    def optimizer():
        return getattr(keras_bert, kind)(0.1, weight_decay=0.1, **clip)

    model = extras()
    run = trained([], mirrored, 2, weights=model.get_weights(), optimizer=optimizer)
    fit_in_keras(model, optimizer())
    assert_equal_weights(run.model, model)


def test_the_step_compiles_for_a_tpu():
    """XLA compiles it with static shapes, and it contains no strings or Python calls."""
    model, optimizer = extras(keras_bert.layers.Dropout(0.1)), keras_bert.AdamW(0.1, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    step = tf.function(TrainStep(model, optimizer, [regression_loss()]), jit_compile=True)
    batch = {"x": tf.ones([2, 3])}, tf.ones(2), tf.ones(2), tf.constant([2.0]), tf.constant(0), tf.constant(0.0)
    assert step.experimental_get_compiler_ir(*batch)(stage="hlo").startswith("HloModule")
    graph = step.get_concrete_function(*batch).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert len(nodes) > 100
    assert not [node.name for node in nodes if "Py" in node.op or "Print" in node.op]
    assert not [node.name for node in nodes for value in node.attr.values() if value.type == tf.string.as_datatype_enum]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("make_layer", "replicas", "micro_batches", "message"),
    [
        (Counts, 1, 2, "calls `add_loss` or has an `activity_regularizer`.* Received: replicas=1, micro_batches=2"),
        (keras.layers.BatchNormalization, 2, 1, "which would depend on .* Received: replicas=2, micro_batches=1"),
        (Noise, 1, 1, "updates a variable that is neither a .* Received: the state of a generator"),
        (
            lambda: keras.layers.SpectralNormalization(keras.layers.Dense(4, name="inner"), name="outer"),
            1,
            1,
            "updates a variable that is neither a .* train with model.fit. Received: .*inner/kernel",
        ),
    ],
)
def test_unsupported_layers(mirrored, make_layer, replicas, micro_batches, message):
    strategy = mirrored if replicas == 2 else tf.distribute.get_strategy()
    with pytest.raises(ValueError, match=message), strategy.scope():
        trained([make_layer()], strategy, micro_batches)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda: keras.optimizers.SGD(0.1), "`optimizer_fn` must return keras_bert's `AdamW` .* Received: keras.*SGD"),
        (lambda: keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(0.1)), "without a wrapper; .*LossScaleOptimizer"),
        (lambda: keras_bert.AdamW(0.1, use_ema=True), "`use_ema` of the optimizer is not supported by `Trainer`. Tr"),
        (lambda: keras_bert.LAMB(0.1, gradient_accumulation_steps=2), "and set `micro_batches`. Received:"),
        (lambda: keras_bert.AdamW(0.1, loss_scale_factor=8.0), "scaled automatically. Received: loss_scale_factor=8.0"),
    ],
)
def test_unsupported_optimizers(optimizer, message):
    with pytest.raises(ValueError, match=message):
        Trainer(extras, lambda model: optimizer(), regression_loss())
