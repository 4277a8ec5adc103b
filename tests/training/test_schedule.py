"""Learning rate schedules, against their formulas."""

import numpy as np

import keras_bert


def test_the_schedule_equals_googles():
    schedule = keras_bert.LinearSchedule(1.0, total_steps=10, warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0], atol=1e-6)
    assert float(keras_bert.LinearSchedule(2.0, 10)(0)) == 2.0
    assert keras_bert.LinearSchedule.from_config(schedule.get_config()).get_config() == schedule.get_config()


def test_the_schedule_of_the_transformer():
    """The formula of section 5.3, whose steps count from 1."""
    schedule = keras_bert.translation.InverseSquareRootSchedule((512 * 4000) ** -0.5)
    steps = np.array([1, 10, 3999, 4000, 4001, 100_000])
    expected = 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5)
    np.testing.assert_allclose([float(schedule(step - 1)) for step in steps], expected, rtol=1e-5)
    again = keras_bert.translation.InverseSquareRootSchedule.from_config(schedule.get_config())
    assert again.get_config() == schedule.get_config()
