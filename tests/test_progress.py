"""Progress lines on a terminal and in a pipe; `logging` stays as the program has configured it."""

import io
import logging
import time
from unittest import mock

import pytest
from absl import logging as absl_logging

from keras_bert import progress
from keras_bert.progress import quiet_tensorflow


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by tests; the terminal has 80 columns."""
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "80")
    return now


RATES = {"examples": 99.6, "tokens": 12345.6, "steps": 2.34}


def show(shown, clock, steps, rates=RATES):
    for step, second in steps:
        clock[0] = second
        shown.show(step, {"loss": 0.51234, "gradient_norm": 1.5, "learning_rate": 3e-5}, rates)


@pytest.mark.parametrize("columns", [80, 100])
def test_a_terminal_line_is_overwritten(clock, monkeypatch, columns):
    """200 steps in 2.1 s; the later runs take twice the time of this one. As many numbers are shown as fit."""
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen()
    shown = progress.Progress(run=3, runs=4, rest=2.0, resumed=True, stream=screen)
    shown.begin(100, 1000, per_epoch=200)
    show(shown, clock, [(100, 1.0)], {})
    show(shown, clock, [(200, 1.05), (300, 3.1)])
    shown.evaluated(300, {"macro_f1": 0.5, "loss": 1.25})
    shown.evaluated(400, {"loss": 1.5})
    shown.close()
    written = screen.getvalue().replace("\n", "\r").split("\r")
    assert max(map(len, written)) <= columns
    lines = [line.strip() for line in written if line.strip()]
    assert lines[0] == "2 of 4 runs are finished; run 3 resumes at step 100 of 1,000"
    assert lines[1].startswith("run 3 of 4, step 100/1,000, loss 0.5123, lr 3.0e-05, norm 1.5")
    times = "00:07 left, 00:28 for all runs"
    numbers_that_fit = {80: "loss 0.5123", 100: "loss 0.5123, 100 ex/s, 12,346 tok/s"}
    numbers = numbers_that_fit[columns]
    assert lines[2] == f"run 3 of 4, step 300/1,000, {times}, {numbers}"
    assert "run 3 of 4, step 300 of 1,000: evaluation macro f1 50.00%, loss 1.25" in lines
    assert "run 3 of 4, epoch 2 of 5: evaluation loss 1.5" in lines
    assert screen.getvalue().endswith("\n")


def test_a_pipe_gets_a_line_every_10_seconds(clock):
    log = io.StringIO()
    shown = progress.Progress(stream=log)
    shown.begin(0, 1000)
    show(shown, clock, [(1, 0.0)], {})
    show(shown, clock, [(step, step / 10) for step in range(10, 1001, 10)], {"steps": 0.04})
    shown.close()
    lines = log.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "step 1/1,000, loss 0.5123, lr 3.0e-05, norm 1.5"
    assert lines[1] == "step 100/1,000, 01:30 left, loss 0.5123, 25 s/step, lr 3.0e-05, norm 1.5"
    assert lines[-1] == "step 1,000/1,000, in 01:40, loss 0.5123, 25 s/step, lr 3.0e-05, norm 1.5"


def test_no_stream(monkeypatch):
    """As in programs without a console, and a stream that cannot tell what it is."""
    for stream in (None, mock.Mock(spec=["write", "flush"])):
        monkeypatch.setattr("sys.stderr", stream)
        assert list(progress.track([1, 2], "doing")) == [1, 2]
        shown = progress.Progress()
        shown.begin(1, 2)
        shown.show(2, {"loss": 0.5}, RATES)
        shown.close()


def test_other_jobs_are_shown_after_two_seconds(clock, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    for _ in progress.track("abcde", "tokenizing"):
        clock[0] += 0.1
    assert screen.getvalue() == ""

    for item in progress.track("abcde", "tokenizing"):
        clock[0] += 1.0
        is_shown = "tokenizing" in screen.getvalue()
        assert is_shown == (item in "cde")
    lines = screen.getvalue().split("\r")
    shown = [line.strip() for line in lines if line.strip()]
    assert shown[0].startswith("tokenizing: 2/5, 00:03 left")
    assert lines[-2].strip() == ""  # Nothing is left on the screen.


@pytest.mark.parametrize(("delay", "expected"), [(60, ""), (0, "tracing the step ...\n")])
def test_a_long_step_is_announced(monkeypatch, delay, expected):
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    with progress.announced("tracing the step", delay=delay):
        time.sleep(0.2)
    assert log.getvalue() == expected


def test_logging_of_the_program(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with quiet_tensorflow():
        absl_logging.info("absl configures `logging` with its first message")
        logging.getLogger("tensorflow").warning("5 out of the last 5 calls triggered tf.function retracing")
        logging.getLogger("tensorflow").warning("Assets written to: .writing-1/assets")
        logging.getLogger("tensorflow").warning("Using MirroredStrategy eagerly has significant overhead currently")
        logging.getLogger("keras_bert").warning("shown")
    assert logging.getLogger().handlers == []
    assert capsys.readouterr().err == "keras_bert: shown\n"
