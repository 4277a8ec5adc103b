"""Pre-training by `model.fit`, on every backend."""

import contextlib
import dataclasses
import json
import math
import signal
import types

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.experiments import fit_run
from keras_bert.experiments.fit_run import FitRun
from keras_bert.experiments.pretraining_model import Objective, PretrainingSettings
from tests.conftest import eagerly, to_numpy
from tests.records import write

pytestmark = pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
EXAMPLES = 48


@pytest.fixture(scope="module")
def start(tmp_path_factory, pieces):
    """Starts runs on records of lengths 16 and 24, with dropout."""
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    for length in (16, 24):
        real = np.arange(length) < rng.integers(6, length + 1, EXAMPLES)[:, None]
        features = {
            "input_ids": rng.integers(5, 9, (EXAMPLES, length)) * real,
            "input_mask": real.astype(int),
            "segment_ids": real * (np.arange(length) >= 4),
            "next_sentence_labels": rng.integers(0, 2, (EXAMPLES, 1)),
        }
        write(folder / f"{length}.tfrecord", features)
    (folder / "vocab.txt").write_text("\n".join(pieces))
    size = keras_bert.BertConfig(len(pieces), 16, 1, 2, 32, max_position_embeddings=24)
    (folder / "config.json").write_text(json.dumps(size.to_huggingface()))
    phases = [{"length": 16, "steps": 7, "batch": 16}, {"length": 24, "steps": 4, "batch": 8}]
    settings = PretrainingSettings(
        phases, Objective(), str(folder / "config.json"), learning_rate=1e-3, save_every=3, warmup=0.1
    )

    def started(name, **changes):
        sources = [f"{folder}/{length}.tfrecord" for length in (16, 24)]
        options = {"held_out": sources[0], "examples": 21, "vocabulary": folder / "vocab.txt"}
        return FitRun(dataclasses.replace(settings, **changes), sources, folder / name, **options)

    with distributed():
        yield started


@contextlib.contextmanager
def distributed():
    """On JAX, on all devices; on TensorFlow, eagerly, which is faster for few steps."""
    if keras.config.backend() == "tensorflow":
        with eagerly():
            yield
    else:
        yield
        keras.distribution.set_distribution(None)


@pytest.fixture(scope="module")
def whole(start):
    run = start("whole")
    run.fit()
    return run


def lines(run):
    return [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]


def assert_equal(run, other, tolerance):
    for one, two in zip(run.model.trainable_weights, other.model.trainable_weights, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(two), atol=tolerance, err_msg=one.path)
    for found, expected in zip(lines(run), lines(other), strict=True):
        assert found.pop("kind") == expected.pop("kind")
        assert found == pytest.approx(expected, rel=1e-4)


def test_an_interrupted_run(start, whole, monkeypatch, caplog):
    """Ends as an uninterrupted one, with dropout, though the last snapshot is damaged; its model is the last one."""
    assert [line["step"] for line in lines(whole) if line["kind"] == "evaluation"] == [3, 6, 7, 9, 11]
    save, saved = fit_run.save, []

    def cut(*args, **options):
        saved.append(1)
        if len(saved) == 4:
            raise KeyboardInterrupt
        save(*args, **options)

    monkeypatch.setattr(fit_run, "save", cut)
    with pytest.raises(KeyboardInterrupt):
        start("cut").fit()
    monkeypatch.undo()
    newest = whole.directory.parent / "cut/snapshots/step-000000007.weights.h5"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4000] = bytes(4000)
    newest.write_bytes(content)
    second = start("cut")
    assert second.step == 6
    assert f"{newest} is damaged, using the previous snapshot (the checksum differs)" in caplog.text
    assert second.fit() == lines(second)[-1]
    assert_equal(second, whole, 1e-6)
    model = keras_bert.load(second.directory / "model").pretrainer()
    for one, two in zip(model.weights, second.model.trainable_weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(two))
    kept = {path.name.split(".")[0] for path in (second.directory / "snapshots").glob("step-*")}
    assert kept == {"step-000000009", "step-000000011"}


@pytest.fixture
def heeding_ctrl_c():
    """Jobs in the background of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_run(start, whole, capsys, number):
    """Between two multiples of `save_every`; a second run ends with the same weights."""
    run, sent = start(f"signal-{number}"), []
    load = run.records[0].__class__.__getitem__

    class Signalling(type(run.records[0])):
        def __getitem__(self, index):
            if index >= 1 and not sent:
                sent.append(signal.raise_signal(number))
            return load(self, index)

    run.records[0].__class__ = Signalling
    with pytest.raises(SystemExit if number == signal.SIGTERM else KeyboardInterrupt) as stopped:
        run.fit()
    message = f"stopped at step {run.step} of 11, saved to {run.directory}; repeat the command to continue"
    if number == signal.SIGTERM:
        assert stopped.value.code == 143
        assert message in capsys.readouterr().err
    else:
        assert str(stopped.value) == message
    assert 0 < run.step < 3
    second = start(f"signal-{number}")
    assert second.step == run.step
    second.fit()
    assert f"the run resumes at step {run.step} of 11" in capsys.readouterr().err
    for one, two in zip(second.model.trainable_weights, whole.model.trainable_weights, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(two), atol=1e-6, err_msg=one.path)


def test_evaluation(whole):
    """The losses are means over all predictions of the 21 examples, in two batches."""
    inputs, targets, weights = keras.tree.map_structure(
        lambda *parts: np.concatenate(parts), *(whole.held_out[index] for index in range(2))
    )
    for name, label in (("mlm_loss", "mlm_logits"), ("nsp_loss", "nsp_logits")):
        logits = to_numpy(whole.model(inputs)[label]).astype("float64")
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses = -np.take_along_axis(logs, targets[label][..., None], -1)[..., 0]
        assert lines(whole)[-1][name] == pytest.approx(np.average(losses, weights=weights[label]), rel=1e-5)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="distributes on JAX only")
def test_eight_devices_equal_one(start, whole, monkeypatch):
    import jax

    kernel = whole.model.get_layer("block_0").feed_forward.output_dense.kernel
    assert len(kernel.value.sharding.device_set) == 8
    with pytest.raises(ValueError, match="divisible by the number of devices, 8. Received: batch:12"):
        start("uneven", phases=[{"length": 16, "steps": 1, "batch": 12}, {"length": 24, "steps": 1, "batch": 8}])
    assert not (whole.directory.parent / "uneven").exists()
    keras.distribution.set_distribution(None)
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cpu:0"])
    one = start("one")
    one.fit()
    assert_equal(whole, one, 1e-5)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *args, **options: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )
    one.records[1].start, one.records[1].steps = 0, 3
    one.trained.fit(one.records[1], shuffle=False, verbose=0)
    assert not compiled  # Shapes are static.


def test_settings(start):
    start("settings")
    with pytest.raises(ValueError, match="with other settings: `learning_rate` was 0.001, is 0.5"):
        start("settings", learning_rate=0.5)
    with pytest.raises(ValueError, match="with other settings: `phases.0.steps` was 7, is 6"):
        start("settings", phases=[{"length": 16, "steps": 6, "batch": 16}, {"length": 24, "steps": 4, "batch": 8}])
    for name, changes in (
        ("--pack", {"pack": True}),
        ("--teacher", {"teacher": "other"}),
        ("--gradient_accumulation", {"gradient_accumulation": 2}),
        ("--causal", {"objective": Objective(next_sentence=False, causal=True)}),
    ):
        with pytest.raises(ValueError, match=f"--engine=fit: not with {name}. Expected --engine=trainer"):
            start("run", **changes)
    with pytest.raises(ValueError, match="expected one source for each length of a --phase, .16."):
        start("other", phases=[{"length": 16, "steps": 1, "batch": 8}])


def test_float16(start):
    """The loss is scaled; a resumed run has the scale of the snapshot."""
    phases = [{"length": 16, "steps": 2, "batch": 16}, {"length": 24, "steps": 1, "batch": 8}]
    run = start("half", precision="mixed_float16", phases=phases)
    run.trained.optimizer.dynamic_scale.assign(1024.0)
    run.fit()
    second = start("half", precision="mixed_float16", phases=phases)
    assert second.step == 3
    assert float(second.trained.optimizer.dynamic_scale) == 1024
    for one, two in zip(run.trained.optimizer.variables, second.trained.optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(two), err_msg=one.path)


def test_a_loss_that_is_not_finite(start):
    run = start("diverging")
    run.trained.fit = lambda *args, **options: types.SimpleNamespace(history={"loss": [math.nan]})
    with pytest.raises(FloatingPointError, match="the loss of steps up to 3 is nan. Lower the learning rate"):
        run.fit()
    assert not list(run.directory.glob("snapshots/step-*"))


def test_equals_google_tf1(golden, tmp_path):
    """Twelve steps of Google's program, on JAX on four devices: equal losses and weights."""
    folder, data = golden / "google_tf1_training", dict(np.load(golden / "google_tf1_training" / "golden.npz"))
    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    names |= {"mask_positions": "masked_lm_positions", "mask_labels": "masked_lm_ids"}
    names |= {"mask_weights": "masked_lm_weights", "next_sentence_labels": "next_sentence_labels"}
    rows = {theirs: np.concatenate(data[ours]) for ours, theirs in names.items()}
    rows["next_sentence_labels"] = rows["next_sentence_labels"][:, None]
    write(tmp_path / "golden.tfrecord", rows)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"piece{number}" for number in range(56))]
    records = keras_bert.RecordDataset(f"{tmp_path}/*.tfrecord", pieces, batch_size=4, shuffle=False)
    if keras.config.backend() == "jax":
        devices = keras.distribution.list_devices()[:4]
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    try:
        model = keras_bert.load(folder).pretrainer()
        schedule = [data[name].item() for name in ("learning_rate", "total_steps", "warmup_steps")]
        optimizer = keras_bert.create_optimizer(model, *schedule, bias_correction=False)
        model.compile(optimizer, records.losses())
        found = []
        for step in range(12):
            records.start, records.steps = step, step + 1
            history = model.fit(records, shuffle=False, verbose=0).history
            found.append([history[name][0] for name in ("loss", "mlm_logits_loss", "nsp_logits_loss")])
    finally:
        if keras.config.backend() == "jax":
            keras.distribution.set_distribution(None)
    expected = np.stack([data[name] for name in ("loss", "mlm_loss", "nsp_loss")], 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for path in [folder / "bert_config.json", *(folder / "after").iterdir()]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    after = {weight.path: to_numpy(weight) for weight in keras_bert.load(tmp_path).pretrainer().weights}
    for weight in model.trainable_variables:
        np.testing.assert_allclose(to_numpy(weight), after[weight.path], atol=1e-4, err_msg=weight.path)
