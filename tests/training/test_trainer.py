"""The training loop: the same on any number of replicas, resumable to the step."""

import contextlib
import json
import math
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training.input_pipeline import Phases, Stream, at, replica_dataset  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss, regression_loss, token_loss  # noqa: E402
from keras_bert.training.trainer import TERMINATED, Trainer  # noqa: E402
from tests.pipelines import programs  # noqa: E402
from tests.training import small_run  # noqa: E402

pytestmark = pytest.mark.tensorflow
CONFIG = keras_bert.BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def train(**options):
    """The losses of 2 epochs, step by step, and the weights after them."""
    run = small_run.trainer(**options)
    lines = []
    steps = run._run

    def record(*arguments):
        new, stop = steps(*arguments)
        lines.extend(new)
        return new, stop

    run._run = record
    run.fit(small_run.data(), epochs=2)
    return [[line["mlm_loss"], line["nsp_loss"], line["gradient_norm"]] for line in lines], small_run.weights(run)


def assert_same(found, expected, key_bias=1e-2):
    """Losses and weights to 1e-5; Adam blows up the key biases, whose gradient is rounding alone."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for path, weight in expected[1].items():
        bound = np.full(weight.shape, 1e-5 * np.abs(weight).max())
        if path.endswith("query_key_value/bias"):
            third = weight.size // 3
            bound[third : 2 * third] = key_bias
        assert (np.abs(found[1][path] - weight) <= bound).all(), path


@pytest.fixture(scope="module")
def alone():
    """One replica, everything at once."""
    losses, weights = train()
    assert min(norm for *_, norm in losses) > 1.0, "clipping must be active"
    return losses, weights


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_micro_batches_change_nothing(alone, micro_batches):
    assert_same(train(micro_batches=micro_batches), alone)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_two_replicas_change_nothing(alone, mirrored, micro_batches):
    assert_same(train(strategy=mirrored, micro_batches=micro_batches), alone)


def test_two_replicas_change_nothing_with_sgd(mirrored):
    assert_same(train(strategy=mirrored, sgd=True), train(sgd=True), key_bias=1e-6)


def test_xla_changes_nothing(alone):
    assert_same(train(jit_compile=True), alone)


@pytest.mark.slow
def test_two_workers_change_nothing(two_addresses, tmp_path):
    cluster = {"worker": two_addresses}
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        arguments = [tmp_path / "run", tmp_path / f"{index}.npz", "strategy=auto"]
        workers.append(programs.start("tests.training.small_run", *arguments, TF_CONFIG=config))
    workers.append(programs.start("tests.training.small_run", tmp_path / "alone", tmp_path / "alone.npz"))
    for worker in workers:
        programs.finish(worker)
    expected = dict(np.load(tmp_path / "alone.npz"))
    for index in range(2):
        assert_same(([], dict(np.load(tmp_path / f"{index}.npz"))), ([], expected))
    lines = [metrics(tmp_path / name) for name in ("run", "alone")]
    for found, line in zip(*lines, strict=True):
        assert found == pytest.approx(line, rel=1e-4)


def start(directory, output, *options):
    """A fresh process: the order of a set must be of no account either."""
    command = [sys.executable, "-m", "tests.training.small_run", str(directory), str(output), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parents[2])


def finish(process, status=0):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == status, errors[-3000:]


def metrics(directory):
    """metrics.jsonl without what depends on the speed."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("time", "kind")} for line in lines]


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path):
    """Dropout on; killed in the middle of an epoch, with a step between the snapshot and the kill."""
    whole, killed, stopped = tmp_path / "whole", tmp_path / "killed", tmp_path / "stopped"
    first = [
        start(whole, tmp_path / "whole.npz", "dropout=0.1"),
        start(killed, tmp_path / "killed.npz", "dropout=0.1", "kill_at=7"),
        start(stopped, tmp_path / "stopped.npz", "dropout=0.1", "kill_at=6", "kill_by=SIGTERM"),
    ]
    for process, status in zip(first, (0, -9, TERMINATED), strict=True):
        finish(process, status)
    assert sorted(path.name for path in (stopped / "snapshots").iterdir())[-1] == "step-000000007"
    assert len(metrics(killed)) < len(metrics(whole))
    again = [start(path, tmp_path / f"{path.name}.npz", "dropout=0.1") for path in (killed, stopped)]
    for process in again:
        finish(process)
    expected = dict(np.load(tmp_path / "whole.npz"))
    for path in (killed, stopped):
        assert metrics(path) == metrics(whole)
        for name, weight in np.load(tmp_path / f"{path.name}.npz").items():
            np.testing.assert_array_equal(weight, expected[name], err_msg=name)


def one_run(directory, steps=4, **options):
    run = small_run.trainer(directory, **options)
    run.fit(small_run.data(), steps=steps, save_every=2)
    return run


def test_a_damaged_snapshot_falls_back_to_the_one_before(tmp_path, caplog):
    expected = small_run.weights(one_run(tmp_path))
    data = tmp_path / "snapshots" / "step-000000004" / "variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    found = small_run.weights(one_run(tmp_path))
    assert "step-000000004 is damaged, the one before is taken" in caplog.text
    for path, weight in expected.items():
        np.testing.assert_array_equal(found[path], weight)


def test_snapshots_that_are_all_damaged_do_not_start_the_run_again(tmp_path):
    one_run(tmp_path)
    for path in (tmp_path / "snapshots").glob("*/state.json"):
        path.write_text("{")
    with pytest.raises(ValueError, match="has no snapshot that can be read. Remove it to begin anew"):
        one_run(tmp_path)


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    expected = small_run.weights(one_run(tmp_path))
    monkeypatch.setattr(Trainer, "_run", None)
    found = small_run.weights(one_run(tmp_path))
    np.testing.assert_array_equal(found["pooler/dense/kernel"], expected["pooler/dense/kernel"])


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"learning_rate": 1e-3}, r"`optimizer.learning_rate.config.learning_rate` was 0.01, is 0.001"),
        ({"seed": 4}, "`seed` was 0, is 4"),
        ({"settings": {"task": "mrpc"}}, "`task` is there only now: 'mrpc'"),
        ({"steps": 6}, "`total_steps` was 4, is 6"),
    ],
)
def test_a_snapshot_of_another_run_is_refused(tmp_path, options, difference):
    one_run(tmp_path)
    with pytest.raises(ValueError, match=f"has a run of other settings: {difference}. Expected the same ones to go on"):
        one_run(tmp_path, **options)


def test_snapshots_are_few(tmp_path):
    one_run(tmp_path, steps=9)
    assert sorted(p.name for p in (tmp_path / "snapshots").iterdir()) == ["step-000000008", "step-000000009"]


def ones_model():
    """Ones -> dropout -> a linear layer: the gradient of its kernel counts in how many rows an input was kept."""
    inputs = keras.Input((256,))
    outputs = keras_bert.layers.Dropout(0.5)(inputs)
    return keras.Model(inputs, {"sum": keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(outputs)})


def kept(strategy, micro_batches, steps=1, seed=0):
    """In how many of the 4 rows each input was kept in the last step."""
    run = Trainer(
        ones_model,
        lambda model: keras_bert.AdamW(
            1e5, beta_1=0.0, beta_2=0.0, epsilon=1e6, weight_decay=0.0, bias_correction=False
        ),
        Loss("sum", lambda targets, outputs: -outputs["sum"][:, 0]),
        strategy=strategy,
        micro_batches=micro_batches,
        seed=seed,
    )
    dataset = tf.data.Dataset.from_tensors((tf.ones([4, 256]), tf.zeros([4])))
    before = np.zeros(256)
    for step in range(1, steps + 1):
        before = run.model.get_weights()[0][:, 0] if step > 1 else before
        run.fit(Stream(dataset, steps=step), steps=step) if step == 1 else run._run(
            iter(run._feed(Stream(dataset), 0, 0)), step, 1
        )
    return np.round((run.model.get_weights()[0][:, 0] - before) * 10 * 4 / 2).astype(int)


def test_replicas_and_micro_batches_draw_their_own_masks(mirrored):
    once = kept(mirrored, 2)
    # 4 rows, each kept with probability 1/2: binomial. With one mask for all only 0 and 4 would come.
    np.testing.assert_allclose(np.bincount(once, minlength=5) / 256, np.array([1, 4, 6, 4, 1]) / 16, atol=0.1)
    np.testing.assert_array_equal(kept(mirrored, 2), once)
    assert (kept(mirrored, 2, steps=2) != once).any()
    assert (kept(mirrored, 2, seed=1) != once).any()
    two = kept(mirrored, 1)
    assert set(np.unique(two)) <= {0, 1, 2, 3, 4}
    assert (two != once).any()


def classifier(strategy=None, **options):
    keras.utils.set_random_seed(3)
    return Trainer(
        lambda: keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 3),
        lambda model: keras_bert.create_optimizer(model, 1e-2, 100),
        options.pop("loss", classification_loss()),
        strategy=strategy,
        **options,
    )


def rows(count, batch_size, length=6):
    rng = np.random.default_rng(count)
    ids = rng.integers(5, 50, (count, length)).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    labels = rng.integers(0, 3, count).astype("int32")
    return inputs, labels, Stream(tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(batch_size))


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_predict_and_evaluate_keep_every_row_in_order(mirrored, batch_size):
    inputs, labels, batches = rows(7, batch_size)
    for strategy in (None, mirrored):
        run = classifier(strategy, metrics=lambda y, out: {"accuracy": np.mean(y == out["logits"].argmax(1))})
        expected = run.model.predict(inputs, verbose=0)["logits"]
        np.testing.assert_allclose(run.predict(batches)["logits"], expected, atol=1e-5)
        results = run.evaluate(batches)
        log_softmax = expected - np.log(np.exp(expected).sum(1, keepdims=True))
        assert results["loss"] == pytest.approx(-log_softmax[np.arange(7), labels].mean(), rel=1e-5)
        assert results["accuracy"] == pytest.approx(np.mean(labels == expected.argmax(1)))


def test_predict_puts_shuffled_batches_back_in_order(mirrored):
    batches = small_run.data(batch_size=4)
    for strategy in (None, mirrored):
        run = small_run.trainer(strategy=strategy)
        outputs = run.predict(batches)
        inputs, targets = batches._features
        padded = {k: v.to_tensor() if isinstance(v, tf.RaggedTensor) else v for k, v in inputs.items()}
        expected = run.model.predict(padded, verbose=0)
        assert outputs.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, atol=1e-4)
        results = run.evaluate(batches)
        labels, weights = targets["mask_labels"].numpy(), targets["mask_weights"].numpy()
        losses = keras.losses.sparse_categorical_crossentropy(labels, expected["mlm_logits"], from_logits=True)
        assert results["mlm_loss"] == pytest.approx(float((losses.numpy() * weights).sum() / weights.sum()), rel=1e-4)


def test_predict_pads_batches_of_other_length():
    run = Trainer(
        lambda: keras_bert.build_token_classifier(keras_bert.build_encoder(CONFIG), 3),
        lambda model: keras_bert.create_optimizer(model, 1e-2, 100),
        token_loss(),
    )
    parts = []
    for count, length in ((2, 4), (3, 6)):
        inputs, *_ = rows(count, count, length)
        parts.append((inputs, np.where(np.arange(length) < 2, 1, -1) + np.zeros([count, 1], int)))
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(parts),
        output_signature=(
            {name: tf.TensorSpec([None, None], tf.int32) for name in parts[0][0]},
            tf.TensorSpec([None, None], tf.int32),
        ),
    )
    batches = Stream(dataset, steps=2)
    outputs = run.predict(batches)["logits"]
    assert outputs.shape == (5, 6, 3)
    assert (outputs[:2, 4:] == 0).all()
    expected = run.model.predict(parts[0][0], verbose=0)["logits"]
    np.testing.assert_allclose(outputs[:2, :4], expected, atol=1e-5)
    run.fit(batches, epochs=1)


def test_padding_of_ragged_targets_does_not_count(mirrored):
    """Rows of 1, 4, 2, 3 and 5 pieces in batches of 2 and of other lengths, their classes beside them."""
    rng = np.random.default_rng(0)
    lengths, x = [1, 4, 2, 3, 5], rng.normal(size=(15, 3)).astype("float32")
    classes = rng.integers(0, 3, 15).astype("int32")
    inputs, targets = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (x, classes))
    batches = keras_bert.Batches({"x": inputs}, targets, batch_size=2, boundaries=[2, 4, 5])
    pieces = keras.Input((None, 3), name="x")
    model = keras.Model({"x": pieces}, {"logits": keras.layers.Dense(3)(pieces)})
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
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1))
    dataset = keras_bert.Batches({"x": inputs}, targets, batch_size=1, boundaries=[6]).dataset()
    # A mean over the batches: here of each row alone.
    expected = np.mean([part.mean() for part in np.split(losses, np.cumsum(lengths)[:-1])])
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_a_replica_without_rows(mirrored):
    *_, batches = rows(3, 2)  # The last batch has one row.
    losses = [classifier(strategy).fit(batches, epochs=2, log_every=1)["loss"] for strategy in (None, mirrored)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_rows_of_the_feed_come_once(mirrored):
    numbers = tf.data.Dataset.range(5).map(lambda x: (x, x)).batch(5)
    loss = Loss("count", None, None)
    ((inputs, _, weights, totals),) = replica_dataset(mirrored, Stream(numbers).dataset, [loss], micro_batches=2)
    found = [part.numpy().tolist() for part in mirrored.experimental_local_results(inputs)]
    real = [part.numpy().tolist() for part in mirrored.experimental_local_results(weights)]
    assert found == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert real == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert [part.numpy().tolist() for part in mirrored.experimental_local_results(totals)] == [[5], [5]]


def test_weights_of_rows_count():
    inputs, labels, _ = rows(4, 4)
    weights = np.array([1.0, 0.0, 0.5, 0.0], "float32")
    batches = Stream(tf.data.Dataset.from_tensors((inputs, labels, weights)))
    run = classifier()
    logits = run.predict(batches)["logits"]
    assert logits.shape == (4, 3)
    losses = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))[np.arange(4), labels]
    assert run.evaluate(batches)["loss"] == pytest.approx((losses * weights).sum() / 1.5, rel=1e-5)


def test_best_weights_and_patience(tmp_path):
    *_, batches = rows(8, 4)
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.9])
    kept = []

    def metric(targets, outputs):
        kept.append(run.model.get_weights())
        return {"score": next(scores)}

    run = classifier(directory=tmp_path, metrics=metric)
    result = run.fit(batches, epochs=5, evaluation=batches, best="score", patience=2)
    assert result["score"] == 0.5
    assert result["step"] == 4
    assert len(kept) == 4
    for weight, expected in zip(run.model.get_weights(), kept[1], strict=True):
        np.testing.assert_array_equal(weight, expected)
    assert run.fit(batches, epochs=5, evaluation=batches, best="score", patience=2) == result


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


def test_a_new_run_never_sees_the_best_of_an_old_one(tmp_path):
    scored(tmp_path, [0.1, 0.2, 0.3, 0.4, 0.5, 0.9])
    shutil.rmtree(tmp_path / "snapshots")
    found, kernels, result = scored(tmp_path, [0.1, 0.3, 0.2, 0.2, 0.1, 0.2])
    np.testing.assert_array_equal(found, kernels[1])
    assert (result["step"], result["score"]) == (2, 0.3)
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["step-000000002"]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    evaluations = [line["score"] for line in metrics(tmp_path) if "score" in line]
    assert evaluations == [0.1, 0.3, 0.2, 0.2, 0.1, 0.2]


def test_a_resumed_run_keeps_the_best_of_its_snapshot(tmp_path):
    """Cut after two better ones that the snapshot of step 3 does not know; this time they are worse."""
    with pytest.raises(KeyboardInterrupt):
        scored(tmp_path, [0.5, 0.1, 0.1, 0.6, 0.7], fail_at=6, save_every=3)
    found, _, result = scored(tmp_path, [0.2, 0.1, 0.2], save_every=3)
    kernel = tf.train.load_checkpoint(str(tmp_path / "best" / "step-000000001" / "variables"))
    np.testing.assert_array_equal(found, kernel.get_tensor("model/0/linear/kernel"))
    assert (result["step"], result["score"]) == (1, 0.5)
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["step-000000001"]
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


def test_a_best_metric_that_there_is_not(tmp_path):
    *_, batches = rows(4, 4)
    with pytest.raises(ValueError, match="`best` must be one of loss, or '-' and one. Received: best='f1'"):
        classifier(directory=tmp_path).fit(batches, evaluation=batches, best="f1")
    with pytest.raises(ValueError, match="`best` needs `evaluation`, and a `directory` to keep the weights. Received"):
        classifier().fit(batches, evaluation=batches, best="loss")
    with pytest.raises(ValueError, match="`patience` needs `best`, the metric that it waits for. Received: patience=2"):
        classifier().fit(batches, evaluation=batches, patience=2)


def test_a_loss_that_is_not_finite_names_the_step():
    *_, batches = rows(4, 1)
    calls = Loss("loss", lambda y, out: tf.where(y == labels[2], float("nan"), out["logits"][:, 0]))
    labels = [int(y[0]) for _, y, _ in batches.dataset()]
    first = labels.index(labels[2])
    message = f"the loss is not finite at step {first}: .*Usual causes: a learning rate that is too high"
    with pytest.raises(FloatingPointError, match=message):
        classifier(loss=calls).fit(batches)


def test_float16_skips_steps_that_overflow():
    run = small_run.trainer(dtype="mixed_float16")
    before = small_run.weights(run)
    run._step.scale.assign(2.0**40)
    run.fit(small_run.data(), steps=1)
    assert float(run._step.scale) == 2.0**39
    assert int(run.optimizer.iterations) == 0
    for path, weight in small_run.weights(run).items():
        np.testing.assert_array_equal(weight, before[path])
    run._step.scale.assign(2.0**10)
    result = run.fit(small_run.data(), epochs=2)
    assert result["skipped"] == 0
    assert int(run.optimizer.iterations) == 6
    assert int(run._step.good_steps) == 6


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"dtype": "mixed_float16"}, {"kind": "lamb"}, {"layer_decay": 0.8}])
def test_two_replicas_change_nothing_for_other_optimizers(mirrored, options):
    losses, _ = train(strategy=mirrored, **options)
    np.testing.assert_allclose(losses, train(**options)[0], rtol=1e-2 if "dtype" in options else 1e-4)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "float16", "bfloat16"])
def test_narrow_floats_train_like_float32(alone, dtype):
    losses, _ = train(dtype=dtype)
    np.testing.assert_allclose(np.array(losses)[:, :2], np.array(alone[0])[:, :2], rtol=0.05)


def test_the_step_is_fit_for_a_tpu():
    """It compiles whole under XLA with static shapes, and has no string and no call of Python in it."""
    run = small_run.trainer(dropout=0.1)
    batch = next(iter(run._feed(small_run.data(), 0, 0)))
    step = tf.function(run._step, jit_compile=True)
    first = step(*batch, tf.constant(0), tf.constant(0.0))
    assert np.isfinite(first).all()
    graph = step.get_concrete_function(*batch, tf.constant(0), tf.constant(0.0)).graph
    graphs = [graph, *(function.graph for function in graph._functions.values() if hasattr(function, "graph"))]
    operations = [operation for part in graphs for operation in part.get_operations()]
    assert len(operations) > 100
    assert not [op.name for op in operations if "Py" in op.type or "Print" in op.type]
    assert not [op.name for op in operations for tensor in (*op.inputs, *op.outputs) if tensor.dtype == tf.string]


def test_steps_come_in_calls_of_several(monkeypatch):
    run = classifier(steps_per_call=4)
    *_, batches = rows(20, 2)
    counts = []
    steps = run._run
    monkeypatch.setattr(run, "_run", lambda *arguments: counts.append(arguments[2]) or steps(*arguments))
    run.fit(batches, epochs=1, log_every=7)
    assert counts == [4, 3, 3]


def test_one_trace_for_all_epochs_and_lengths(mirrored):
    for strategy in (None, mirrored):
        run = small_run.trainer(strategy=strategy)
        run.fit(small_run.data(), epochs=3)
        assert run._train.experimental_get_tracing_count() == 1


def test_workers_that_see_different_snapshots_do_not_start(tmp_path, monkeypatch):
    run = small_run.trainer(tmp_path)
    monkeypatch.setattr(run, "_sum_of_all", lambda number: number + 4.0)
    with pytest.raises(
        ValueError, match="the workers found different snapshots, this one that of step 0. Expected a `dir"
    ):
        run.fit(small_run.data())


def test_a_stream_that_does_not_know_its_length():
    dataset = rows(4, 2)[2]._dataset
    with pytest.raises(ValueError, match="`steps` is needed, the number of batches in an epoch"):
        Stream(dataset)
    assert Stream(dataset, steps=3).steps == 3


def test_a_stream_goes_on_where_it_is_told():
    stream = Stream(tf.data.Dataset.range(6).map(lambda x: (x, x)).batch(2))
    assert [inputs.numpy().tolist() for inputs, *_ in stream.dataset(epoch=3, start=1)] == [[2, 3], [4, 5]]


def test_a_stream_reads_each_batch_once(tmp_path):
    """3 epochs of 4 batches, in any order that a seed gives; a resumed run skips what it has seen."""
    read = []

    def batches():
        numbers = tf.data.Dataset.range(4).shuffle(4, seed=1)
        dataset = numbers.map(lambda x: (tf.ones([2, 3]), tf.fill([2], tf.cast(x, tf.float32))))
        return Stream(dataset.map(lambda x, y: ({"x": x}, tf.py_function(count, [y], tf.float32))), steps=4)

    def count(y):
        read.append(float(y[0]))
        return y

    def losses():
        return Loss("number", lambda targets, outputs: tf.ensure_shape(targets, [2]) + 0 * outputs["logits"][:, 0])

    whole = linear(tmp_path / "whole", loss=losses())
    whole.fit(batches(), epochs=3, log_every=1)
    seen = [line["number"] for line in metrics(tmp_path / "whole")]
    assert [sorted(seen[start : start + 4]) for start in (0, 4, 8)] == [[0, 1, 2, 3]] * 3
    assert seen[:4] != seen[4:8]
    assert len(read) <= 12 + 8  # Some are read ahead.
    for _ in range(2):
        run = linear(tmp_path / "cut", loss=losses(), steps_per_call=6)
        run._told_to_stop = True
        with contextlib.suppress(SystemExit):
            run.fit(batches(), epochs=3, log_every=1)
    run = linear(tmp_path / "cut", loss=losses())
    run.fit(batches(), epochs=3, log_every=1)
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


def test_predictions_need_the_inputs_alone(mirrored):
    """7 rows in batches of 3, also of a dataset that does not know its length."""
    x, y = np.random.default_rng(0).normal(size=(7, 3)).astype("float32"), np.arange(7, dtype="float32")
    alone = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    ragged = {"x": tf.RaggedTensor.from_row_lengths(x.reshape(-1), [3] * 7)}
    datasets = [alone, alone.filter(lambda batch: True), Stream(alone), keras_bert.Batches(ragged, shuffle=False)]
    for strategy in (None, mirrored):
        run = linear(strategy=strategy)
        expected = x @ run.model.get_weights()[0] + run.model.get_weights()[1]
        for dataset in datasets:
            np.testing.assert_allclose(run.predict(dataset)["logits"], expected, atol=1e-5)
        with_targets = tf.data.Dataset.zip(datasets[1].unbatch(), tf.data.Dataset.from_tensor_slices(y)).batch(4)
        assert run.evaluate(with_targets)["loss"] == pytest.approx(np.mean((expected[:, 0] - y) ** 2), rel=1e-5)
        weighted = tf.data.Dataset.from_tensors(({"x": x}, y, np.arange(7, dtype="float32")[:, None]))
        mean = np.average((expected[:, 0] - y) ** 2, weights=np.arange(7))
        assert run.evaluate(weighted)["loss"] == pytest.approx(mean, rel=1e-5)
    with pytest.raises(ValueError, match="the weights of a batch must be one for each row"):
        run.evaluate(tf.data.Dataset.from_tensors(({"x": x}, y, np.ones((7, 2), "float32"))))
    with pytest.raises(ValueError, match="`targets` are needed by the loss. Received: batches without targets"):
        run.fit(alone)
    with pytest.raises(ValueError, match=r"has no end. Expected `Stream\(dataset, steps\)`. Received: <_Repeat"):
        run.predict(alone.repeat())
    with pytest.raises(
        ValueError, match="must be a `Batches`, a `Stream`, `Phases` or a `tf.data.Dataset`. Received: d"
    ):
        run.predict({"x": x})


def test_memory_that_ends_is_said_in_one_line(monkeypatch):
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
    monkeypatch.setattr(run._inference, "outputs", full)
    with pytest.raises(MemoryError, match=message):
        run.predict(data)


def numbered(*numbers):
    """Batches of two rows whose targets are one number."""
    rng = np.random.default_rng(numbers[0])
    inputs = {"x": rng.normal(size=(len(numbers), 2, 3)).astype("float32")}
    targets = np.repeat(np.array(numbers, "float32")[:, None], 2, 1)
    return Stream(tf.data.Dataset.from_tensor_slices((inputs, targets)))


def linear(directory=None, **options):
    """A linear model. The logs have the number of each batch beside its loss; the rate rises for 3 of 8 steps."""
    keras.utils.set_random_seed(3)

    def model():
        x = keras.Input((3,), name="x")
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(x)})

    return Trainer(
        model,
        lambda model: keras_bert.create_optimizer(model, 0.1, 8, 3),
        options.pop("loss", [regression_loss(), Loss("number", lambda targets, outputs: targets)]),
        directory=directory,
        **options,
    )


def test_phases_tell_where_a_step_is():
    """3 and 2 steps an epoch, counted by hand."""
    first, second = numbered(0, 1, 2), numbered(10, 11)
    phases = Phases([(first, 4), (second, 1), (first, 3)])
    assert phases.steps == 8
    assert [at(phases, step) for step in range(8)] == [
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
        (first, 1, 0, 1),  # The phase ends before the epoch.
        (second, 0, 0, 1),
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
    ]
    assert at(first, 7) == (first, 2, 1, 2)
    with pytest.raises(ValueError, match="`step` is behind the last phase. Received: step=8, steps=8"):
        phases.at(8)


@pytest.mark.parametrize("steps_per_call", [1, 3, 10])
def test_phases_come_one_after_the_other(tmp_path, steps_per_call):
    first, second = numbered(0, 1, 2), numbered(10, 11)
    run = linear(tmp_path, steps_per_call=steps_per_call)
    run.fit(Phases([(first, 4), (second, 1), (first, 3)]), log_every=2)
    # A line has the mean of two steps: 0 and 1, 2 and 0, 10 and 0, 1 and 2.
    assert [line["number"] for line in metrics(tmp_path)] == [0.5, 1, 5, 1.5]


def test_a_run_that_is_stopped_behind_each_step(tmp_path):
    """At the border of phases and of epochs too."""
    phases = Phases([(numbered(0, 1, 2), 4), (numbered(10, 11), 1), (numbered(0, 1, 2), 3)])
    whole = linear(tmp_path / "whole")
    whole.fit(phases, log_every=1)
    for step in range(1, 9):
        run = linear(tmp_path / "cut")
        run._told_to_stop = True
        with pytest.raises(SystemExit):
            run.fit(phases, log_every=1)
        assert sorted((tmp_path / "cut" / "snapshots").iterdir())[-1].name == f"step-00000000{step}"
    run = linear(tmp_path / "cut")
    run.fit(phases, log_every=1)
    assert [line["number"] for line in metrics(tmp_path / "cut")] == [0, 1, 2, 0, 10, 0, 1, 2]
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert_equal_state(run, whole)


def assert_equal_state(run, expected):
    """Weights and moments."""
    for variables in (lambda run: run.model.weights, lambda run: run.optimizer.variables):
        for variable, other in zip(variables(run), variables(expected), strict=True):
            np.testing.assert_array_equal(variable.numpy(), other.numpy(), err_msg=variable.path)


def test_moments_and_learning_rate_go_on_over_the_border(tmp_path):
    """The same batches in one phase and in two."""
    numbers = (3, 1, 4, 1, 5, 9, 2)
    batches = numbered(*numbers)
    whole, parts = linear(tmp_path / "whole"), linear(tmp_path / "parts")
    whole.fit(batches, log_every=1)
    streams = [Stream(part) for part in (batches._dataset.take(4), batches._dataset.skip(4).take(3))]
    parts.fit(Phases([(stream, stream.steps) for stream in streams]), log_every=1)
    lines = metrics(tmp_path / "parts")
    assert lines == metrics(tmp_path / "whole")
    assert [line["number"] for line in lines] == list(numbers)
    # Google's schedule: up to 0.1 over 3 steps, then along the line to 0 at step 8.
    rates = [0.1 * (step / 3 if step < 3 else 1 - step / 8) for step in range(7)]
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates)
    assert_equal_state(parts, whole)


def test_phases_that_are_too_short_are_told_at_once():
    run = linear()
    before = run.model.get_weights()[0]
    with pytest.raises(ValueError, match="`step` is behind the last phase. Received: step=7, steps=5"):
        run.fit(Phases([(numbered(0, 1), 5)]), steps=8)
    np.testing.assert_array_equal(run.model.get_weights()[0], before)


def test_means_among_the_metrics(mirrored):
    """Batch by batch, with rows of weight 0, beside a metric of all rows; `finish` is of the mean."""
    inputs, labels, _ = rows(7, 3)
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
        run = classifier(strategy, metrics=[means[0], lambda y, out: {"rows": len(y)}, *means[1:]])
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
    outputs, kept = run._inference.outputs, []
    monkeypatch.setattr(run._inference, "outputs", lambda *a, **k: kept.append(outputs(*a, **k)) or kept[-1])
    results = run.evaluate(numbered(1, 2))
    assert set(results) == {"loss", "number", "mean"}
    assert kept == [(None, None, results)]


def test_after_save_comes_after_each_snapshot(tmp_path):
    run = linear(tmp_path)
    found = []

    def after_save():
        newest = sorted((tmp_path / "snapshots").iterdir())[-1]
        kernel = tf.train.load_checkpoint(str(newest / "variables")).get_tensor("model/0/linear/kernel")
        np.testing.assert_array_equal(kernel, run.model.get_weights()[0])
        found.append(newest.name)

    run.fit(numbered(*range(5)), save_every=2, after_save=after_save)
    assert [int(name.removeprefix("step-")) for name in found] == [2, 4, 5]


def test_after_save_comes_when_the_run_is_stopped(tmp_path):
    run, calls = linear(tmp_path, steps_per_call=2), []
    run._told_to_stop = True
    with pytest.raises(SystemExit):
        run.fit(numbered(*range(5)), after_save=lambda: calls.append(1))
    assert calls == [1]


def test_after_save_is_for_the_worker_that_writes(tmp_path):
    run = linear(tmp_path)
    run._chief = False
    run.fit(numbered(1, 2), after_save=lambda: pytest.fail("this worker writes nothing"))
    assert not (tmp_path / "snapshots").exists()


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
    data = numbered(3, 1, 4, 1, 5, 9)._dataset.take(6)
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
