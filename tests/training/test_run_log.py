"""The log of a run, its callbacks, and TensorBoard's event files."""

import json

import pytest
import tensorflow as tf

from keras_bert.training import callbacks, run_log

RATE = {"module": "m", "config": {"peak": 0.5}}
SETTINGS = {"seed": 1, "optimizer": {"learning_rate": RATE}, "weights": {"w": [1]}}


def log_of(directory, every=2, state=None, total=5, reporters=()):
    return run_log.RunLog(directory, total, every, state, callbacks=reporters)


def step(log, number, loss):
    log.add(number, [{"loss": loss, "learning_rate": number / 10}], {"examples": 5.0})


def lines_of(directory):
    text = (directory / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_means_and_the_first_and_last_step(tmp_path):
    log = log_of(tmp_path)
    log.add(1, [{"loss": 3.0, "learning_rate": 0.1}], {})
    assert log.state()["pending"] == [{"loss": 3.0, "learning_rate": 0.1}]
    step(log, 2, 1.0)
    step(log, 3, 8.0)
    log.evaluated(3, {"f1": 0.5})
    log.write(3, {})  # Stopped early.
    log.close()
    assert lines_of(tmp_path) == [
        {"step": 1, "kind": "train", "loss": 3.0, "learning_rate": 0.1},
        {"step": 2, "kind": "train", "loss": 2.0, "learning_rate": 0.2, "time": {"examples": 5.0}},
        {"step": 3, "kind": "evaluation", "f1": 0.5},
        {"step": 3, "kind": "train", "loss": 8.0, "learning_rate": 0.3},
    ]


def test_several_steps_of_one_call(tmp_path):
    """The last line has the mean of the steps since the one before."""
    log = log_of(tmp_path)
    losses = [3.0, 1.0, 8.0, 6.0, 5.0]
    means = log.add(5, [{"loss": loss, "learning_rate": 0.1} for loss in losses], {})
    log.close()
    assert means["loss"] == 5
    lines = [(line["step"], line["loss"]) for line in lines_of(tmp_path)]
    assert lines == [(1, 3), (2, 2), (4, 7), (5, 5)]


def values_of_plugin(directory, plugin):
    """Returns the values of a plugin in an event folder, in the order of the file: step, tag and content."""
    (path,) = directory.iterdir()
    values = []
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == plugin:
                values.append((event.step, value.tag, tf.make_ndarray(value.tensor)))
    return values


def points(directory):
    scalars = values_of_plugin(directory, "scalars")
    return [(step, tag, pytest.approx(float(number))) for step, tag, number in scalars]


def test_tensorboard_keeps_one_curve_after_an_interruption(tmp_path):
    board = tmp_path / "tensorboard"
    log = log_of(tmp_path, reporters=[callbacks.TensorBoard(board)])
    log.begin(0, SETTINGS, finished=False)
    step(log, 1, 3.0)
    step(log, 2, 1.0)
    log.evaluated(2, {"f1": 0.5})
    state = log.state()
    for number in (3, 4):  # Lost in the interruption.
        step(log, number, 9.0)
    log.close()
    log = log_of(tmp_path, state=state, reporters=[callbacks.TensorBoard(board)])
    log.begin(2, SETTINGS, finished=False)
    step(log, 3, 1.0)
    step(log, 4, 2.0)
    log.finish({})
    expected = []
    for number, loss, rate in ((1, 3.0, 0.1), (2, 2.0, 0.2), (4, 1.5, 0.4)):
        expected.append((number, "train/loss", loss))
        expected.append((number, "train/learning_rate", rate))
        expected.append((number, "speed/examples_per_second", 5.0))
        if number == 2:
            expected.append((number, "evaluation/f1", 0.5))
    assert points(board) == expected


def test_tensorboard_has_the_settings_and_a_new_run_replaces_the_curves(tmp_path):
    board = tmp_path / "tensorboard"
    for losses in ([3.0], []):
        log = log_of(tmp_path, reporters=[callbacks.TensorBoard(board)])
        log.begin(0, SETTINGS, finished=False)
        for loss in losses:
            step(log, 1, loss)
        log.finish({})
    assert points(board) == []
    ((_, _, text),) = values_of_plugin(board, "text")
    lines = text[0].decode().splitlines()
    assert lines[2:] == ["| seed | 1 |", "| optimizer.learning_rate.peak | 0.5 |"]


class Service(callbacks.TrackingService):
    """A service that keeps what it receives in a list."""

    name = "service"

    def __init__(self, directory, received):
        super().__init__(directory, "name")
        self.received = received

    def start(self, run_id, settings):
        return run_id or "new"

    def send(self, step, numbers):
        self.received.append((self._state["id"], step, sorted(numbers)))


def test_services_receive_each_point_once(tmp_path):
    received = []
    for start, steps in ((0, [1, 2, 3]), (1, [2, 3, 4]), (0, [1])):
        service = Service(tmp_path, received)
        service.on_train_begin({}, start)
        for number in steps:
            service.on_log(number, {"loss": 1.0, "examples_per_second": 2.0})
            service.on_evaluation(number, {"f1": 0.5})
    expected = []
    for number in (1, 2, 3, 4, 1):
        expected.append(("new", number, ["speed/examples_per_second", "train/loss"]))
        expected.append(("new", number, ["evaluation/f1"]))
    assert received == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("comet", "`report_to` must be one of tensorboard, wandb, mlflow. Received: 'comet'"),
        ("wandb", "the package wandb is not installed. Run `pip install wandb`"),
    ],
)
def test_unknown_and_missing_services(monkeypatch, name, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=message):
        callbacks.create_callbacks(["tensorboard", name], "runs", "a run")
