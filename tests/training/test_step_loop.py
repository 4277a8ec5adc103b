"""The loop over training steps: where its calls end, and what it tells of each."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training import step_loop
from keras_bert.training.distribution import dividing
from keras_bert.training.interruption import Interruption
from keras_bert.training.losses import Loss
from keras_bert.training.step import StepOptions
from keras_bert.training.step_loop import StepLoop, rates
from tests.training.small_run import numbered


def test_rates_are_those_of_the_batches():
    """10 examples and 60 tokens in an epoch of 5 steps: 4 and 24 in two steps, which take half a second."""
    batches = types.SimpleNamespace(num_examples=10, tokens=60, steps=5)
    assert rates(batches, 2, 0.5) == {"examples": 8.0, "tokens": 48.0, "steps": 4.0}


def test_unknown_rates_are_left_out():
    batches = types.SimpleNamespace(num_examples=None, tokens=None, steps=5)
    assert rates(batches, 2, 0.5) == {"steps": 4.0}


class Program:
    """Trains nothing; step 6 has another loss. Notes the steps of each call."""

    def __init__(self, loss=1.0):
        self.strategy = tf.distribute.get_strategy()
        self.losses = [Loss("loss", None)]
        self.model = keras.Sequential()
        self.step = types.SimpleNamespace(names=["loss", "stop"])
        self.divide = dividing(self.losses)
        self.calls = []
        self._loss = loss

    def train(self, iterator, step, count, is_requested):
        self.calls.append((step, count))
        numbers = np.tile([1.0, float(is_requested)], (count, 1))
        if step <= 6 < step + count:
            numbers[6 - step, 0] = self._loss
        return numbers


@pytest.fixture
def loop(monkeypatch):
    """Trains 12 steps with a program; returns what each call has done."""
    monkeypatch.setattr(step_loop, "check_memory", lambda *_: None)

    def run(program, interruption=None):
        options = StepOptions(steps_per_call=4)
        loop = StepLoop(program, options, interruption or Interruption(), show=False)
        return loop.run(numbered(*range(12)), 0, 12, every=(5, 12))

    return run


def test_calls_end_at_multiples(loop):
    """The first call, which is traced, has one step; later ones end where something follows, and at the end."""
    program = Program()
    done = list(loop(program))
    assert program.calls == [(0, 1), (1, 4), (5, 4), (9, 1), (10, 2)]
    assert [call.step for call in done] == [1, 5, 9, 10, 12]
    assert done[1].numbers == [{"loss": 1.0}] * 4
    assert done[0].rates == {}  # Its time is that of tracing.
    assert done[1].rates["steps"] > 0


def test_a_signal_is_told(loop, monkeypatch):
    interruption = Interruption()
    calls = loop(Program(), interruption)
    assert not next(calls).is_signalled
    monkeypatch.setattr(interruption, "requested", True)
    assert next(calls).is_signalled


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_names_its_step(loop, loss):
    with pytest.raises(FloatingPointError, match="not finite at step 6: .*Usual causes: a learning rate"):
        list(loop(Program(loss)))
