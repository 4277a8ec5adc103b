"""The arguments of `fit`, before a task is made."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_bert.runs.fit_arguments import grid_choices


def test_values_of_a_grid_are_lists():
    choices = grid_choices(learning_rate=np.array([1e-3, 1e-4]), batch_size=None, epochs=(2, 3), seed=0)
    assert choices == {"learning_rate": [1e-3, 1e-4], "batch_size": [], "epochs": [2, 3], "seed": [0]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": lambda step: 1.0}, "`learning_rate` must be numbers; schedules are for `create_optimizer`"),
        ({"learning_rate": -1.0}, "`learning_rate` must be a number of at least 0"),
        ({"epochs": 0}, "`epochs` must be a positive integer"),
        ({"seed": -1}, "`seed` must be "),
    ],
)
def test_numbers_that_no_run_can_have(values, message):
    with pytest.raises(ValueError, match=message):
        grid_choices(**values)
