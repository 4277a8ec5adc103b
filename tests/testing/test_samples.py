"""Tiny models that know the words of texts, and inputs for them."""

import numpy as np
import pytest

import keras_bert
from keras_bert.testing import samples


def test_a_vocabulary_has_the_words_of_nested_values():
    pieces = samples.vocabulary(["Zebras run", ("two, words", {"key": [7, "nested"]})], None)
    assert {"zebras", "run", "two", "words", "key", "nested", ","} <= set(pieces)
    assert len(set(pieces)) == len(pieces)
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"a", "##a", "7", "##7"} <= set(pieces)


@pytest.fixture(scope="module")
def model():
    return keras_bert.build_classifier(samples.tiny_encoder(samples.vocabulary()), 3)


def test_noise_changes_the_weights_of_the_head_alone(model):
    before = {weight.path: np.array(weight) for weight in model.trainable_weights}
    samples.shake(model)
    changed = {weight.path for weight in model.trainable_weights if (np.array(weight) != before[weight.path]).any()}
    assert any("classifier" in path for path in changed)
    assert not any("transformer" in path or "embedding" in path for path in changed)


def test_inputs_have_padding_at_the_ends_of_rows(model):
    inputs = samples.token_inputs(model, rows=4, length=6, seed=2)
    assert inputs.keys() == model.input.keys()
    mask = inputs["padding_mask"]
    assert mask.shape == (4, 6)
    assert mask[0].tolist() == [1] * 6  # The first row is the longest one.
    assert (np.diff(mask, axis=1) <= 0).all()
    assert (mask.sum(1) >= 3).all()
    np.testing.assert_array_equal(inputs["token_ids"] > 0, mask > 0)


def test_inputs_of_a_seed_are_the_same(model):
    ids = samples.token_inputs(model)["token_ids"]
    np.testing.assert_array_equal(samples.token_inputs(model)["token_ids"], ids)
    assert (samples.token_inputs(model, seed=1)["token_ids"] != ids).any()


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (("text",), str),
        (("text", "pair"), tuple),
        (("question", "context"), dict),
        (("text", "choices"), dict),
    ],
)
def test_texts_for_the_inputs_of_a_head(names, form):
    texts = samples.texts_for(names)
    assert len(texts) >= 2
    for text in texts:
        assert isinstance(text, form)
        if form is dict:
            assert text.keys() == set(names)
