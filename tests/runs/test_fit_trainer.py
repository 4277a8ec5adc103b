"""Pre-training on JAX."""

import dataclasses
import itertools
import json
import signal

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.data.batch_source import Stream  # noqa: E402
from keras_bert.pretraining.record_files import serialize  # noqa: E402
from keras_bert.rewirings.trimmed import build_packed, build_trimmed  # noqa: E402
from keras_bert.runs import fit_trainer  # noqa: E402
from keras_bert.runs.fit_trainer import FitTrainer  # noqa: E402
from keras_bert.runs.pretraining import Objective, PretrainingRun, PretrainingSettings  # noqa: E402
from keras_bert.runs.pretraining_records import open_eval_data, open_phases  # noqa: E402
from keras_bert.training.losses import pretraining_losses, pretraining_metrics  # noqa: E402
from tests.conftest import to_numpy  # noqa: E402
from tests.pipelines.programs import call, mistake  # noqa: E402
from tests.runs.google_training import GoogleTraining  # noqa: E402

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="needs JAX, this is another backend")
PAIRS = Objective()
PROGRAM = "pipelines.run_pretraining"
EXAMPLES = 48
PHASES = [{"length": 16, "steps": 7, "batch": 16}, {"length": 24, "steps": 4, "batch": 8}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pieces):
    """Records of lengths 16 and 24, their vocabulary and configs with and without dropout."""
    import jax

    # Runs that resume compile nothing a second time.
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    for length in (16, 24):
        real = np.arange(length) < rng.integers(6, length + 1, EXAMPLES)[:, None]
        features = {
            "input_ids": rng.integers(5, 9, (EXAMPLES, length)) * real,
            "input_mask": real.astype(int),
            "segment_ids": real * (np.arange(length) >= 4),
            "next_sentence_labels": rng.integers(0, 2, (EXAMPLES, 1)),
        }
        with tf.io.TFRecordWriter(f"{folder}/{length}.tfrecord") as writer:
            for record in serialize(features):
                writer.write(record)
    (folder / "vocab.txt").write_text("\n".join(pieces))
    size = keras_bert.BertConfig(len(pieces), 16, 1, 2, 32, max_position_embeddings=24)
    exact = dataclasses.replace(size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    for name, config in (("config", size), ("exact", exact)):
        (folder / f"{name}.json").write_text(json.dumps(config.to_huggingface()))
    yield folder
    keras.distribution.set_distribution(None)


@pytest.fixture(scope="module")
def start(folder):
    """Starts runs, with dropout."""

    def started(name, phases=PHASES, objective=PAIRS, **changes):
        options = {"config": f"{folder}/config.json", "learning_rate": 1e-3, "save_every": 3, "warmup": 0.1}
        settings = PretrainingSettings(phases, objective, **options | changes)
        lengths = dict.fromkeys(phase["length"] for phase in phases)
        sources = [f"{folder}/{length}.tfrecord" for length in lengths]
        vocabulary = folder / "vocab.txt"
        records = open_phases(phases, sources, objective, vocabulary=vocabulary, pack=settings.pack)
        held_out = open_eval_data(sources[0], records[0], objective, vocabulary=vocabulary, examples=21)
        return PretrainingRun(settings, records, folder / name, eval_data=held_out, report_to=())

    return started


@pytest.fixture(scope="module")
def whole(start):
    run = start("whole")
    run.fit()
    return run


def lines(directory, kind=None):
    """Returns the lines of metrics.jsonl without timings."""
    kept = []
    for text in (directory / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        line.pop("time", None)
        if kind in (None, line["kind"]):
            kept.append(line)
    return kept


def assert_equal(run, other, tolerance):
    for one, two in zip(run.trainer.model.trainable_weights, other.trainer.model.trainable_weights, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(two), atol=tolerance, err_msg=one.path)
    for found, expected in zip(lines(run.trainer.directory), lines(other.trainer.directory), strict=True):
        assert found.pop("kind") == expected.pop("kind")
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def heeding_ctrl_c():
    """Jobs in the background of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(run, number, monkeypatch):
    """Runs up to a signal in the second step; returns the exception."""
    ended = fit_trainer.Follower.on_train_batch_end
    count = itertools.count(1)

    def signalling(*args, **options):
        if next(count) == 2:
            signal.raise_signal(number)
        ended(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(fit_trainer.Follower, "on_train_batch_end", signalling)
        with pytest.raises((SystemExit, KeyboardInterrupt)) as stopped:
            run.fit()
    return stopped.value


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_an_interrupted_run(start, whole, folder, monkeypatch, capsys, caplog):
    """Ends as an uninterrupted one, with dropout: stopped by both signals, and the last snapshot is damaged."""
    assert [line["step"] for line in lines(folder / "whole", "evaluation")] == [3, 6, 9, 11]
    message = f"stopped at step {{}} of 11, saved to {folder}/cut; repeat the command to continue"
    assert interrupt(start("cut"), signal.SIGTERM, monkeypatch).code == 143
    assert message.format(2) in capsys.readouterr().err
    assert str(interrupt(start("cut"), signal.SIGINT, monkeypatch)) == message.format(4)
    newest = folder / "cut/snapshots/step-000000004"
    (path,) = newest.glob("variables.data*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = bytes(400)
    path.write_bytes(content)
    second = start("cut")
    second.fit()
    assert f"{newest} is damaged, using the previous snapshot" in caplog.text
    assert "the run resumes at step 3 of 11" in capsys.readouterr().err
    assert_equal(second, whole, 1e-6)
    model = keras_bert.load(folder / "cut/model").pretrainer()
    for one, two in zip(model.weights, second.trainer.model.trainable_weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(two))


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_a_signal_at_the_last_step(start, folder, monkeypatch):
    """It also stops the evaluation, which the same command repeats."""
    phases = [{"length": 16, "steps": 2, "batch": 16}]
    assert interrupt(start("last", phases), signal.SIGTERM, monkeypatch).code == 143
    assert not lines(folder / "last", "evaluation")
    results = start("last", phases).fit()
    (line,) = lines(folder / "last", "evaluation")
    assert results == pytest.approx({name: line[name] for name in results})


def test_eight_devices_equal_one(start, whole, monkeypatch):
    import jax

    kernel = whole.trainer.model.get_layer("block_0").feed_forward.output_dense.kernel
    assert len(kernel.value.sharding.device_set) == 8
    with pytest.raises(ValueError, match="divisible by the number of devices, 8. Received: batch:12"):
        start("uneven", [{"length": 16, "steps": 1, "batch": 12}])
    keras.distribution.set_distribution(None)
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cpu:0"])
    one = start("one")
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *args, **options: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )
    one.fit(lambda: compiled.clear())
    assert not compiled  # After the last snapshot. Shapes are static.
    assert_equal(whole, one, 1e-5)


@pytest.mark.parametrize("kind", ["causal", "packed"])
def test_losses(start, folder, kind):
    """Those that `Trainer` computes: of the first batch, and of the 21 examples to evaluate on."""
    is_packed = kind == "packed"
    changes = {"config": f"{folder}/exact.json", "pack": is_packed, "learning_rate": 0.0}
    run = start(kind, [{"length": 24, "steps": 1, "batch": 16}], Objective(is_packed, causal=not is_packed), **changes)
    results = run.fit()
    model = run.trainer.model
    losses = pretraining_losses(is_packed)
    metrics = pretraining_metrics(is_packed)
    (first, *_) = run.records[0].dataset().take(1).as_numpy_iterator()
    expected = means(build_packed(model) if is_packed else model, [first], losses)
    (line,) = lines(folder / kind, "train")
    assert {name: line[name] for name in line if name != "kind"} == pytest.approx(
        {"step": 1, "learning_rate": 0.0, **expected}, rel=1e-5
    )
    held_out = run.eval_data.dataset().as_numpy_iterator()
    assert results == pytest.approx(means(model, held_out, [*losses, *metrics]), rel=1e-5)


def means(model, batches, terms):
    """Returns the means of `Loss`es over batches, by TensorFlow."""
    sums = np.zeros([len(terms), 2])
    for inputs, targets, weights in batches:
        outputs = model.predict_on_batch(inputs)
        for place, term in enumerate(terms):
            value, weight = term.sums(targets, outputs, tf.constant(weights))
            sums[place] += [float(value), float(weight)]
    results = {}
    for term, (value, weight) in zip(terms, sums, strict=True):
        finish = term.finish or float
        results[term.name] = finish(value / weight)
    return results


def test_float16(start):
    """The loss is scaled; a resumed run has the scale of the snapshot."""
    phases = [{"length": 16, "steps": 2, "batch": 16}]
    run = start("half", phases, precision="mixed_float16")
    run.trainer.trained.optimizer.dynamic_scale.assign(1024.0)
    run.fit()
    second = start("half", phases, precision="mixed_float16")
    second.fit()
    assert float(second.trainer.trained.optimizer.dynamic_scale) == 1024
    for one, two in zip(run.trainer.model.weights, second.trainer.model.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(two), err_msg=one.path)


def test_mistakes(start, whole):
    with pytest.raises(ValueError, match="with different settings: `phases.0.steps` was 7, is 6"):
        start("whole", [{**PHASES[0], "steps": 6}, PHASES[1]]).fit()
    for name, value in (("teacher", "other"), ("gradient_accumulation", 2)):
        with pytest.raises(ValueError, match=f"`{name}`: only on TensorFlow. Received: KERAS_BACKEND=jax"):
            start("run", **{name: value})
    run = start("diverging")
    run.trainer.fit_steps = lambda iterator, count: (count, {"mlm_loss": np.nan})
    with pytest.raises(FloatingPointError, match=r"the loss is not finite at step 1: .*Lower the learning rate"):
        run.fit()


def test_command(folder):
    """Trains, writes a report, refuses what it would ignore, and extends the finished run."""
    files = {"data": "16.tfrecord", "eval_data": "16.tfrecord", "vocabulary": "vocab.txt", "config": "config.json"}
    given = [f"--{name}={folder}/{value}" for name, value in {**files, "output_dir": "command"}.items()]
    given += ["--eval_examples=21", "--save_every=1"]  # As in `start`, whose programs are compiled.
    printed = call(PROGRAM, *given, "--phases=length:16,steps:2,batch:16")
    assert f"report:       {folder}/command/report.html\n" in printed
    assert "backend" in (folder / "command/report.html").read_text()
    call(PROGRAM, *given, "--phases=length:16,steps:3,batch:16")
    assert [line["step"] for line in lines(folder / "command", "evaluation")] == [1, 2, 3]
    message = "--strategy: only on TensorFlow. JAX trains on all devices. Received: KERAS_BACKEND=jax"
    assert mistake(PROGRAM, *given, "--phases=length:16,steps:3,batch:16", "--strategy=one") == message


def test_equals_google_tf1(golden, tmp_path):
    """Twelve steps of Google's program, on four devices: equal losses and weights."""
    google = GoogleTraining(golden)
    batches = Stream(tf.data.Dataset.from_tensor_slices((google.rows, google.targets)))
    devices = keras.distribution.list_devices()[:4]
    options = {"directory": tmp_path / "run", "settings": {}, "callbacks": [], "rewire": build_trimmed}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.distribution, "list_devices", lambda: devices)
        trainer = FitTrainer(google.model, google.optimizer, [4], **options)
    every = {"evaluate_every": 12, "save_every": 12, "log_every": 1, "after_save": lambda: None, "extend": None}
    trainer.fit(batches, 12, None, **every)
    google.check(lines(tmp_path / "run", "train"), trainer.model, tmp_path)
