"""Runs: stopped by signals, resumed, extended; phases; the best weights; errors."""

import functools
import json
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Phases, Stream
from keras_bert.training import run_state, step_loop, trainer
from keras_bert.training.callbacks import Callback
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.losses import Loss
from keras_bert.training.schedule import LinearSchedule, SequentialSchedule
from keras_bert.training.trainer import Trainer
from tests.conftest import eagerly
from tests.pipelines import programs
from tests.training import small_run, small_towers
from tests.training.small_run import arrays, linear, metrics, numbered, steps_of


def cut():
    raise KeyboardInterrupt


def assert_equal_state(run, expected):
    """Compares weights and moments."""
    variables = [*run.model.weights, *run.optimizer.variables]
    others = [*expected.model.weights, *expected.optimizer.variables]
    for variable, other in zip(variables, others, strict=True):
        np.testing.assert_array_equal(variable.numpy(), other.numpy(), err_msg=variable.path)


def send(number):
    """Sends a signal to this process."""
    os.kill(os.getpid(), number)


@pytest.fixture
def ctrl_c():
    """Shells let background jobs ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """With dropout; interrupted mid-epoch by SIGTERM, then by an error three steps after the last snapshot."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(22, 3)).astype("float32")
    targets = rng.normal(size=22).astype("float32")
    inputs = {"x": tf.RaggedTensor.from_tensor(values)}
    batches = keras_bert.data.Batches(inputs, targets, batch_size=4)

    def fit(directory, after_save=None):
        run = linear(directory, total=12, dropout=0.5, steps_per_call=2)
        run.fit(batches, epochs=2, save_every=3, log_every=5, after_save=after_save)
        return run

    def fail_after_the_last_step():
        if steps_of(folder)[-1] == 12:
            shutil.rmtree(folder / "step-000000012")
            cut()

    folder = tmp_path / "cut" / "snapshots"
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as error:  # After step 3; a call of two steps follows.
        fit(folder.parent, lambda: send(signal.SIGTERM))
    assert error.value.code == 143
    assert steps_of(folder) == [3, 5]
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
            send(signal.SIGINT)


def fit_with_evaluations(directory, pressed_at=None, **options):
    """Five steps, evaluated after every second one; Ctrl-C is pressed after a step."""

    def mean(targets, outputs):
        return {"mean": outputs["logits"].mean()}

    run = linear(directory, metrics=mean, callbacks=[Press(pressed_at)])
    return run.fit(numbered(3, 1, 4, 1, 5), evaluation=numbered(2, 7), evaluate_every=2, log_every=1, **options)


@pytest.mark.usefixtures("eager", "ctrl_c")
def test_ctrl_c_saves_the_run(tmp_path, capsys):
    """During a step, and during an evaluation, which is repeated."""
    cut_folder = tmp_path / "cut"
    for pressed_at, step in ((1, 2), (4, 4)):
        message = f"stopped at step {step} of 5, saved to .*cut; repeat the "
        with pytest.raises(KeyboardInterrupt, match=message):
            fit_with_evaluations(cut_folder, pressed_at)
        assert steps_of(cut_folder / "snapshots")[-1] == step
    assert [line["step"] for line in metrics(cut_folder, "evaluation")] == [2]
    assert fit_with_evaluations(cut_folder) == fit_with_evaluations(tmp_path / "whole")
    assert metrics(cut_folder) == metrics(tmp_path / "whole")
    assert "the run resumes at step 4 of 5" in capsys.readouterr().err


@pytest.mark.usefixtures("eager", "ctrl_c")
def test_a_second_ctrl_c_ends_a_run_at_once(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="^$"):
        fit_with_evaluations(tmp_path, 1, after_save=lambda: send(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("eager", "ctrl_c")
def test_ctrl_c_in_a_run_without_a_folder():
    run = linear(callbacks=[Press(2)])
    with pytest.raises(KeyboardInterrupt, match="stopped at step 2 of 2, not saved"):
        run.fit(numbered(3, 1), evaluation=numbered(2), log_every=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("eager", "ctrl_c")
def test_a_run_whose_evaluation_was_interrupted_resumes_without_one(tmp_path):
    """It is an ordinary run from then on: its result are the losses, also when it is finished and called again."""

    def fit(name, callbacks=(), **options):
        run = linear(tmp_path / name, callbacks=list(callbacks))
        return run.fit(numbered(3, 1, 4), evaluate_every=2, log_every=1, **options)

    with pytest.raises(KeyboardInterrupt, match="stopped at step 2 of 3"):
        fit("cut", [Press(2)], evaluation=numbered(2))
    expected = fit("whole")
    assert fit("cut") == expected
    assert fit("cut") == expected


def rates_of(directory):
    return [line["learning_rate"] for line in metrics(directory)]


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_extended(tmp_path):
    """The same as one run with both schedules; only a finished run, with more steps and equal other settings."""
    numbers = numbered(3, 1, 4, 1, 5)
    schedules = [LinearSchedule(0.1, 3, warmup_steps=1), LinearSchedule(0.3, 4, warmup_steps=2)]

    def fit(name, steps, count, part="one", **options):
        schedule = SequentialSchedule(schedules[:count])
        run = linear(tmp_path / name, schedule, settings={"part": part, "task": "mrpc"})
        run.fit(numbers, steps=steps, log_every=1, **options)
        return run

    whole = fit("whole", 7, 2)
    expected = [0, 0.1 * 2 / 3, 0.1 / 3, 0, 0.15, 0.15, 0.075]  # By hand: warm-up and decay, twice.
    assert rates_of(tmp_path / "whole") == pytest.approx(expected)
    fit("parts", 3, 1)
    with pytest.raises(ValueError, match="`part` was 'one', is 'two'"):
        fit("parts", 7, 2, "two", extend=[])
    parts = fit("parts", 7, 2, "two", extend=["part"])
    assert_equal_state(parts, whole)
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    with pytest.raises(ValueError, match="`part` was 'two', is 'one'"):
        fit("parts", 6, 2, extend=["part"])


def fit_to_the_end(directory, steps=5, **options):
    run = linear(directory, **options)
    run.fit(numbered(3, 1, 4), steps=steps, save_every=2)
    return run


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_restored(tmp_path, monkeypatch):
    """From the last one of two snapshots, without reading a batch."""
    whole = fit_to_the_end(tmp_path)
    assert steps_of(tmp_path / "snapshots") == [4, 5]
    monkeypatch.setattr(step_loop, "replica_dataset", None)
    assert_equal_state(fit_to_the_end(tmp_path), whole)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """The folder of a run that tests do not change."""
    folder = tmp_path_factory.mktemp("finished")
    with eagerly():
        fit_to_the_end(folder)
    return folder


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"learning_rate": 1e-3}, "`optimizer.learning_rate.config.learning_rate` was 0.1, is 0.001"),
        ({"seed": 4}, "`seed` was 0, is 4"),
        ({"settings": {"task": "mrpc"}}, "`task` is set only now: 'mrpc'"),
        ({"steps": 6}, "`total_steps` was 5, is 6"),
    ],
)
def test_a_run_with_other_settings_is_not_resumed(finished_run, options, difference):
    message = f"contains a run with different settings: {difference}. Expected the same settings to resume it, or"
    with pytest.raises(ValueError, match=message):
        fit_to_the_end(finished_run, **options)


@pytest.mark.usefixtures("eager")
def test_phases_equal_one_run(tmp_path):
    """Of the same batches; also if the run is cut at the end of the first phase."""
    numbers = (3, 1, 4, 1, 5, 9)
    dataset = tf.data.Dataset.from_tensor_slices(arrays(*numbers))
    phases = Phases([(Stream(dataset.take(4)), 4), (Stream(dataset.skip(4)), 2)])
    whole = linear(tmp_path / "whole")
    whole.fit(dataset, log_every=1)
    with pytest.raises(KeyboardInterrupt):
        linear(tmp_path / "parts").fit(phases, log_every=1, save_every=4, after_save=cut)
    parts = linear(tmp_path / "parts")
    parts.fit(phases, log_every=1)
    lines = metrics(tmp_path / "parts")
    assert lines == metrics(tmp_path / "whole")
    assert [line["number"] for line in lines] == list(numbers)
    # Google's schedule: warm-up over 3 steps, then the line from 0.1 at step 0 to 0 at step 8.
    expected = [0, 0.1 / 3, 0.2 / 3, 0.1 * 5 / 8, 0.1 * 4 / 8, 0.1 * 3 / 8]
    assert rates_of(tmp_path / "parts") == pytest.approx(expected)
    assert_equal_state(parts, whole)


def inverse(step):
    return 0.4 / (1 + step)


def fit_schedule(directory, schedule, **options):
    linear(directory, schedule).fit(numbered(3, 1, 4), log_every=1, **options)


@pytest.mark.usefixtures("eager")
def test_schedules_of_ones_own(tmp_path):
    """In the log; the run resumes with the same one only. A schedule of Keras and its formula give the same run."""
    other = keras.optimizers.schedules.InverseTimeDecay(0.3, 1, 1.0)
    schedules = {"keras": keras.optimizers.schedules.InverseTimeDecay(0.4, 1, 1.0), "function": inverse}
    for name, schedule in schedules.items():
        folder = tmp_path / name
        with pytest.raises(KeyboardInterrupt):
            fit_schedule(folder, schedule, save_every=2, after_save=cut)
        fit_schedule(folder, schedule)
        assert rates_of(folder) == pytest.approx([0.4, 0.2, 0.4 / 3])
        with pytest.raises(ValueError, match="`optimizer.learning_rate"):
            fit_schedule(folder, other)
    assert metrics(tmp_path / "keras") == metrics(tmp_path / "function")


@pytest.mark.usefixtures("eager")
def test_a_function_is_known_by_its_rates(tmp_path):
    fit_schedule(tmp_path, inverse)
    same = functools.partial(lambda rate, step: rate / (1 + step), 0.4)
    fit_schedule(tmp_path, same)
    with pytest.raises(ValueError, match="`optimizer.learning_rate"):
        fit_schedule(tmp_path, lambda step: 0.3 / (1 + step))


@pytest.mark.usefixtures("eager")
def test_after_save_is_called_after_each_snapshot(tmp_path):
    run = linear(tmp_path)
    found = []

    def after_save():
        newest = sorted((tmp_path / "snapshots").iterdir())[-1]
        kernel = tf.train.load_checkpoint(str(newest / "variables")).get_tensor("model/0/linear/kernel")
        np.testing.assert_array_equal(kernel, run.model.get_weights()[0])
        found.append(int(newest.name.removeprefix("step-")))

    run.fit(numbered(*range(5)), save_every=2, after_save=after_save)
    assert found == [2, 4, 5]


@pytest.mark.usefixtures("eager")
def test_other_workers_write_nothing(tmp_path, monkeypatch):
    for module in (trainer, run_state):
        monkeypatch.setattr(module, "is_chief", lambda strategy: False)
    run = linear(tmp_path / "worker")
    run.fit(numbered(1, 2), after_save=lambda: pytest.fail("this worker must not write"))
    assert not (tmp_path / "worker").exists()


def test_one_trace_for_all_epochs_and_lengths(mirrored):
    """Each replica calls the loss once per trace; a phase with another source is traced with its static shapes."""
    traced = []

    def values(targets, outputs):
        traced.append(targets.shape.as_list())
        return tf.reduce_sum(outputs["logits"], [1, 2])

    def batches(batch_size):
        vectors = np.ones([28, 3], "float32")
        inputs = {"x": tf.RaggedTensor.from_row_lengths(vectors, [1, 2, 3, 4, 5, 6, 7])}
        return keras_bert.data.Batches(inputs, np.zeros(7), batch_size=batch_size, boundaries=[3, 7])

    def model():
        x = keras.Input((None, 3), name="x")
        return keras.Model({"x": x}, {"logits": keras.layers.Dense(1)(x)})

    def fit(phases, strategy=None):
        traced.clear()
        loss = Loss("x", values)
        run = Trainer(model, lambda model: keras_bert.AdamW(0.1), loss, strategy=strategy)
        run.fit(Phases(phases))
        return traced

    assert fit([(batches(4), 4), (batches(2), 8)]) == [[4], [2]]  # Epochs of 2 and 4 steps.
    assert len(fit([(batches(4), 4)], mirrored)) == 2


class Pipelines(Stream):
    """Notes how many input pipelines are made."""

    count = 0

    def dataset(self, *arguments, **options):
        self.count += 1
        return super().dataset(*arguments, **options)


@pytest.mark.usefixtures("eager")
def test_best_weights_are_restored(tmp_path):
    """Also by a run that finds itself finished."""
    scores = [0.1, 0.5, 0.4, 0.3, 0.9, 0.9]
    kernels = []

    def metric(targets, outputs):
        kernels.append(run.model.get_weights()[0])
        return {"score": scores[len(kernels) - 1]}

    for _ in range(2):
        run = linear(tmp_path, metrics=metric)
        held_out = Pipelines(tf.data.Dataset.from_tensor_slices(arrays(1)))
        result = run.fit(numbered(*range(6)), evaluation=held_out, evaluate_every=1, best="score", patience=2)
        assert result["score"] == 0.5
        assert result["step"] == 2
        assert len(kernels) == 4
        assert held_out.count <= 1  # One for all evaluations.
        np.testing.assert_array_equal(run.model.get_weights()[0], kernels[1])


@pytest.mark.parametrize(
    ("batches", "options", "message"),
    [
        (numbered(1), {"best": "loss"}, "`best` needs `evaluation`, and a `directory` .* Received: best='loss'"),
        (numbered(1), {"patience": 2}, "`patience` needs `best`, the metric to monitor. Received: patience=2"),
        (numbered(1), {"steps": -1}, "`steps` and `epochs` must be at least 1. Received: steps=-1"),
        (numbered(1), {"epochs": 0}, "`epochs`"),
        (Phases([(numbered(0, 1), 5)]), {"steps": 8}, "`step`.*step=7, steps=5"),
    ],
)
def test_bad_arguments_of_fit(batches, options, message):
    """Raised before the first step."""
    run = linear()
    with pytest.raises(ValueError, match=message):
        run.fit(batches, evaluation=numbered(1), **options)
    assert int(run.optimizer.iterations) == 0


def test_losses_of_keras_are_refused():
    with pytest.raises(ValueError, match="`loss` must be a loss of keras_bert.losses, such as .* Received: loss=<Loss"):
        linear(loss=keras.losses.MeanSquaredError())


@pytest.mark.usefixtures("eager")
def test_a_loss_that_is_not_finite_names_the_step():
    def values(targets, outputs):
        return tf.where(targets == 4, float("nan"), outputs["logits"][:, 0])

    with pytest.raises(FloatingPointError, match="not finite at step 2"):
        linear(loss=Loss("loss", values)).fit(numbered(3, 1, 4, 1))


OUT_OF_MEMORY = "^out of memory at a batch of 4 sequences of length 3. Lower the batch size .*remat=True$"


def full(*_, **__):
    """Raises an error like that of TensorFlow's allocator."""
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[16,12,512,512]")


def rows_of_three():
    inputs = {"x": tf.RaggedTensor.from_row_lengths(np.ones(12, "float32"), [3, 3, 3, 3])}
    return keras_bert.data.Batches(inputs, np.zeros(4), batch_size=4)


@pytest.mark.usefixtures("eager")
def test_training_that_is_out_of_memory():
    run = linear(loss=Loss("full", full))
    with pytest.raises(MemoryError, match=OUT_OF_MEMORY):
        run.fit(rows_of_three())
    with pytest.raises(MemoryError, match=r"^out of memory: OOM when allocating .*512\]. Lower the batch size"):
        run.fit(numbered(1, 2))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("method", ["predict", "evaluate"])
def test_evaluation_that_is_out_of_memory(monkeypatch, method):
    run = linear()
    monkeypatch.setattr(Evaluator, "outputs", full)
    with pytest.raises(MemoryError, match=OUT_OF_MEMORY):
        getattr(run, method)(rows_of_three())


@pytest.mark.slow
def test_two_workers_change_nothing(two_addresses, tmp_path):
    """A BERT, and towers whose loss has the rows of both workers as negatives."""
    workers = []
    for index in range(2):
        config = {"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}}
        worker = programs.start("tests.training.small_worker", tmp_path, index, TF_CONFIG=json.dumps(config))
        workers.append(worker)
    run = small_run.trainer(tmp_path / "alone")
    small_run.fit(run)
    towers = small_towers.train(tmp_path / "towers-alone")
    for index, worker in enumerate(workers):
        programs.finish(worker)
        weights = np.load(tmp_path / f"bert-{index}.npz")
        small_run.assert_same_weights(weights, small_run.weights(run))
        found = towers._replace(
            steps=small_towers.losses(tmp_path / "towers"),
            weights=dict(np.load(tmp_path / f"towers-{index}.npz")),
        )
        small_towers.assert_same(found, towers)
    for found, line in zip(metrics(tmp_path / "bert"), metrics(tmp_path / "alone"), strict=True):
        assert found == pytest.approx(line, rel=1e-4)
