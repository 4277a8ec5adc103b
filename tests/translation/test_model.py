"""What the masks of the encoder-decoder hide, its description, and configs that are refused."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.translation.model import build_transformer
from tests.translation.conftest import CONFIG, batch, logits


def test_masks_leak_nothing(model):
    """Neither later target tokens nor padding change a logit by a single bit."""
    inputs = batch()
    before = logits(model, inputs)
    for position in (1, 3):  # All pairs of tokens are in `test_attention_scores`.
        changed = {**inputs, "target_ids": inputs["target_ids"].copy()}
        changed["target_ids"][:, position:] = (changed["target_ids"][:, position:] + 7) % 23
        np.testing.assert_array_equal(logits(model, changed)[:, :position], before[:, :position])
    changed = {**inputs, "source_ids": np.where(inputs["source_mask"] == 1, inputs["source_ids"], 9)}
    np.testing.assert_array_equal(logits(model, changed), before)
    changed["source_ids"][0, 0] += 1
    assert np.abs(logits(model, changed)[0] - before[0]).min() > 0


def test_attention_scores(model):
    scored = build_transformer(CONFIG, attention_scores=True)
    scored.set_weights(model.get_weights())
    inputs = batch()
    outputs = {
        name: keras.tree.map_structure(keras.ops.convert_to_numpy, value) for name, value in scored(inputs).items()
    }
    np.testing.assert_allclose(outputs["logits"], logits(model, inputs), atol=1e-6)
    shapes = {"encoder_attention": (2, 2, 6, 6), "decoder_attention": (2, 2, 5, 5), "cross_attention": (2, 2, 5, 6)}
    for (name, shape), count in zip(shapes.items(), (2, 1, 1), strict=True):
        assert [part.shape for part in outputs[name]] == [shape] * count
        np.testing.assert_allclose(outputs[name][0].sum(-1), 1, atol=1e-6)
    assert (outputs["cross_attention"][0][1, :, :, 4:] == 0).all()
    assert (np.triu(outputs["decoder_attention"][0], 1) == 0).all()


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
