"""The encoder-decoder, recognized by its graph."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.translation.model import build_transformer
from tests.translation.conftest import CONFIG, batch, logits


@pytest.mark.parametrize(
    ("changes", "scores"), [({}, True), ({"positions": "learned", "output_bias": True, "hidden_act": "gelu"}, False)]
)
def test_description(changes, scores, tmp_path):
    config = dataclasses.replace(CONFIG, **changes)
    model = build_transformer(config, attention_scores=scores)
    found = keras_bert.describe(model)
    assert found.head == "translation"
    assert dataclasses.replace(found.config, initializer_range=None) == config
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert keras_bert.translation.describe(again) == keras_bert.describe(again)
    assert keras_bert.describe(again).config == found.config
    if not scores:
        np.testing.assert_array_equal(logits(again, batch()), logits(model, batch()))


def test_other_models_are_refused(model):
    changed = keras.Model(model.input, {"logits": 2 * model.output["logits"]})
    with pytest.raises(ValueError, match="must come from build_transformer.*Multiply.* replaces"):
        keras_bert.translation.describe(changed)
