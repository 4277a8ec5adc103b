"""A BiLSTM on top of the encoder, and the pooler of left-to-right encoders."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_equal_the_formulas(config, batch, causal):
    encoder = keras_bert.build_encoder(config, causal=causal)
    model = keras_bert.models.build_bilstm_encoder(encoder)
    outputs, states = model(batch), to_numpy(encoder(batch)["sequence_output"])
    mask, lengths = batch["padding_mask"], batch["padding_mask"].sum(1)
    layers = keras_bert.describe(model).layers
    sequence = to_numpy(layers["encoder_bilstm"](states, mask))
    np.testing.assert_allclose(to_numpy(outputs["sequence_output"]), sequence, atol=1e-6)
    # A left-to-right encoder pools the last token, since [CLS] sees only itself.
    pooled = sequence[np.arange(3), lengths - 1 if causal else 0]
    kernel, bias = layers["pooler"].dense.get_weights()
    np.testing.assert_allclose(to_numpy(outputs["pooled_output"]), np.tanh(pooled @ kernel + bias), atol=1e-6)


def test_the_pooled_token_of_left_to_right_encoders(config, batch):
    encoder = keras_bert.build_encoder(config, causal=True)
    pooled, padded = to_numpy(encoder(batch)["pooled_output"]), batch["padding_mask"].sum(1)
    for row, length in enumerate(padded):
        alone = encoder({name: value[row : row + 1, :length] for name, value in batch.items()})["pooled_output"]
        np.testing.assert_allclose(to_numpy(alone)[0], pooled[row], atol=1e-6)
    empty = encoder({**batch, "padding_mask": np.zeros_like(batch["padding_mask"])})["pooled_output"]
    assert np.isfinite(to_numpy(empty)).all()


@pytest.mark.parametrize(("format", "head"), [("huggingface", "question_answering"), ("keras", "classification")])
def test_models_on_it_are_saved_and_loaded(config, pieces, tmp_path, format, head):
    encoder = keras_bert.models.build_bilstm_encoder(keras_bert.build_encoder(config, causal=True, name="tower"))
    model = HEADS[head].build(encoder)
    keras_bert.save(model, tmp_path / head, pieces, format=format)
    bert = keras_bert.load(tmp_path / head)
    assert (bert.head, bert.bilstm, bert.causal) == (head, True, True)
    found, expected = keras_bert.describe(bert.model()), keras_bert.describe(model)
    assert dataclasses.replace(found, layers={}) == dataclasses.replace(expected, layers={})
    for name, layer in expected.layers.items():
        for weight, value in zip(found.layers[name].get_weights(), layer.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, value, err_msg=name)


def test_it_is_added_to_a_loaded_encoder(config, batch, pieces, tmp_path):
    encoder = keras_bert.build_encoder(config)
    keras_bert.save(encoder, tmp_path, pieces)
    keras.utils.set_random_seed(5)
    bert = keras_bert.load(tmp_path, bilstm=True)
    layers = keras_bert.describe(bert.encoder).layers
    states = layers["encoder_bilstm"].input[0]
    found = keras.Model(bert.encoder.input, states)(batch)
    np.testing.assert_allclose(to_numpy(found), to_numpy(encoder(batch)["sequence_output"]), atol=1e-6)
    assert float(np.abs(layers["encoder_bilstm"].forward.cell.kernel).max()) > 0


def test_what_is_refused(config, pieces, tmp_path):
    encoder = keras_bert.models.build_bilstm_encoder(keras_bert.build_encoder(config))
    for build in (
        lambda: keras_bert.models.build_bilstm_encoder(encoder),
        lambda: keras_bert.models.build_bilstm_tagger(encoder, 3, features="last"),
    ):
        with pytest.raises(ValueError, match="must be a model from build_encoder. Received: an encoder with a BiLSTM"):
            build()
    left_to_right = keras_bert.models.build_bilstm_encoder(keras_bert.build_encoder(config, causal=True))
    with pytest.raises(ValueError, match="a BiLSTM, which would show a left-to-right model the tokens to predict"):
        keras_bert.build_pretrainer(left_to_right, next_sentence=False)
    # transformers pools [CLS] of a left-to-right model, which sees only itself.
    causal = keras_bert.build_classifier(keras_bert.build_encoder(config, causal=True), 3)
    keras_bert.save(causal, tmp_path / "other", pieces)
    values = json.loads((tmp_path / "other" / "config.json").read_text())
    del values["keras_bert"]
    (tmp_path / "other" / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"config.json: with `is_decoder`, \[CLS\] sees only itself"):
        keras_bert.load(tmp_path / "other")
    assert keras_bert.load(tmp_path / "other", head="encoder").causal
