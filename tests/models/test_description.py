"""What the layers of a model tell, and models on token ids that refuse texts."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.models.description import blocks_of, check_model, hint, is_encoder_layer

TEXTS = ["A charming film.", "Dull."]


def test_describe_recovers_all_settings(config):
    config = dataclasses.replace(config, classifier_dropout=0.3, hidden_act="gelu", layer_norm_eps=1e-6)
    encoder = keras_bert.build_encoder(config, causal=True, positions="sinusoid")
    description = keras_bert.describe(keras_bert.build_classifier(encoder, 5, dropout=0.3))
    assert description.config == config
    assert description.head == "classification"
    assert description.num_classes == 5
    assert description.causal
    assert description.positions == "sinusoid"
    pretrainer = keras_bert.build_pretrainer(encoder, next_sentence=False)
    assert not keras_bert.describe(pretrainer).options["next_sentence"]


def test_names_of_the_layers_of_an_encoder():
    assert is_encoder_layer("block_11")
    assert is_encoder_layer("position_bias")
    assert not is_encoder_layer("block_11_own")
    assert not is_encoder_layer("classifier")


def test_blocks_are_in_order():
    layers = {f"block_{number}": number for number in reversed(range(11))}
    assert blocks_of(layers) == list(range(11))
    assert blocks_of({"block_1": 1}) == []


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match="expected a Keras model: .*`bert.encoder`"):
        check_model("bert")


def test_hints_about_models_for_training():
    assert "for training only" in hint(keras.Sequential(name="packed_bert"))
    assert hint(keras.Sequential(name="mine")) == ""


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_texts_for_a_model_on_ids(build, method):
    model = build("classification")
    message = f"^`{method}` of a model on token ids takes no texts. .* Received: 'A charming film.'$"
    for texts in (
        TEXTS,
        np.array(TEXTS),
        (TEXTS, TEXTS),
        {"text": np.array(TEXTS, object)},
        [{"text": TEXTS[0]}],
        [TEXTS],
    ):
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(texts)
