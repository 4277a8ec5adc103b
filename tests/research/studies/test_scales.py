"""Scales of the studies."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert.config import named_config
from research.rivals.config import named_rival
from research.studies.definitions import TASKS
from research.studies.scales import SCALES

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
def test_sizes_are_known_and_all_tasks_have_a_recipe(scale):
    assert named_config(scale.config)
    for name in (scale.bilm, scale.bilstm, scale.bidaf):
        assert named_rival(name, scale.vocab_size)
    for task in TASKS:
        recipe = scale.recipe(task)
        assert recipe.epochs > 0
        assert len(recipe.learning_rates) > 0


def test_the_scale_of_the_paper():
    """A million steps, of which 90% have short sequences; features are trained on for 20 epochs."""
    scale = SCALES["base"]
    assert scale.steps == 1_000_000
    assert scale.phases[0] == {"length": 128, "steps": 900_000, "batch": 256}
    assert scale.recipe("mrpc").learning_rates == (5e-5, 4e-5, 3e-5, 2e-5)
    assert scale.recipe("squad").sequence_length == 384
    assert scale.recipe("ner_features").epochs == 20


def test_other_tasks_have_the_recipe_of_glue():
    scale = SCALES["demo"]
    assert scale.recipe("rte") is scale.tasks["glue"]
