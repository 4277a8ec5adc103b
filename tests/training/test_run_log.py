"""Progress lines, metrics and TensorBoard of a run."""

import io
import json

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.training import run_log  # noqa: E402

pytestmark = pytest.mark.tensorflow


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by tests."""
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "81")
    monkeypatch.setenv("LINES", "25")
    return now


def show(progress, clock, steps):
    for step, second in steps:
        clock[0] = second
        progress.show(step, {"loss": 0.51234, "learning_rate": 3e-5}, {"tokens": 12345.6, "steps": 2.34})


def test_a_terminal_line_is_overwritten(clock):
    screen = Screen()
    progress = run_log.Progress(1000, screen)
    show(progress, clock, [(100, 1.0), (200, 1.05), (300, 3.1)])
    numbers = "loss 0.5123, lr 3.0e-05, 12,346 tok/s, 2.3 steps/s"
    # 200 steps in 2.1 s; no line is longer than the terminal.
    lines = [f"step 100/1,000, ? left, {numbers}"[:80], f"step 300/1,000, 00:07 left, {numbers}"[:80]]
    assert [line for line in screen.getvalue().split("\r") if line] == lines
    progress.say("evaluated")
    progress.close()
    assert "\revaluated\n" in screen.getvalue()
    assert screen.getvalue().endswith("\n")


def test_a_log_file_gets_a_line_every_10_seconds(clock):
    log = io.StringIO()
    progress = run_log.Progress(1000, log)
    show(progress, clock, [(step, step / 10) for step in range(10, 1001, 10)])
    progress.say("evaluated")
    progress.close()
    lines = log.getvalue().splitlines()
    assert len(lines) == 12
    assert lines[1] == "step 110/1,000, 01:29 left, loss 0.5123, lr 3.0e-05, 12,346 tok/s, 2.3 steps/s"
    assert lines[-2] == "evaluated"
    assert lines[-1].startswith("step 1,000/1,000, 00:00 left, loss 0.5123")
    assert "\r" not in log.getvalue()


def test_metrics_and_tensorboard(tmp_path):
    log = run_log.RunLog(tmp_path, total=4, every=2, show=False)
    log.add(1, [{"loss": 3.0, "learning_rate": 0.1}], {"tokens": 5.0})
    assert log.state() == {"pending": [{"loss": 3.0, "learning_rate": 0.1}], "size": 0}
    log.add(2, [{"loss": 1.0, "learning_rate": 0.2}], {"tokens": 7.0})
    log.evaluated(2, {"f1": 0.5})
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [
        {"step": 2, "kind": "train", "loss": 2.0, "learning_rate": 0.2, "time": {"tokens": 7.0}},
        {"step": 2, "kind": "evaluation", "f1": 0.5},
    ]
    (events,) = (tmp_path / "tensorboard").iterdir()
    found = {
        value.tag: float(tf.make_ndarray(value.tensor))
        for record in tf.data.TFRecordDataset(str(events))
        for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value
        if value.metadata.plugin_data.plugin_name == "scalars"
    }
    rate = pytest.approx(0.2)
    assert found == {"train/loss": 2, "train/learning_rate": rate, "train/tokens": 7, "evaluation/f1": 0.5}
