"""The training loop: equal for any number of replicas and micro-batches, and equal to Keras' fit."""

import json
import math
from unittest import mock

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training.evaluation import Evaluator  # noqa: E402
from keras_bert.training.input_pipeline import Phases, Stream, replica_dataset  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss, regression_loss, token_loss  # noqa: E402
from keras_bert.training.step import TrainStep  # noqa: E402
from keras_bert.training.trainer import Trainer  # noqa: E402
from tests.pipelines import programs  # noqa: E402
from tests.training import small_run, small_towers  # noqa: E402
from tests.training.small_run import arrays, linear, metrics, numbered  # noqa: E402

pytestmark = pytest.mark.tensorflow


# A small BERT.


def train(directory, **options):
    """Returns the losses of each step of 2 epochs and the final weights."""
    run = small_run.trainer(directory, **options)
    run.fit(small_run.data(), epochs=2, log_every=1)
    losses = [[line[name] for name in ("mlm_loss", "nsp_loss", "gradient_norm")] for line in metrics(directory)]
    return losses, small_run.weights(run)


def assert_same(found, expected):
    """Compares losses and weights to 1e-5; Adam amplifies key biases, whose gradients are only rounding errors."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for path, weight in expected[1].items():
        bound = np.full(weight.shape, 1e-5 * np.abs(weight).max())
        if path.endswith("query_key_value/bias"):
            third = weight.size // 3
            bound[third : 2 * third] = 1e-2
        assert (np.abs(found[1][path] - weight) <= bound).all(), path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One replica without micro-batches."""
    losses, weights = train(tmp_path_factory.mktemp("alone"))
    assert min(norm for *_, norm in losses) > 1.0, "clipping must be active"
    return losses, weights


@pytest.mark.slow
def test_xla_changes_nothing(alone, tmp_path):
    assert_same(train(tmp_path, jit_compile=True), alone)


def test_two_replicas_change_nothing(alone, tmp_path, mirrored):
    assert_same(train(tmp_path, strategy=mirrored, micro_batches=2), alone)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_two_replicas_change_nothing_in_float16(mirrored, tmp_path):
    options = {"dtype": "mixed_float16", "kind": "lamb", "layer_decay": 0.8}
    expected, _ = train(tmp_path / "one", **options)
    losses, _ = train(tmp_path / "two", strategy=mirrored, **options)
    np.testing.assert_allclose(losses, expected, rtol=1e-2)


@pytest.mark.slow
def test_two_workers_change_nothing(two_addresses, tmp_path):
    """A BERT, and towers whose loss has the rows of both workers as negatives."""
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}})
        workers.append(programs.start("tests.training.small_worker", tmp_path, index, TF_CONFIG=config))
    run = small_run.trainer(tmp_path / "alone")
    small_run.fit(run)
    towers = small_towers.train(tmp_path / "towers-alone")
    for index, worker in enumerate(workers):
        programs.finish(worker)
        assert_same(([], dict(np.load(tmp_path / f"bert-{index}.npz"))), ([], small_run.weights(run)))
        losses = small_towers.losses(tmp_path / "towers")
        small_towers.assert_same((losses, dict(np.load(tmp_path / f"towers-{index}.npz")), towers[2]), towers)
    for found, line in zip(metrics(tmp_path / "bert"), metrics(tmp_path / "alone"), strict=True):
        assert found == pytest.approx(line, rel=1e-4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_16_bits_train_like_float32(alone, tmp_path, dtype):
    losses, _ = train(tmp_path, dtype=dtype)
    np.testing.assert_allclose(np.array(losses)[:, :2], np.array(alone[0])[:, :2], rtol=0.05)


# A linear model.


@pytest.mark.parametrize("length", [{"steps": 0}, {"steps": -1}, {"epochs": 0}])
def test_a_run_has_at_least_one_step(length):
    with pytest.raises(ValueError, match="`steps` and `epochs` must be at least 1. Received: steps="):
        linear().fit(numbered(1), **length)


def test_one_trace_for_all_epochs_and_lengths(mirrored):
    """Tracing calls the loss; a phase with another source is traced again, with its static shapes."""
    traced = []

    def values(targets, outputs):
        traced.append(targets.shape.as_list())
        return tf.reduce_sum(outputs["logits"], [1, 2])

    def batches(batch_size):
        rows = tf.RaggedTensor.from_row_lengths(np.ones([28, 3], "float32"), [1, 2, 3, 4, 5, 6, 7])
        return keras_bert.Batches({"x": rows}, np.zeros(7), batch_size, boundaries=[3, 7])

    def model():
        x = keras.Input((None, 3), name="x")
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(1)(x)})

    def run(strategy=None):
        return Trainer(model, lambda model: keras_bert.AdamW(0.1), Loss("x", values), strategy=strategy)

    two = run(mirrored)
    two.fit(batches(2), steps=1)
    first = list(traced)
    two.fit(batches(2), epochs=3)
    assert traced == first
    traced.clear()
    run().fit(Phases([(batches(4), 3), (batches(2), 2)]))
    assert [shape for index, shape in enumerate(traced) if shape not in traced[:index]] == [[4], [2]]


def test_predict_and_evaluate_keep_every_row_in_order(mirrored):
    """7 rows: only inputs, of unknown number, with targets, with weights."""
    x, y = np.random.default_rng(0).normal(size=(7, 3)).astype("float32"), np.arange(7, dtype="float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    ragged = {"x": tf.RaggedTensor.from_row_lengths(x.reshape(-1), [3] * 7)}
    run = linear(strategy=mirrored, metrics=lambda y, out: {"error": np.abs(out["logits"][:, 0] - y).mean()})
    expected = x @ run.model.get_weights()[0] + run.model.get_weights()[1]
    for dataset in (inputs.filter(lambda batch: True), keras_bert.Batches(ragged)):
        np.testing.assert_allclose(run.predict(dataset)["logits"], expected, atol=1e-5)
    errors = np.abs(expected[:, 0] - y)
    weighted = tf.data.Dataset.from_tensor_slices(({"x": x}, y, y[:, None])).batch(3)
    expected = {"loss": np.average(errors**2, weights=y), "number": np.average(y, weights=y), "error": errors.mean()}
    assert run.evaluate(weighted) == pytest.approx(expected, rel=1e-5)


def test_unsupported_batches():
    run, x = linear(), np.ones((7, 3), "float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    with pytest.raises(ValueError, match="the weights of a batch must have one value per row"):
        run.evaluate(tf.data.Dataset.from_tensors(({"x": x}, x[:, 0], x[:, :2])))
    with pytest.raises(ValueError, match="`targets` are required by the loss. Received: batches without targets"):
        run.fit(inputs)
    with pytest.raises(ValueError, match=r"is infinite. Expected `Stream\(dataset, steps\)`. Received: <_Repeat"):
        run.predict(inputs.repeat())
    message = "must be a `Batches`, a `Stream`, `Phases`, another `BatchSource` or a `tf.data.Dataset`. Received: dict"
    with pytest.raises(ValueError, match=message):
        run.predict({"x": x})


def test_padding_of_ragged_targets_does_not_count(mirrored):
    """Rows of 1, 4, 2, 3 and 5 tokens in batches of 2 of different lengths."""
    rng = np.random.default_rng(0)
    lengths, x = [1, 4, 2, 3, 5], rng.normal(size=(15, 3)).astype("float32")
    classes = rng.integers(0, 3, 15).astype("int32")
    inputs, targets = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (x, classes))
    batches = keras_bert.Batches({"x": inputs}, targets, batch_size=2, boundaries=[2, 4, 5])
    found = []

    def model():
        pieces = keras.Input((None, 3), name="x")
        return keras.Model({"x": pieces}, {"logits": keras.layers.Dense(3)(pieces)})

    def metric(targets, outputs):
        found.append((targets, outputs["logits"]))
        return {}

    run = Trainer(model, lambda model: keras_bert.AdamW(0.1), token_loss(), metric, strategy=mirrored)
    logits = x @ run.model.get_weights()[0]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(15), classes]
    assert run.evaluate(batches)["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    padded = targets.to_tensor(-1).numpy()
    np.testing.assert_array_equal(found[0][0], padded)
    outputs = found[0][1]
    np.testing.assert_allclose(outputs[padded >= 0], logits, atol=1e-5)
    assert outputs.shape == (5, 5, 3)
    assert (outputs[[0, 2], 4:] == 0).all()  # Shorter batches are padded with zeros.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    assert float(loss(padded, outputs)) == pytest.approx(losses.mean(), rel=1e-5)


def test_each_row_goes_to_one_replica(mirrored):
    numbers = tf.data.Dataset.range(5).map(lambda x: (x, x)).batch(5)
    loss = Loss("count", None, None)
    dataset = replica_dataset(mirrored, Stream(numbers).dataset, [loss], micro_batches=2)
    ((inputs, _, weights, totals),) = dataset
    found = [part.numpy().tolist() for part in mirrored.experimental_local_results(inputs)]
    real = [part.numpy().tolist() for part in mirrored.experimental_local_results(weights)]
    assert found == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert real == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert [part.numpy().tolist() for part in mirrored.experimental_local_results(totals)] == [[5], [5]]


def test_losses_as_metrics(mirrored):
    """Batch by batch, with rows of weight 0, and with a metric over all rows; `finish` is applied to the mean."""
    rng = np.random.default_rng(7)
    inputs, labels = {"x": rng.normal(size=(7, 3)).astype("float32")}, np.array([0, 1, 1, 2, 0, 1, 2], "int32")
    weights = np.array([1, 0, 0.5, 1, 0, 2, 0], "float32")
    batches = Stream(tf.data.Dataset.from_tensor_slices((inputs, labels, weights)).batch(3))
    means = [
        Loss("right", lambda y, out: tf.cast(tf.argmax(out["logits"], -1, tf.int32) == y, tf.float32)),
        Loss("perplexity", classification_loss().values, finish=math.exp),
        Loss("of_class_1", lambda y, out: out["logits"][:, 0], lambda y: y == 1),
        Loss("of_none", lambda y, out: out["logits"][:, 0], lambda y: y == 9, math.exp),
        Loss("sum_of_class_1", lambda y, out: out["logits"], lambda y: y == 1),  # As many classes as rows.
    ]
    all_metrics = [means[0], lambda y, out: {"rows": len(y)}, *means[1:]]
    run = linear(classes=3, loss=classification_loss(), strategy=mirrored, metrics=all_metrics)
    results = run.evaluate(batches)
    logits = run.model.predict(inputs, verbose=0)["logits"]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(7), labels]
    one = weights * (labels == 1)
    assert results.pop("rows") == 7
    assert math.isnan(results.pop("of_none"))
    assert results == pytest.approx(
        {
            "loss": (losses * weights).sum() / 4.5,
            "right": ((logits.argmax(1) == labels) * weights).sum() / 4.5,
            "perplexity": np.exp((losses * weights).sum() / 4.5),
            "of_class_1": (logits[:, 0] * one).sum() / one.sum(),
            "sum_of_class_1": (logits.sum(1) * one).sum() / one.sum(),
        },
        rel=1e-5,
    )


def test_losses_as_the_only_metrics_keep_no_outputs(monkeypatch):
    """The logits of all held-out records would not fit into memory."""
    run = linear(metrics=Loss("mean", lambda y, out: out["logits"][:, 0]))
    outputs, kept = Evaluator.outputs, []
    monkeypatch.setattr(Evaluator, "outputs", lambda *a, **k: kept.append(outputs(*a, **k)) or kept[-1])
    results = run.evaluate(numbered(1, 2))
    assert set(results) == {"loss", "number", "mean"}
    assert kept == [(None, None, results)]


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
def test_best_weights_are_restored(tmp_path):
    scores, kernels = [0.1, 0.5, 0.4, 0.3, 0.9, 0.9], []

    def metric(targets, outputs):
        kernels.append(run.model.get_weights()[0])
        return {"score": scores[len(kernels) - 1]}

    for _ in range(2):  # In the second iteration, the run is already finished.
        run, held_out = linear(tmp_path, metrics=metric), numbered(1)
        with mock.patch.object(held_out, "dataset", wraps=held_out.dataset) as made:
            result = run.fit(numbered(*range(6)), evaluation=held_out, evaluate_every=1, best="score", patience=2)
        assert (result["score"], result["step"], len(kernels)) == (0.5, 2, 4)
        assert made.call_count <= 1  # One input pipeline for all evaluations.
        np.testing.assert_array_equal(run.model.get_weights()[0], kernels[1])


def test_bad_arguments_of_fit():
    batches = numbered(1, 2)
    for options, message in (
        ({"best": "loss"}, "`best` needs `evaluation`, and a `directory` to keep the weights. Received: best='loss'"),
        ({"patience": 2}, "`patience` needs `best`, the metric to monitor. Received: patience=2"),
    ):
        with pytest.raises(ValueError, match=message):
            linear().fit(batches, evaluation=batches, **options)


@pytest.mark.usefixtures("eager")
def test_a_loss_that_is_not_finite_names_the_step():
    loss = Loss("loss", lambda y, out: tf.where(y == 4, float("nan"), out["logits"][:, 0]))
    message = "the loss is not finite at step 2: .*Usual causes: a learning rate that is too high"
    with pytest.raises(FloatingPointError, match=message):
        linear(loss=loss).fit(numbered(3, 1, 4, 1))


@pytest.mark.usefixtures("eager")
def test_float16_skips_steps_that_overflow(tmp_path):
    """The gradient is 16 times the scale, which starts at 2 ** 15: above 65504 until the scale is 2 ** 11."""
    run = linear(tmp_path, dtype="mixed_float16", loss=Loss("loss", lambda y, out: out["logits"][:, 0]))
    run.model.set_weights([np.ones([3, 1]), np.zeros(1)])
    data = tf.data.Dataset.from_tensors(({"x": np.full([1, 3], 16.0, "float32")}, np.zeros(1))).repeat(7)
    run.fit(data, log_every=1)
    lines = metrics(tmp_path)
    assert [line["skipped"] for line in lines] == [1, 1, 1, 1, 0, 0, 0]
    assert [line["loss"] for line in lines[:6]] == [48] * 6  # The first step taken has a learning rate of 0.
    assert lines[6]["loss"] < 48
    assert int(run.optimizer.iterations) == 3
    assert lines[6]["gradient_norm"] == pytest.approx((3 * 16**2 + 1) ** 0.5)


@pytest.mark.usefixtures("eager")
def test_out_of_memory_error_message(monkeypatch):
    """With an error like that of TensorFlow's allocator."""

    def full(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[16,12,512,512]")

    inputs = {"x": tf.RaggedTensor.from_row_lengths(np.ones(12, "float32"), [3] * 4)}
    data = keras_bert.Batches(inputs, np.zeros(4), batch_size=4)
    run = linear(loss=Loss("full", full))
    message = "^out of memory at a batch of 4 sequences of length 3. Lower the batch size .*remat=True$"
    for call in (run.fit, run.evaluate):
        with pytest.raises(MemoryError, match=message):
            call(data)
    with pytest.raises(MemoryError, match=r"^out of memory: OOM when allocating .*512\]. Lower the batch size"):
        run.fit(numbered(1, 2))
    monkeypatch.setattr(Evaluator, "outputs", full)
    with pytest.raises(MemoryError, match=message):
        run.predict(data)


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
    np.testing.assert_array_equal(fit(run), once)
    assert (fit(run, steps=2) - once != once).any()
    assert (fit(trainer(seed=1)) != once).any()


# Comparison with Keras' fit.

NUMBERS = 3, 1, 4, 1, 5, 9


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
    """A trainer of `extras` after 6 batches."""
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
        (
            lambda: keras_bert.LAMB(0.1, gradient_accumulation_steps=2),
            "and set `micro_batches`. Received: gradient_acc",
        ),
        (lambda: keras_bert.AdamW(0.1, loss_scale_factor=8.0), "scaled automatically. Received: loss_scale_factor=8.0"),
    ],
)
def test_unsupported_optimizers(optimizer, message):
    with pytest.raises(ValueError, match=message):
        Trainer(extras, lambda model: optimizer(), regression_loss())
