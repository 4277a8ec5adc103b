"""Interrupted and resumed runs, phases and streams."""

import math
import os
import shutil
import signal

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training import calls, run_state, trainer  # noqa: E402
from keras_bert.training.callbacks import Callback  # noqa: E402
from keras_bert.training.input_pipeline import Phases, Stream  # noqa: E402
from keras_bert.training.losses import regression_loss  # noqa: E402
from keras_bert.training.schedule import LinearSchedule, SequentialSchedule  # noqa: E402
from keras_bert.training.trainer import Trainer  # noqa: E402
from tests.training.small_run import arrays, linear, metrics, numbered, steps_of  # noqa: E402

pytestmark = pytest.mark.tensorflow


def cut():
    raise KeyboardInterrupt


def assert_equal_state(run, expected):
    """Compares weights and moments."""
    for variables in (lambda run: run.model.weights, lambda run: run.optimizer.variables):
        for variable, other in zip(variables(run), variables(expected), strict=True):
            np.testing.assert_array_equal(variable.numpy(), other.numpy(), err_msg=variable.path)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """With dropout; interrupted mid-epoch by SIGTERM, then by an error three steps after the last snapshot."""
    rng = np.random.default_rng(0)
    rows = tf.RaggedTensor.from_row_lengths(rng.normal(size=22 * 8).astype("float32"), [8] * 22)
    batches = keras_bert.Batches({"x": rows}, rng.normal(size=22).astype("float32"), batch_size=4)

    def model():
        x = keras.Input((8,), name="x")
        dropped = keras_bert.layers.Dropout(0.5)(x)
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(1, name="linear")(dropped)})

    def optimizer(model):
        return keras_bert.create_optimizer(model, 0.1, 12)

    def fit(directory, after_save=None):
        keras.utils.set_random_seed(3)
        run = Trainer(model, optimizer, regression_loss(), directory=directory, steps_per_call=2)
        run.fit(batches, epochs=2, save_every=3, log_every=5, after_save=after_save)
        return run

    def fail_after_the_last_step():
        if steps_of(folder)[-1] == 12:
            shutil.rmtree(folder / "step-000000012")
            cut()

    folder, handler = tmp_path / "cut" / "snapshots", signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as error:  # After step 3; a call of two steps follows.
        fit(folder.parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (error.value.code, steps_of(folder)) == (143, [3, 5])
    assert signal.getsignal(signal.SIGTERM) == handler
    with pytest.raises(KeyboardInterrupt):
        fit(folder.parent, fail_after_the_last_step)
    assert steps_of(folder) == [9]
    whole = fit(tmp_path / "whole")
    assert_equal_state(fit(folder.parent), whole)
    assert metrics(folder.parent) == metrics(tmp_path / "whole")


class Press(Callback):
    """Presses Ctrl-C after a step is logged."""

    def __init__(self, step):
        self.step = step

    def on_log(self, step, numbers):
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("eager")
def test_ctrl_c_saves_the_run(tmp_path, capsys):
    """During a step, during an evaluation, which is repeated, and twice."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells let background jobs ignore Ctrl-C.

    def fit(name, step=None, **options):
        run = linear(tmp_path / name, metrics=lambda y, out: {"mean": out["logits"].mean()}, callbacks=[Press(step)])
        return run.fit(numbered(3, 1, 4, 1, 5), evaluation=numbered(2, 7), evaluate_every=2, log_every=1, **options)

    for press, step, place in ((1, 2, "cut"), (4, 4, "cut")):
        with pytest.raises(KeyboardInterrupt, match=f"stopped at step {step} of 5, saved to .*{place}; repeat the "):
            fit("cut", press)
        assert steps_of(tmp_path / "cut" / "snapshots")[-1] == step
    assert [line["step"] for line in metrics(tmp_path / "cut", "evaluation")] == [2]
    assert fit("cut") == fit("whole")
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert "the run resumes at step 4 of 5" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt, match="^$"):
        fit("twice", 1, after_save=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="stopped at step 2 of 2, not saved"):
        linear(callbacks=[Press(2)]).fit(numbered(3, 1), evaluation=numbered(2), log_every=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_extended(tmp_path):
    """The same as one run with both schedules; only a finished run, with more steps and equal other settings."""
    numbers, schedules = numbered(3, 1, 4, 1, 5), [LinearSchedule(0.1, 3, 1), LinearSchedule(0.3, 4, 2)]

    def fit(name, steps, count, part="one", **options):
        run = linear(tmp_path / name, settings={"part": part, "task": "mrpc"})
        run.optimizer.learning_rate = SequentialSchedule(schedules[:count])
        run.fit(numbers, steps=steps, log_every=1, **options)
        return run

    whole = fit("whole", 7, 2)
    rates = [0, 0.1 * 2 / 3, 0.1 / 3, 0, 0.15, 0.15, 0.075]  # By hand: warm-up and decay, twice.
    assert [line["learning_rate"] for line in metrics(tmp_path / "whole")] == pytest.approx(rates)
    fit("parts", 3, 1)
    with pytest.raises(ValueError, match="`part` was 'one', is 'two'"):
        fit("parts", 7, 2, "two", extend=[])
    with pytest.raises(ValueError, match="`part` was 'one', is 'two'"):
        fit("parts", 7, 2, "two")
    parts = fit("parts", 7, 2, "two", extend=["part"])
    assert_equal_state(parts, whole)
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    with pytest.raises(ValueError, match="`part` was 'two', is 'one'"):
        fit("parts", 6, 2, extend=["part"])


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_only_restored_with_equal_settings(tmp_path, monkeypatch):
    """The last two snapshots are kept; the same run restores the last one, other settings raise an error."""

    def fit(steps=5, **options):
        run = linear(tmp_path, **options)
        run.fit(numbered(3, 1, 4), steps=steps, save_every=2)
        return run

    whole = fit()
    assert steps_of(tmp_path / "snapshots") == [4, 5]
    for options, difference in (
        ({"learning_rate": 1e-3}, r"`optimizer.learning_rate.config.learning_rate` was 0.1, is 0.001"),
        ({"seed": 4}, "`seed` was 0, is 4"),
        ({"settings": {"task": "mrpc"}}, "`task` is set only now: 'mrpc'"),
        ({"steps": 6}, "`total_steps` was 5, is 6"),
    ):
        message = f"contains a run with different settings: {difference}. Expected the same settings to resume it, or"
        with pytest.raises(ValueError, match=message):
            fit(**options)
    monkeypatch.setattr(calls, "replica_dataset", None)  # No batch is read.
    assert_equal_state(fit(), whole)


@pytest.mark.usefixtures("eager")
def test_a_run_of_phases_resumes_at_any_step(tmp_path):
    """At the end of an epoch (step 3) and of phases (steps 4 and 5); the other run trains several steps per call."""
    phases = Phases([(numbered(0, 1, 2), 4), (numbered(10, 11), 1), (numbered(0, 1, 2), 3)])
    whole = linear(tmp_path / "whole")
    whole.fit(phases, log_every=4)
    left = []

    def after_save():
        left.pop()
        if not left:
            cut()

    for saves, step in ((3, 3), (1, 4), (1, 5), (1, 6)):
        left += [None] * saves
        with pytest.raises(KeyboardInterrupt):
            linear(tmp_path / "cut").fit(phases, log_every=4, save_every=1, after_save=after_save)
        assert steps_of(tmp_path / "cut" / "snapshots")[-1] == step
    run = linear(tmp_path / "cut")
    run.fit(phases, log_every=4)
    # The first number, and the means of 0, 1, 2, 0 and of 10, 0, 1, 2.
    assert [line["number"] for line in metrics(tmp_path / "cut")] == [0, 0.75, 3.25]
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert_equal_state(run, whole)


def test_streams():
    """Epochs of 3 batches, each in a different order; a resumed run reads the batches not yet seen."""
    dataset = tf.data.Dataset.range(6).batch(2)

    def read(choose):
        batches = choose(Stream(dataset.shuffle(3, seed=1)))
        return [inputs.numpy().tolist() for inputs, *_ in batches.take(9)]

    seen = read(lambda stream: stream.segment(0).make_dataset())
    assert [sorted(seen[start : start + 3]) for start in (0, 3, 6)] == [[[0, 1], [2, 3], [4, 5]]] * 3
    assert seen[:3] != seen[3:6]
    assert read(lambda stream: stream.segment(4).make_dataset())[:5] == seen[4:]
    assert read(lambda stream: stream.dataset(epoch=2, start=1)) == seen[7:]
    assert Stream(dataset).segment(4).steps == math.inf  # One iterator reads every epoch.
    assert Stream(dataset.repeat(), steps=5).steps == 5
    with pytest.raises(ValueError, match="`steps`, the number of batches per epoch, is required"):
        Stream(dataset.filter(lambda x: True))


def test_phases_locate_a_step():
    """3 and 2 steps per epoch."""
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
    with pytest.raises(ValueError, match="`step` is past the last phase. Received: step=8, steps=8"):
        phases.segment(8)


@pytest.mark.usefixtures("eager")
def test_moments_and_learning_rate_carry_over_between_phases(tmp_path):
    """The same batches in one phase and in two phases."""
    numbers = (3, 1, 4, 1, 5, 9, 2)
    dataset = tf.data.Dataset.from_tensor_slices(arrays(*numbers))
    whole, parts = linear(tmp_path / "whole"), linear(tmp_path / "parts")
    whole.fit(dataset, log_every=1)
    parts.fit(Phases([(Stream(dataset.take(4)), 4), (Stream(dataset.skip(4)), 3)]), log_every=1)
    lines = metrics(tmp_path / "parts")
    assert lines == metrics(tmp_path / "whole")
    assert [line["number"] for line in lines] == list(numbers)
    # Google's schedule: warm-up over 3 steps, then the line from 0.1 at step 0 to 0 at step 8.
    rates = [0.1 * (step / 3 if step < 3 else 1 - step / 8) for step in range(7)]
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates)
    assert_equal_state(parts, whole)


def test_phases_that_are_too_short_raise_before_the_first_step():
    run = linear()
    before = run.model.get_weights()[0]
    with pytest.raises(ValueError, match="`step` is past the last phase. Received: step=7, steps=5"):
        run.fit(Phases([(numbered(0, 1), 5)]), steps=8)
    np.testing.assert_array_equal(run.model.get_weights()[0], before)


@pytest.mark.usefixtures("eager")
def test_after_save_is_called_after_each_snapshot(tmp_path, monkeypatch):
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
    linear(tmp_path / "worker").fit(numbered(1, 2), after_save=lambda: pytest.fail("this worker must not write"))
    assert not (tmp_path / "worker").exists()
