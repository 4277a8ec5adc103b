"""Schedules of the learning rate, against their formulas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.schedule import (
    FunctionSchedule,
    InverseSquareRootSchedule,
    LinearSchedule,
    SequentialSchedule,
    linear_numbers,
    linear_rate,
)


def rates(schedule, steps):
    return [float(schedule(step)) for step in steps]


def test_the_schedule_equals_googles():
    schedule = LinearSchedule(1.0, total_steps=10, warmup_steps=4)
    expected = [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]
    np.testing.assert_allclose(rates(schedule, range(12)), expected, atol=1e-6)
    assert float(LinearSchedule(2.0, 10)(0)) == 2.0


def test_the_schedule_of_the_transformer():
    """The formula of section 5.3, whose steps count from 1."""
    schedule = InverseSquareRootSchedule((512 * 4000) ** -0.5)
    steps = np.array([1, 10, 3999, 4000, 4001, 100_000])
    expected = 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5)
    np.testing.assert_allclose(rates(schedule, steps - 1), expected, rtol=1e-5)


def test_schedules_one_after_the_other():
    """Each has its own warm-up and decay."""
    first = LinearSchedule(0.1, 3, warmup_steps=1)
    second = LinearSchedule(0.3, 4, warmup_steps=2)
    schedule = SequentialSchedule([first, second])
    assert schedule.total_steps == 7
    expected = [0, 0.1 * 2 / 3, 0.1 / 3, 0, 0.15, 0.15, 0.075]
    np.testing.assert_allclose(rates(schedule, range(7)), expected, atol=1e-6)


@keras.saving.register_keras_serializable(package="tests")
def falling(step):
    return 0.4 / (1 + step)


def test_a_function_is_known_by_its_rates():
    schedule = FunctionSchedule(falling)
    assert rates(schedule, [0, 1, 3]) == pytest.approx([0.4, 0.2, 0.1])
    assert len(schedule.rates()) == 22
    assert schedule.rates()[:3] == pytest.approx([0.4, 0.2, 0.4 / 3])  # At the steps 0, 1 and 2.


@pytest.mark.parametrize(
    "schedule",
    [
        LinearSchedule(1.0, 10, warmup_steps=4),
        InverseSquareRootSchedule(1.0, 7),
        FunctionSchedule(falling),
        SequentialSchedule([LinearSchedule(1.0, 10), LinearSchedule(0.5, 3)]),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_configs(schedule):
    config = schedule.get_config()
    again = type(schedule).from_config(config)
    assert again.get_config() == config
    assert rates(again, range(13)) == rates(schedule, range(13))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LinearSchedule(-1.0, 10), "learning_rate"),
        (lambda: LinearSchedule(1.0, 0), "total_steps"),
        (lambda: LinearSchedule(1.0, 10, warmup_steps=11), "warmup_steps"),
        (lambda: InverseSquareRootSchedule(1.0, 0), "warmup_steps"),
        (lambda: SequentialSchedule([]), "schedules"),
        (lambda: FunctionSchedule(lambda step: None), "learning_rate"),
    ],
)
def test_wrong_settings(make, name):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        make()


@pytest.mark.parametrize(("rate", "total", "warmup"), [(3e-4, 37, 7), (0.01, 10, 0), (1.0, 7, 1), (5e-5, 111, 111)])
def test_linear_rates_are_those_of_the_constants(rate, total, warmup):
    schedule = LinearSchedule(rate, total, warmup_steps=warmup)
    steps = tf.range(total + 3)
    constants = tf.function(schedule)(steps)
    as_input = tf.function(linear_rate)(steps, tf.constant(linear_numbers(schedule)))
    assert as_input.numpy().tobytes() == constants.numpy().tobytes()


def test_only_linear_schedules_are_numbers():
    assert linear_numbers(keras_bert.translation.InverseSquareRootSchedule(1.0)).size == 0
