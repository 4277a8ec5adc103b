"""Default learning rates for the width of a model, and advice on runs whose loss hardly fell."""

import dataclasses

import pytest

import keras_bert
from keras_bert.tasks.base import Start, Task
from keras_bert.tasks.learning_rates import advice

pytestmark = pytest.mark.tensorflow


class Grid(Task):
    """A task of which only the grid is needed."""

    summarize = build = score = save_options = export_options = conclude = None
    learning_rates = 5e-5, 2e-5

    def __init__(self, config, load_options, scales_rates=True):
        self.config, self.start, self.scales_rates = config, Start("start", None, None, load_options), scales_rates


@pytest.mark.parametrize(
    ("width", "options", "rates"),
    [
        (1024, ({},), [5e-5, 2e-5]),
        (768, ({},), [5e-5, 2e-5]),
        (384, ({},), [1.5e-4, 6e-5]),
        (256, ({"num_layers": 2},), [5e-4, 2e-4]),
        (256, ({"vocabulary": "vocab.txt"},), [1e-3]),
        (256, ({}, False), [5e-5, 2e-5]),
    ],
)
def test_narrow_models_have_higher_rates(width, options, rates):
    config = dataclasses.replace(keras_bert.BERT_TINY, hidden_size=width)
    task = Grid(config, *options)
    assert task.choices() == {"learning_rate": rates, "batch_size": [32], "epochs": [3], "seed": [1]}
    given = {"learning_rate": [1e-5], "batch_size": [8], "epochs": [1, 2], "seed": [0, 4]}
    assert task.choices(**given) == given


@pytest.mark.parametrize(
    ("losses", "rate", "found"),
    [
        ([0.7, 0.69] * 10, 3e-5, "from 0.695 to 0.695. If the scores are low, try a learning_rate of 9e-05 or 0.0003,"),
        ([0.7] * 20, 1e-2, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 20, 1e-6, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 18 + [0.66] * 2, 3e-5, None),
        ([0.7] * 9, 3e-5, None),
        ([0.7] * 20, 0.0, None),
    ],
)
def test_advice(losses, rate, found):
    lines = [{"kind": "train", "a_loss": loss / 2, "b_loss": loss / 2, "learning_rate": rate} for loss in losses]
    text = advice([*lines, {"kind": "evaluation", "loss": 9.0}], rate, [3e-4])
    assert text is None if found is None else found in text
