"""What all runs of a grid share."""

import pytest

from keras_bert.runs.hyperparameters import Hyperparameters, PretrainingHyperparameters


def test_lora_and_packing_are_among_the_values_only_where_they_are_used():
    plain = Hyperparameters().to_dict()
    used = Hyperparameters(lora_rank=8, pack=True).to_dict()
    assert used.keys() - plain.keys() == {"lora_rank", "lora_alpha", "pack"}
    assert used["lora_rank"] == 8
    assert used["pack"] is True
    assert used["lora_alpha"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gradient_accumulation", 0),
        ("weight_decay", -0.1),
        ("epsilon", 0.0),
    ],
)
def test_values_that_cannot_be(name, value):
    with pytest.raises(ValueError, match=name):
        Hyperparameters(**{name: value})


def test_defaults_of_pretraining_follow_the_paper():
    settings = PretrainingHyperparameters()
    assert settings.learning_rate == 1e-4
    assert settings.optimizer == "adamw"
    assert settings.bias_correction is False
