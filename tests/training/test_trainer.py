"""The training loop: the same on any number of replicas, resumable to the step."""

import json
import math
import os
import shutil
import signal

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training import run_state, trainer  # noqa: E402
from keras_bert.training.evaluation import Evaluator  # noqa: E402
from keras_bert.training.input_pipeline import Phases, Stream  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss, regression_loss, token_loss  # noqa: E402
from keras_bert.training.step import TrainStep  # noqa: E402
from keras_bert.training.trainer import TERMINATED, Trainer  # noqa: E402
from tests.pipelines import programs  # noqa: E402
from tests.training import small_run  # noqa: E402

pytestmark = pytest.mark.tensorflow


def metrics(directory, kind=None):
    """metrics.jsonl without what depends on the speed."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if kind in (None, line["kind"])]
    return [{name: value for name, value in line.items() if name not in ("time", "kind")} for line in lines]


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


# A small BERT.


def train(directory, **options):
    """The losses of 2 epochs, step by step, and the weights after them."""
    run = small_run.trainer(directory, **options)
    run.fit(small_run.data(), epochs=2, log_every=1)
    losses = [[line[name] for name in ("mlm_loss", "nsp_loss", "gradient_norm")] for line in metrics(directory)]
    return losses, small_run.weights(run)


def assert_same(found, expected):
    """Losses and weights to 1e-5; Adam blows up the key biases, whose gradient is rounding alone."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for path, weight in expected[1].items():
        bound = np.full(weight.shape, 1e-5 * np.abs(weight).max())
        if path.endswith("query_key_value/bias"):
            third = weight.size // 3
            bound[third : 2 * third] = 1e-2
        assert (np.abs(found[1][path] - weight) <= bound).all(), path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One replica, everything at once."""
    losses, weights = train(tmp_path_factory.mktemp("alone"))
    assert min(norm for *_, norm in losses) > 1.0, "clipping must be active"
    return losses, weights


@pytest.mark.parametrize("options", [{"micro_batches": 4}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow)])
def test_micro_batches_and_xla_change_nothing(alone, tmp_path, options):
    assert_same(train(tmp_path, **options), alone)


def test_two_replicas_change_nothing(alone, tmp_path, mirrored):
    assert_same(train(tmp_path, strategy=mirrored, micro_batches=2), alone)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"dtype": "mixed_float16"}, {"kind": "lamb", "layer_decay": 0.8}])
def test_two_replicas_change_nothing_for_other_optimizers(mirrored, tmp_path, options):
    expected, _ = train(tmp_path / "one", **options)
    losses, _ = train(tmp_path / "two", strategy=mirrored, **options)
    np.testing.assert_allclose(losses, expected, rtol=1e-2 if "dtype" in options else 1e-4)


@pytest.mark.slow
def test_two_workers_change_nothing(two_addresses, tmp_path):
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}})
        arguments = tmp_path / "run", tmp_path / f"{index}.npz"
        workers.append(programs.start("tests.training.small_run", *arguments, TF_CONFIG=config))
    run = small_run.trainer(tmp_path / "alone")
    small_run.fit(run)
    for index, worker in enumerate(workers):
        programs.finish(worker)
        assert_same(([], dict(np.load(tmp_path / f"{index}.npz"))), ([], small_run.weights(run)))
    for found, line in zip(metrics(tmp_path / "run"), metrics(tmp_path / "alone"), strict=True):
        assert found == pytest.approx(line, rel=1e-4)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_narrow_floats_train_like_float32(alone, tmp_path, dtype):
    losses, _ = train(tmp_path, dtype=dtype)
    np.testing.assert_allclose(np.array(losses)[:, :2], np.array(alone[0])[:, :2], rtol=0.05)


def test_the_step_compiles_for_a_tpu():
    """It compiles under XLA with static shapes, and has no string and no call of Python in it."""
    run = small_run.trainer(dropout=0.1)
    ((inputs, targets, weights), *_) = small_run.data().dataset()
    step = tf.function(TrainStep(run.model, run.optimizer, run.losses), jit_compile=True)
    batch = inputs, targets, weights, tf.constant([20.0, 8.0]), tf.constant(0), tf.constant(0.0)
    assert np.isfinite(step(*batch)).all()
    graph = step.get_concrete_function(*batch).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert len(nodes) > 100
    assert not [node.name for node in nodes if "Py" in node.op or "Print" in node.op]
    assert not [node.name for node in nodes for value in node.attr.values() if value.type == tf.string.as_datatype_enum]


# A linear model.


def numbered(*numbers):
    """Batches of two rows whose targets are one number."""
    return Stream(tf.data.Dataset.from_tensor_slices(numbered_arrays(*numbers)))


def numbered_arrays(*numbers):
    rng = np.random.default_rng(numbers[0])
    inputs = {"x": rng.normal(size=(len(numbers), 2, 3)).astype("float32")}
    return inputs, np.repeat(np.array(numbers, "float32")[:, None], 2, 1)


def linear(directory=None, classes=1, dtype=None, learning_rate=0.1, **options):
    """A linear model. The logs have the number of each batch beside its loss; the rate rises for 3 of 8 steps."""
    keras.utils.set_random_seed(3)

    def model():
        x = keras.Input((3,), name="x")
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(classes, name="linear", dtype=dtype)(x)})

    return Trainer(
        model,
        lambda model: keras_bert.create_optimizer(model, learning_rate, 8, 3),
        options.pop("loss", [regression_loss(), Loss("number", lambda targets, outputs: targets)]),
        directory=directory,
        **options,
    )


def one_run(directory, steps=4, **options):
    run = linear(directory, **options)
    run.fit(numbered(3, 1, 4), steps=steps, save_every=2)
    return run


def assert_equal_state(run, expected):
    """Weights and moments."""
    for variables in (lambda run: run.model.weights, lambda run: run.optimizer.variables):
        for variable, other in zip(variables(run), variables(expected), strict=True):
            np.testing.assert_array_equal(variable.numpy(), other.numpy(), err_msg=variable.path)


def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path):
    """Dropout on; cut in the middle of an epoch by SIGTERM, then by an error two steps after the last snapshot."""
    rng = np.random.default_rng(0)
    rows = tf.RaggedTensor.from_row_lengths(rng.normal(size=22 * 8).astype("float32"), [8] * 22)
    batches = keras_bert.Batches({"x": rows}, rng.normal(size=22).astype("float32"), batch_size=8)

    def model():
        x = keras.Input((8,), name="x")
        dropped = keras_bert.layers.Dropout(0.5)(x)
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(dropped)})

    def fit(directory, interrupt=None, at=None):
        keras.utils.set_random_seed(3)
        calls = []

        def metric(targets, outputs):
            calls.append(1)
            if len(calls) == at:
                interrupt()
            return {}

        run = Trainer(
            model,
            lambda model: keras_bert.create_optimizer(model, 0.1, 9),
            regression_loss(),
            metric,
            directory,
            steps_per_call=1,
        )
        run.fit(batches, epochs=3, evaluation=batches, evaluate_every=2, save_every=4, log_every=3)
        return run

    def fail():
        raise KeyboardInterrupt

    whole = fit(tmp_path / "whole")
    with pytest.raises(SystemExit) as error:
        fit(tmp_path / "cut", lambda: os.kill(os.getpid(), signal.SIGTERM), at=1)
    assert (error.value.code, steps_of(tmp_path / "cut" / "snapshots")) == (TERMINATED, [3])
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "cut", fail, at=2)
    assert steps_of(tmp_path / "cut" / "snapshots") == [3, 4]
    assert_equal_state(fit(tmp_path / "cut"), whole)
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


def test_a_damaged_snapshot_falls_back_to_the_one_before(tmp_path, caplog):
    whole = one_run(tmp_path)
    data = tmp_path / "snapshots" / "step-000000004" / "variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert_equal_state(one_run(tmp_path), whole)
    assert "step-000000004 is damaged, the one before is taken" in caplog.text
    for path in (tmp_path / "snapshots").glob("*/state.json"):
        path.write_text("{")
    with pytest.raises(ValueError, match="has no snapshot that can be read. Remove it to begin anew"):
        one_run(tmp_path)


def test_snapshots_of_a_finished_run(tmp_path, monkeypatch):
    """The last two are kept; the same run restores the last, another one refuses it."""
    whole = one_run(tmp_path, steps=5)
    assert steps_of(tmp_path / "snapshots") == [4, 5]
    for options, difference in (
        ({"learning_rate": 1e-3}, r"`optimizer.learning_rate.config.learning_rate` was 0.1, is 0.001"),
        ({"seed": 4}, "`seed` was 0, is 4"),
        ({"settings": {"task": "mrpc"}}, "`task` is there only now: 'mrpc'"),
        ({"steps": 6}, "`total_steps` was 5, is 6"),
    ):
        message = f"has a run of other settings: {difference}. Expected the same ones to resume it, or another"
        with pytest.raises(ValueError, match=message):
            one_run(tmp_path, **{"steps": 5, **options})
    monkeypatch.setattr(Stream, "segment", None)
    with pytest.raises(TypeError):
        one_run(tmp_path / "new", steps=5)
    monkeypatch.setattr(Stream, "segment", lambda self, step: None)  # No batch is read.
    assert_equal_state(one_run(tmp_path, steps=5), whole)


def test_workers_that_see_different_snapshots_do_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr(run_state, "sum_over_replicas", lambda strategy, number: number + 4.0)
    with pytest.raises(ValueError, match="the workers found different snapshots, this one that of step 0. Expected"):
        one_run(tmp_path)


def test_a_run_is_stopped_by_sigterm_after_a_call(tmp_path):
    """The signal comes at step 4; calls have 3 steps."""
    saved = []
    run = linear(tmp_path, steps_per_call=3, metrics=lambda y, out: os.kill(os.getpid(), signal.SIGTERM) or {})
    before = signal.getsignal(signal.SIGTERM)
    options = {"evaluation": numbered(1), "evaluate_every": 4, "after_save": lambda: saved.append(1)}
    with pytest.raises(SystemExit) as error:
        run.fit(numbered(*range(12)), **options)
    assert (error.value.code, saved, steps_of(tmp_path / "snapshots")) == (TERMINATED, [1], [7])
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_that_is_cut_behind_each_step(tmp_path):
    """At the border of phases and of epochs too."""
    phases = Phases([(numbered(0, 1, 2), 4), (numbered(10, 11), 1), (numbered(0, 1, 2), 3)])
    whole = linear(tmp_path / "whole")
    whole.fit(phases, log_every=1, save_every=1)

    def cut():
        raise KeyboardInterrupt

    for step in range(1, 9):
        run = linear(tmp_path / "cut")
        with pytest.raises(KeyboardInterrupt):
            run.fit(phases, log_every=1, save_every=1, after_save=cut)
        assert steps_of(tmp_path / "cut" / "snapshots")[-1] == step
    run = linear(tmp_path / "cut")
    run.fit(phases, log_every=1, save_every=1)
    assert [line["number"] for line in metrics(tmp_path / "cut")] == [0, 1, 2, 0, 10, 0, 1, 2]
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert_equal_state(run, whole)


def test_a_stream_reads_each_batch_once(tmp_path):
    """3 epochs of 4 batches, in any order that a seed gives; a resumed run skips those that it has seen."""
    read = []

    def count(y):
        read.append(float(y[0]))
        return y

    def batches():
        numbers = tf.data.Dataset.range(4).shuffle(4, seed=1)
        dataset = numbers.map(lambda x: (tf.ones([2, 3]), tf.fill([2], tf.cast(x, tf.float32))))
        return Stream(dataset.map(lambda x, y: ({"x": x}, tf.py_function(count, [y], tf.float32))), steps=4)

    def fit(directory, **options):
        losses = Loss("number", lambda targets, outputs: tf.ensure_shape(targets, [2]) + 0 * outputs["logits"][:, 0])
        linear(directory, loss=losses).fit(batches(), epochs=3, log_every=1, save_every=6, **options)

    def cut():
        raise KeyboardInterrupt

    fit(tmp_path / "whole")
    seen = [line["number"] for line in metrics(tmp_path / "whole")]
    assert [sorted(seen[start : start + 4]) for start in (0, 4, 8)] == [[0, 1, 2, 3]] * 3
    assert seen[:4] != seen[4:8]
    assert len(read) <= 12 + 8  # Some are read ahead.
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "cut", after_save=cut)
    fit(tmp_path / "cut")
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


def test_streams():
    dataset = tf.data.Dataset.range(6).map(lambda x: (x, x)).batch(2)
    stream = Stream(dataset)
    assert [inputs.numpy().tolist() for inputs, *_ in stream.dataset(epoch=3, start=1)] == [[2, 3], [4, 5]]
    with pytest.raises(ValueError, match="`steps` is needed, the number of batches in an epoch"):
        Stream(dataset.filter(lambda x, y: True))
    assert Stream(dataset.repeat(), steps=3).steps == 3


def test_phases_locate_a_step():
    """3 and 2 steps an epoch, counted by hand."""
    first, second = (keras_bert.Batches(tf.ragged.constant([[1]] * rows), batch_size=1) for rows in (3, 2))
    phases = Phases([(first, 4), (second, 1), (first, 3)])
    assert phases.steps == 8

    def place(source, step):
        segment = source.segment(step)
        return segment.source, *segment.make_dataset.args, segment.steps

    assert [place(phases, step) for step in range(8)] == [
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
        (first, 1, 0, 1),  # The phase ends before the epoch.
        (second, 0, 0, 1),
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
    ]
    assert place(first, 7) == (first, 2, 1, 2)
    with pytest.raises(ValueError, match="`step` is behind the last phase. Received: step=8, steps=8"):
        phases.segment(8)


@pytest.mark.parametrize("steps_per_call", [1, 3, 10])
def test_phases_come_one_after_the_other(tmp_path, steps_per_call):
    first, second = numbered(0, 1, 2), numbered(10, 11)
    run = linear(tmp_path, steps_per_call=steps_per_call)
    run.fit(Phases([(first, 4), (second, 1), (first, 3)]), log_every=2)
    # A line has the mean of two steps: 0 and 1, 2 and 0, 10 and 0, 1 and 2.
    assert [line["number"] for line in metrics(tmp_path)] == [0.5, 1, 5, 1.5]


def test_moments_and_learning_rate_carry_over_between_phases(tmp_path):
    """The same batches in one phase and in two."""
    numbers = (3, 1, 4, 1, 5, 9, 2)
    dataset = tf.data.Dataset.from_tensor_slices(numbered_arrays(*numbers))
    whole, parts = linear(tmp_path / "whole"), linear(tmp_path / "parts")
    whole.fit(dataset, log_every=1)
    parts.fit(Phases([(Stream(dataset.take(4)), 4), (Stream(dataset.skip(4)), 3)]), log_every=1)
    lines = metrics(tmp_path / "parts")
    assert lines == metrics(tmp_path / "whole")
    assert [line["number"] for line in lines] == list(numbers)
    # Google's schedule: up to 0.1 over 3 steps, then along the line to 0 at step 8.
    rates = [0.1 * (step / 3 if step < 3 else 1 - step / 8) for step in range(7)]
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates)
    assert_equal_state(parts, whole)


def test_phases_that_are_too_short_are_refused_before_the_first_step():
    run = linear()
    before = run.model.get_weights()[0]
    with pytest.raises(ValueError, match="`step` is behind the last phase. Received: step=7, steps=5"):
        run.fit(Phases([(numbered(0, 1), 5)]), steps=8)
    np.testing.assert_array_equal(run.model.get_weights()[0], before)


def test_one_trace_for_all_epochs_and_lengths(mirrored):
    """A trace calls the loss; a phase of another source is traced again, with its static shapes."""
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

    def trainer(strategy):
        return Trainer(model, lambda model: keras_bert.AdamW(0.1), Loss("x", values), strategy=strategy)

    for strategy in (None, mirrored):
        traced.clear()
        run = trainer(strategy)
        run.fit(batches(2), steps=1)
        first = list(traced)
        run.fit(batches(2), epochs=3)
        assert traced == first
    traced.clear()
    trainer(None).fit(Phases([(batches(4), 3), (batches(2), 2)]))
    assert [shape for index, shape in enumerate(traced) if shape not in traced[:index]] == [[4], [2]]


@pytest.mark.parametrize("batch_size", [3, 7])
def test_predict_and_evaluate_keep_every_row_in_order(mirrored, batch_size):
    """7 rows as inputs alone, of unknown number, with targets, with weights."""
    x, y = np.random.default_rng(0).normal(size=(7, 3)).astype("float32"), np.arange(7, dtype="float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(batch_size)
    ragged = {"x": tf.RaggedTensor.from_row_lengths(x.reshape(-1), [3] * 7)}
    datasets = [inputs, inputs.filter(lambda batch: True), Stream(inputs), keras_bert.Batches(ragged, shuffle=False)]
    for strategy in (None, mirrored):
        run = linear(strategy=strategy, metrics=lambda y, out: {"error": np.abs(out["logits"][:, 0] - y).mean()})
        expected = x @ run.model.get_weights()[0] + run.model.get_weights()[1]
        for dataset in datasets:
            np.testing.assert_allclose(run.predict(dataset)["logits"], expected, atol=1e-5)
        squares = (expected[:, 0] - y) ** 2
        with_targets = tf.data.Dataset.zip(datasets[1].unbatch(), tf.data.Dataset.from_tensor_slices(y))
        results = run.evaluate(with_targets.batch(batch_size))
        assert results["loss"] == pytest.approx(squares.mean(), rel=1e-5)
        assert results["error"] == pytest.approx(np.sqrt(squares).mean(), rel=1e-5)
        weighted = tf.data.Dataset.from_tensor_slices(({"x": x}, y, y[:, None])).batch(batch_size)
        assert run.evaluate(weighted)["loss"] == pytest.approx(np.average(squares, weights=y), rel=1e-5)


def test_batches_that_cannot_be_used():
    run, x = linear(), np.ones((7, 3), "float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    with pytest.raises(ValueError, match="the weights of a batch must be one for each row"):
        run.evaluate(tf.data.Dataset.from_tensors(({"x": x}, x[:, 0], x[:, :2])))
    with pytest.raises(ValueError, match="`targets` are needed by the loss. Received: batches without targets"):
        run.fit(inputs)
    with pytest.raises(ValueError, match=r"has no end. Expected `Stream\(dataset, steps\)`. Received: <_Repeat"):
        run.predict(inputs.repeat())
    message = "must be a `Batches`, a `Stream`, `Phases`, another `BatchSource` or a `tf.data.Dataset`. Received: dict"
    with pytest.raises(ValueError, match=message):
        run.predict({"x": x})


def test_padding_of_ragged_targets_does_not_count(mirrored):
    """Rows of 1, 4, 2, 3 and 5 pieces in batches of 2 and of other lengths, their classes beside them."""
    rng = np.random.default_rng(0)
    lengths, x = [1, 4, 2, 3, 5], rng.normal(size=(15, 3)).astype("float32")
    classes = rng.integers(0, 3, 15).astype("int32")
    inputs, targets = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (x, classes))
    batches = keras_bert.Batches({"x": inputs}, targets, batch_size=2, boundaries=[2, 4, 5])
    pieces = keras.Input((None, 3), name="x")
    outputs = keras.layers.Dense(3)(pieces)
    model = keras.Model({"x": pieces}, {"logits": outputs, "twice": 2 * outputs})
    weights = model.get_weights()
    logits = x @ weights[0] + weights[1]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(15), classes]
    found = []
    for strategy in (None, mirrored):
        run = Trainer(
            lambda: keras.models.clone_model(model),
            lambda model: keras_bert.create_optimizer(model, 1e-2, 100),
            token_loss(),
            metrics=lambda y, out: found.append(y) or {},
            strategy=strategy,
        )
        run.model.set_weights(weights)
        assert run.evaluate(batches)["loss"] == pytest.approx(losses.mean(), rel=1e-5)
        np.testing.assert_array_equal(found[-1], targets.to_tensor(-1))
        predictions = run.predict(batches)
        outputs = predictions["logits"]
        np.testing.assert_array_equal(predictions["twice"], 2 * outputs)
        for row, end in enumerate(np.cumsum(lengths)):
            np.testing.assert_allclose(outputs[row, : lengths[row]], logits[end - lengths[row] : end], atol=1e-5)
    assert outputs.shape == (5, 5, 3)
    assert (outputs[[0, 2], 4:] == 0).all()  # Shorter batches are padded with zeros.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model = keras.Model(model.input, model.output["logits"])
    model.compile(loss=loss)
    dataset = keras_bert.Batches({"x": inputs}, targets, batch_size=1, boundaries=[6]).dataset()
    # A mean over the batches: here of each row alone.
    expected = np.mean([part.mean() for part in np.split(losses, np.cumsum(lengths)[:-1])])
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_a_replica_without_rows(mirrored):
    rows = tf.data.Dataset.from_tensor_slices(({"x": np.eye(3, dtype="float32")}, np.arange(3.0))).batch(2)
    losses = [linear(strategy=strategy).fit(rows, epochs=2, log_every=1)["loss"] for strategy in (None, mirrored)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_rows_of_replicas_come_once(mirrored):
    numbers = tf.data.Dataset.range(5).map(lambda x: (x, x)).batch(5)
    loss = Loss("count", None, None)
    dataset = trainer.replica_dataset(mirrored, Stream(numbers).dataset, [loss], micro_batches=2)
    ((inputs, _, weights, totals),) = dataset
    found = [part.numpy().tolist() for part in mirrored.experimental_local_results(inputs)]
    real = [part.numpy().tolist() for part in mirrored.experimental_local_results(weights)]
    assert found == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert real == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert [part.numpy().tolist() for part in mirrored.experimental_local_results(totals)] == [[5], [5]]


def test_means_among_the_metrics(mirrored):
    """Batch by batch, with rows of weight 0, beside a metric of all rows; `finish` is of the mean."""
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
    for strategy in (None, mirrored):
        all_metrics = [means[0], lambda y, out: {"rows": len(y)}, *means[1:]]
        run = linear(classes=3, loss=classification_loss(), strategy=strategy, metrics=all_metrics)
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


@pytest.mark.parametrize("as_list", [True, False])
def test_means_alone_keep_no_outputs(monkeypatch, as_list):
    """The logits of all held-out records would not fit into memory."""
    mean = Loss("mean", lambda y, out: out["logits"][:, 0])
    run = linear(metrics=[mean] if as_list else mean)
    outputs, kept = Evaluator.outputs, []
    monkeypatch.setattr(Evaluator, "outputs", lambda *a, **k: kept.append(outputs(*a, **k)) or kept[-1])
    results = run.evaluate(numbered(1, 2))
    assert set(results) == {"loss", "number", "mean"}
    assert kept == [(None, None, results)]


def scored(directory, scores, fail_at=None, **options):
    """A run of 6 steps, each with a score after it; the model's kernel in the end, and those at each evaluation."""
    kernels = []

    def metric(targets, outputs):
        kernels.append(run.model.get_weights()[0])
        if len(kernels) == fail_at:
            raise KeyboardInterrupt
        return {"score": scores[len(kernels) - 1]}

    run = linear(directory, metrics=metric)
    batches = numbered(3, 1, 4, 1, 5, 9)
    result = run.fit(batches, evaluation=batches, evaluate_every=1, best="score", **options)
    return run.model.get_weights()[0], kernels, result


def test_best_weights_and_patience(tmp_path):
    found, kernels, result = scored(tmp_path, [0.1, 0.5, 0.4, 0.3, 0.9, 0.9], patience=2)
    assert (result["score"], result["step"], len(kernels)) == (0.5, 2, 4)
    np.testing.assert_array_equal(found, kernels[1])
    again, kernels, same = scored(tmp_path, [], patience=2)
    np.testing.assert_array_equal(again, found)
    assert (kernels, same) == ([], result)


def test_a_new_run_never_sees_the_best_of_an_old_one(tmp_path):
    scored(tmp_path, [0.1, 0.2, 0.3, 0.4, 0.5, 0.9])
    shutil.rmtree(tmp_path / "snapshots")
    found, kernels, result = scored(tmp_path, [0.1, 0.3, 0.2, 0.2, 0.1, 0.2])
    np.testing.assert_array_equal(found, kernels[1])
    assert (result["step"], result["score"]) == (2, 0.3)
    assert steps_of(tmp_path / "best") == [2]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    assert [line["score"] for line in metrics(tmp_path, "evaluation")] == [0.1, 0.3, 0.2, 0.2, 0.1, 0.2]


def test_a_resumed_run_keeps_the_best_of_its_snapshot(tmp_path):
    """Cut after two better ones that the snapshot of step 3 does not know; this time they are worse."""
    with pytest.raises(KeyboardInterrupt):
        scored(tmp_path, [0.5, 0.1, 0.1, 0.6, 0.7], fail_at=6, save_every=3)
    found, _, result = scored(tmp_path, [0.2, 0.1, 0.2], save_every=3)
    kernel = tf.train.load_checkpoint(str(tmp_path / "best" / "step-000000001" / "variables"))
    np.testing.assert_array_equal(found, kernel.get_tensor("model/0/linear/kernel"))
    assert (result["step"], result["score"]) == (1, 0.5)
    assert steps_of(tmp_path / "best") == [1]
    shutil.rmtree(tmp_path / "best")
    with pytest.raises(ValueError, match="has no weights of step 1, the best of the run that is resumed. Expected"):
        scored(tmp_path, [], save_every=3)


NAN = float("nan")


@pytest.mark.parametrize(
    ("scores", "patience", "best", "said"),
    [
        ([0.3, NAN, 0.2, 0.4, 0.1, NAN], None, 4, [2, 6]),
        ([NAN, NAN, 0.2, 0.4, 0.1, 0.3], 3, 4, [1, 2]),
        ([NAN, NAN, 0.2, 0.4, 0.1, 0.3], 2, 2, [1, 2]),  # The last of those that there are.
        ([NAN] * 6, None, 6, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_nan_is_worse_than_any_number(tmp_path, caplog, scores, patience, best, said):
    found, kernels, result = scored(tmp_path, scores, patience=patience)
    np.testing.assert_array_equal(found, kernels[best - 1])
    assert result["step"] == best
    lines = [record.getMessage() for record in caplog.records if record.name == "keras_bert"]
    assert [line for line in lines if "at step" in line] == [
        f"`score` is NaN at step {step}, which counts as worse than any number" for step in said
    ]
    assert any("`score` was NaN at every evaluation: the model keeps" in line for line in lines) == (best in said)


def test_bad_arguments_of_best(tmp_path):
    batches = numbered(1, 2)
    with pytest.raises(ValueError, match="`best` must be one of loss, number, or '-' and one. Received: best='f1'"):
        linear(tmp_path).fit(batches, evaluation=batches, best="f1")
    with pytest.raises(ValueError, match="`best` needs `evaluation`, and a `directory` to keep the weights. Received"):
        linear().fit(batches, evaluation=batches, best="loss")
    with pytest.raises(ValueError, match="`patience` needs `best`, the metric that it waits for. Received: patience=2"):
        linear().fit(batches, evaluation=batches, patience=2)


def test_a_loss_that_is_not_finite_names_the_step():
    loss = Loss("loss", lambda y, out: tf.where(y == 4, float("nan"), out["logits"][:, 0]))
    message = "the loss is not finite at step 2: .*Usual causes: a learning rate that is too high"
    with pytest.raises(FloatingPointError, match=message):
        linear(loss=loss).fit(numbered(3, 1, 4, 1))


def test_float16_skips_steps_that_overflow(tmp_path):
    """The gradient is 16 times the scale, which starts at 2 ** 15: above 65504 until the scale is 2 ** 11."""
    run = linear(tmp_path, dtype="mixed_float16", loss=Loss("loss", lambda y, out: out["logits"][:, 0]))
    run.model.set_weights([np.ones([3, 1]), np.zeros(1)])
    data = tf.data.Dataset.from_tensors(({"x": np.full([1, 3], 16.0, "float32")}, np.zeros(1))).repeat(7)
    run.fit(data, log_every=1)
    lines = metrics(tmp_path)
    assert [line["skipped"] for line in lines] == [1, 1, 1, 1, 0, 0, 0]
    assert [line["loss"] for line in lines[:6]] == [48] * 6  # The first step that counts has a rate of 0.
    assert lines[6]["loss"] < 48
    assert int(run.optimizer.iterations) == 3
    assert lines[6]["gradient_norm"] == pytest.approx((3 * 16**2 + 1) ** 0.5)


def test_after_save_comes_after_each_snapshot(tmp_path, monkeypatch):
    found = []

    def after_save():
        newest = sorted((tmp_path / "snapshots").iterdir())[-1]
        kernel = tf.train.load_checkpoint(str(newest / "variables")).get_tensor("model/0/linear/kernel")
        np.testing.assert_array_equal(kernel, run.model.get_weights()[0])
        found.append(int(newest.name.removeprefix("step-")))

    run = linear(tmp_path)
    run.fit(numbered(*range(5)), save_every=2, after_save=after_save)
    assert found == [2, 4, 5]
    for module in (trainer, run_state):
        monkeypatch.setattr(module, "is_chief", lambda strategy: False)
    linear(tmp_path / "worker").fit(numbered(1, 2), after_save=lambda: pytest.fail("this worker writes nothing"))
    assert not (tmp_path / "worker").exists()


def test_out_of_memory_is_one_line(monkeypatch):
    """An error as TensorFlow's allocator raises it."""

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


def kept(strategy, micro_batches, steps=1, seed=0):
    """How often each input was kept in 4 rows of `steps` steps: the gradient of a linear layer behind a dropout."""

    def model():
        x = keras.Input((256,))
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        return keras.Model(x, {"sum": dense(keras_bert.layers.Dropout(0.5)(x))})

    options = {"beta_1": 0.0, "beta_2": 0.0, "epsilon": 1e6, "weight_decay": 0.0, "bias_correction": False}
    run = Trainer(
        model,
        lambda model: keras_bert.AdamW(1e5, **options),  # Without moments, and an epsilon that drowns the second one.
        Loss("sum", lambda targets, outputs: -outputs["sum"][:, 0]),
        strategy=strategy,
        micro_batches=micro_batches,
        seed=seed,
    )
    run.fit(tf.data.Dataset.from_tensors((tf.ones([4, 256]), tf.zeros([4]))), epochs=steps)
    return np.round(run.model.get_weights()[0][:, 0] * 10 * 4 / 2).astype(int)


def test_replicas_and_micro_batches_draw_their_own_masks(mirrored):
    once = kept(mirrored, 2)
    # 4 rows, each kept with probability 1/2: binomial. With one mask for all only 0 and 4 would come.
    np.testing.assert_allclose(np.bincount(once, minlength=5) / 256, np.array([1, 4, 6, 4, 1]) / 16, atol=0.1)
    np.testing.assert_array_equal(kept(mirrored, 2), once)
    assert (kept(mirrored, 2, steps=2) - once != once).any()
    assert (kept(mirrored, 2, seed=1) != once).any()
    two = kept(mirrored, 1)
    assert set(np.unique(two)) <= {0, 1, 2, 3, 4}
    assert (two != once).any()


# What Keras' fit trains too.


class Counts(keras.layers.Layer):
    """Adds the mean square of its inputs to the loss, and counts the calls."""

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x):
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
        self.calls.assign_add(1.0)
        return x


class Noise(keras.layers.Layer):
    """Draws from Keras' own generator, which no layer has."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x))


def extras(*layers):
    """Inputs `x` of 3 numbers, the layers, a kernel with a regularizer and a constraint, and `logits`."""
    x = keras.Input((3,), name="x")
    options = {"kernel_regularizer": keras.regularizers.L2(0.3), "kernel_constraint": keras.constraints.MaxNorm(0.4)}
    y = keras.layers.Dense(4, name="first", **options)(x)
    for layer in layers:
        y = layer(y)
    return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(y)})


def trained(layers, strategy=None, micro_batches=1, directory=None, weights=None, **options):
    """A trainer of `extras` after 6 batches."""
    run = Trainer(
        lambda: extras(*layers()),
        lambda model: keras_bert.AdamW(0.1, weight_decay=0.1, **options),
        regression_loss(),
        strategy=strategy,
        micro_batches=micro_batches,
        directory=directory,
    )
    if weights is not None:
        run.model.set_weights(weights)
    run.fit(numbered(3, 1, 4, 1, 5, 9), log_every=1)
    return run


def all_extras():
    return [Counts(), keras.layers.BatchNormalization(), keras.layers.Dense(4, "tanh", activity_regularizer="l2")]


@pytest.mark.parametrize("clip", [{"clipnorm": 0.5}, {"clipvalue": 0.1}, {"global_clipnorm": 0.5}])
def test_one_replica_trains_whatever_keras_fit_trains(tmp_path, clip):
    model = extras(*all_extras())
    start = model.get_weights()
    run = trained(all_extras, directory=tmp_path, weights=start, **clip)
    model.compile(keras_bert.AdamW(0.1, weight_decay=0.1, **clip), "mse")
    data = tf.data.Dataset.from_tensor_slices(numbered_arrays(3, 1, 4, 1, 5, 9))
    fitted = [float(model.train_on_batch(*batch)) for batch in data.map(lambda x, y: (x, {"logits": y[:, None]}))]
    lines = metrics(tmp_path)
    np.testing.assert_allclose([line["loss"] + line["regularization"] for line in lines], fitted, rtol=1e-5)
    assert min(line["regularization"] for line in lines) > 0.01
    for weight, expected in zip(run.model.weights, model.weights, strict=True):
        np.testing.assert_allclose(weight.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6, err_msg=weight.path)
    assert float(run.model.get_layer("first").kernel.numpy().max()) < 0.41


def test_two_replicas_change_nothing_for_regularizers_and_clipping(mirrored):
    weights = extras().get_weights()
    for clip in ({"clipnorm": 0.5}, {"clipvalue": 0.1}):
        expected = trained(list, weights=weights, **clip).model.get_weights()
        for strategy, micro_batches in ((mirrored, 1), (None, 2)):
            found = trained(list, strategy, micro_batches, weights=weights, **clip).model.get_weights()
            for weight, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "micro_batches", "message"),
    [
        (lambda: [Counts()], 2, "calls `add_loss` or has an `activity_regularizer`.* Received: replicas=1, micro_ba"),
        (lambda: [keras.layers.BatchNormalization(name="bn")], 2, "updates `bn/moving_mean`, which would depend on"),
        (lambda: [Noise()], 1, "updates what is neither a .* Received: the state of a generator"),
        (
            lambda: [keras.layers.SpectralNormalization(keras.layers.Dense(4, name="inner"), name="outer")],
            1,
            "updates what is neither a non-trainable weight .* train with model.fit. Received: .*inner/kernel",
        ),
    ],
)
def test_layers_that_would_be_ignored_in_part(layers, micro_batches, message):
    with pytest.raises(ValueError, match=message):
        trained(layers, micro_batches=micro_batches)


def test_layers_that_would_depend_on_the_replicas(mirrored):
    with pytest.raises(ValueError, match="would depend on the number of .* Received: replicas=2, micro_batches=1"):
        trained(lambda: [keras.layers.BatchNormalization()], mirrored)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda: keras.optimizers.SGD(0.1), "`optimizer_fn` must make an `AdamW` .* Received: keras.*SGD"),
        (lambda: keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(0.1)), "without a wrapper; .*LossScaleOptimizer"),
        (lambda: keras_bert.AdamW(0.1, use_ema=True), "`use_ema` of the optimizer is not supported by `Trainer`. Tr"),
        (
            lambda: keras_bert.LAMB(0.1, gradient_accumulation_steps=2),
            "and set `micro_batches`. Received: gradient_acc",
        ),
        (lambda: keras_bert.AdamW(0.1, loss_scale_factor=8.0), "is scaled without it. Received: loss_scale_factor=8.0"),
    ],
)
def test_optimizers_that_would_be_ignored_in_part(optimizer, message):
    with pytest.raises(ValueError, match=message):
        Trainer(extras, lambda model: optimizer(), regression_loss())
